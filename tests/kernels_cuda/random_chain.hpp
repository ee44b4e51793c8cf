// Random chains of convolutions. A structure (operators, activations, square filters) is drawn from
// a small number, so that many chains share a kernel's source; sizes, strides, dilations and
// paddings are drawn freely.
#pragma once

#include <algorithm>
#include <string>

#include "kernels_cuda/chain_check.hpp"

namespace braze::cuda::testing {

class RandomChain {
 public:
  static constexpr unsigned kStructures = 24;

  RandomChain(unsigned seed, DType dtype)
      : net(seed), terms_(dtype == DType::kBFloat16 ? 2 : 3), structure_(seed % kStructures) {
    const Shape shape = {net.pick(1, 2), channels(), net.pick(4, 15), net.pick(4, 15)};
    start_ = x_ = net.image("x", shape);
    const unsigned form = seed % kStructures % 4;
    const int stages = form == 0 ? 2 : form == 1 ? 3 : choose(2, 4);
    if (form == 3) {
      inverted_residual();
    } else {
      for (int i = 0; i < stages; ++i) stage(form == 2 && i > 0 ? choose(0, 3) : 0);
      while (convolutions_ < 2) stage(0);
    }
    last = last_;
    net.output(x_);
  }

  ExactNet net;
  std::string first = "s0", last;

 private:
  int choose(int low, int high) { return std::uniform_int_distribution(low, high)(structure_); }
  std::int64_t channels() {
    const std::int64_t sizes[] = {net.pick(1, 7), 8, 16, net.pick(9, 40), 24, 32, net.pick(41, 70)};
    return sizes[net.pick(0, 6)];
  }
  std::string id(const char* what) { return what + std::to_string(count_++); }
  Shape shape() const { return net.shape(x_); }

  /// A window that fits the image; `kernel` along both axes.
  Window window(std::int64_t kernel, bool same) {
    Window w;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::int64_t dilation = same || net.pick(0, 3) > 0 ? 1 : 2;
      const std::int64_t cover = (kernel - 1) * dilation + 1;
      const std::int64_t begin = same ? kernel / 2 : net.pick(0, cover - 1);
      std::int64_t end = same ? kernel / 2 : net.pick(0, cover - 1);
      end = std::max(end, cover - begin - shape()[axis + 2]);
      w.kernel.push_back(kernel);
      w.strides.push_back(same ? 1 : net.pick(1, 2));
      w.dilations.push_back(dilation);
      w.pads_begin.push_back(begin);
      w.pads_end.push_back(end);
    }
    return w;
  }

  void activate() {
    const int which = choose(0, 2);
    if (which == 1) x_ = net.unary(id("r"), UnaryFn::kRelu, x_);
    if (which == 2) x_ = net.clip(id("r"), x_, -6, 6);
  }
  std::string conv_id() {
    last_ = "s" + std::to_string(convolutions_++);
    return last_;
  }

  /// 0: dense, 1: depthwise, 2: pool, 3: dense and a sum with what it read
  void stage(int what) {
    const std::int64_t kernel = choose(0, 1) == 0 ? 1 : 3;
    const ValueId before = x_;
    if (what == 2) {
      last_ = id("pool");
      x_ = net.op(last_, Pool{PoolFn::kMax, window(2, false), false, false, false}, {x_});
      return;
    }
    if (what == 1 && shape()[1] > 1) {
      x_ = net.conv(conv_id(), x_, shape()[1], window(3, false), shape()[1], true, terms_);
    } else {
      const bool sum = what == 3;
      x_ = net.conv(conv_id(), x_, sum ? shape()[1] : channels(), window(kernel, sum), 1,
                    choose(0, 3) > 0, terms_);
      if (sum) x_ = net.add(id("sum"), x_, before);
    }
    activate();
  }

  void inverted_residual() {
    const bool residual = choose(0, 1) == 0;
    const std::int64_t in = shape()[1], hidden = in > 16 ? 2 * in : 6 * in + 1;
    x_ = net.clip(id("r"), net.conv(conv_id(), x_, hidden, test::window2d(1), 1, true, terms_), 0,
                  6);
    x_ = net.conv(conv_id(), x_, hidden, window(3, residual), hidden, true, terms_);
    activate();
    x_ = net.conv(conv_id(), x_, residual ? in : channels(), test::window2d(1), 1, true, terms_);
    if (residual) x_ = net.add(id("sum"), start_, x_);
  }

  int terms_, count_ = 0, convolutions_ = 0;
  std::mt19937 structure_;
  ValueId start_, x_;
  std::string last_;
};

}  // namespace braze::cuda::testing
