#include "passes/bait.hpp"

#include <cmath>
#include <functional>
#include <numbers>

namespace braze::test {
namespace {

/// Grows a chain step by step. Each member function adds one thing behind x_; ones that do not fit
/// its shape leave it.
class Bait {
 public:
  Bait(unsigned seed, int steps) : net_(seed) {
    x_ = net_.input("x", {net_.pick(1, 2), net_.pick(1, 4) * 2, net_.pick(3, 8), net_.pick(3, 8)});
    for (int step = 0; step < steps; ++step) {
      older_.push_back(x_);
      (this->*kSteps[static_cast<std::size_t>(net_.pick(0, std::ssize(kSteps) - 1))])();
      if (net_.pick(0, 15) == 0 && x_ != older_.front()) net_.output(x_);
    }
    if (net_.pick(0, 2) == 0) classifier();
    net_.output(net_.unary(id("end"), UnaryFn::kTanh, x_));
  }

  Net take() { return std::move(net_); }

 private:
  std::string id(const std::string& what) { return what + std::to_string(count_++); }
  [[nodiscard]] const Shape& shape() const { return net_.shape(x_); }
  bool coin() { return net_.pick(0, 1) == 1; }
  /// One of the divisors of n.
  std::int64_t divisor(std::int64_t n) {
    for (;;) {
      if (const std::int64_t d = net_.pick(1, n); n % d == 0) return d;
    }
  }
  ValueId binary(BinaryFn fn, ValueId a, ValueId b) {
    const bool commutes = fn == BinaryFn::kAdd || fn == BinaryFn::kMul || fn == BinaryFn::kMin ||
                          fn == BinaryFn::kMax;
    if (commutes && coin()) std::swap(a, b);
    return net_.binary(id(to_string(fn)), fn, a, b);
  }
  ValueId mul(ValueId a, ValueId b) { return binary(BinaryFn::kMul, a, b); }
  ValueId add(ValueId a, ValueId b) { return binary(BinaryFn::kAdd, a, b); }
  ValueId scalar(double value) {
    return net_.constant(coin() ? Shape{} : Shape(static_cast<std::size_t>(net_.pick(1, 4)), 1),
                         {value});
  }
  ValueId unary(UnaryFn fn, ValueId x) { return net_.unary(id(to_string(fn)), fn, x); }
  /// x * c, as a multiplication or as a division.
  ValueId scaled(ValueId x, double c) {
    return coin() ? mul(x, scalar(c)) : net_.div(id("div"), x, scalar(1 / c));
  }

  Window random_window() {
    const std::int64_t kernel = net_.pick(1, 3);
    Window window = window2d(kernel, net_.pick(0, kernel - 1), net_.pick(1, 2));
    if (coin()) window.pads_end[1] = net_.pick(0, kernel - 1);
    return window;
  }
  [[nodiscard]] bool fits(const Window& window) const {
    for (std::size_t i = 0; i < 2; ++i) {
      if (shape()[i + 2] + window.pads_begin[i] + window.pads_end[i] < window.kernel[i])
        return false;
    }
    return true;
  }

  void convolution() {
    const Window window = random_window();
    if (!fits(window)) return;
    const std::int64_t group = coin() ? 1 : divisor(shape()[1]);
    const std::int64_t channels = group * net_.pick(1, std::max<std::int64_t>(1, 8 / group));
    x_ = net_.conv(id("conv"), x_, channels, window, group, coin());
  }
  void transposed_convolution() {
    const Window window = random_window();
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t extent = (shape()[i + 2] - 1) * window.strides[i] + window.kernel[i] -
                                  window.pads_begin[i] - window.pads_end[i];
      if (extent < 1 || extent > 12) return;
    }
    const std::int64_t group = divisor(shape()[1]);
    x_ = net_.conv_transpose(id("deconv"), x_, group * net_.pick(1, 2), window, group, coin());
  }
  void batch_norm() { x_ = net_.batch_norm(id("bn"), x_); }
  /// One operation with a constant that varies along channels, nothing, or what only looks like
  /// channels.
  void constant() {
    const Shape& s = shape();
    const Shape shapes[] = {{},     {1},       {s[1], 1, 1},    {1, s[1], 1, 1},
                            {s[3]}, {s[2], 1}, {1, 1, 1, s[3]}, {s[1], s[2], s[3]}};
    const ValueId c = net_.random(shapes[net_.pick(0, 7)], 0.5, 2);
    switch (net_.pick(0, 4)) {
      case 0:
        x_ = add(x_, c);
        break;
      case 1:
        x_ = mul(x_, c);
        break;
      case 2:
        x_ = coin() ? net_.sub(id("sub"), x_, c) : net_.sub(id("sub"), c, x_);
        break;
      case 3:
        x_ = net_.div(id("div"), x_, c);
        break;
      default:
        x_ = unary(UnaryFn::kNeg, x_);
    }
  }
  void clamp() {
    const double low = coin() ? -1 : 0;
    switch (net_.pick(0, 3)) {
      case 0:
        x_ = unary(UnaryFn::kRelu, x_);
        break;
      case 1:
        x_ = net_.clip(id("clip"), x_, low, coin() ? 6 : kInfinity);
        break;
      case 2:
        x_ = binary(BinaryFn::kMin, binary(BinaryFn::kMax, x_, scalar(low)), scalar(6));
        break;
      default:
        x_ = net_.unary(id("leaky"), UnaryFn::kLeakyRelu, x_, 0.1);
    }
  }
  /// A gate that is read by a product with x, or with something else.
  void gated() {
    const ValueId other = net_.pick(0, 4) == 0 ? unary(UnaryFn::kTanh, x_) : x_;
    switch (net_.pick(0, 5)) {
      case 0:
        x_ = mul(other, unary(UnaryFn::kSigmoid, x_));
        break;
      case 1: {
        const ValueId clipped = net_.clip(id("clip"), add(x_, scalar(coin() ? 3 : 2.5)), 0, 6);
        x_ = coin() ? scaled(mul(other, clipped), 1.0 / 6) : mul(other, scaled(clipped, 1.0 / 6));
        break;
      }
      case 2:
        x_ = net_.clip(id("clip"), add(scaled(x_, 0.25), scalar(0.5)), 0, 1);
        break;
      case 3: {
        const ValueId softplus =
            coin() ? unary(UnaryFn::kSoftplus, x_)
                   : unary(UnaryFn::kLog, add(unary(UnaryFn::kExp, x_), scalar(1)));
        x_ = mul(other, unary(UnaryFn::kTanh, softplus));
        break;
      }
      case 4: {
        const ValueId gate =
            add(unary(UnaryFn::kErf, scaled(x_, std::numbers::sqrt2 / 2)), scalar(1));
        x_ = coin() ? scaled(mul(other, gate), 0.5) : mul(scaled(other, 0.5), gate);
        break;
      }
      default: {
        const ValueId cube = binary(BinaryFn::kPow, x_, scalar(3));
        const ValueId inner =
            scaled(add(x_, scaled(cube, 0.044715)), std::sqrt(2 / std::numbers::pi));
        x_ = scaled(mul(other, add(unary(UnaryFn::kTanh, inner), scalar(1))), 0.5);
      }
    }
  }
  void instance_norm() {
    if (net_.pick(0, 3) == 0) return wrapped_instance_norm();
    const Reduce mean{ReduceFn::kMean, coin() ? Ints{2, 3} : Ints{1, 2, 3}};
    const ValueId d = net_.sub(id("sub"), x_, net_.op(id("mean"), mean, {x_}));
    const ValueId square =
        coin() ? binary(BinaryFn::kPow, d, scalar(2)) : net_.mul(id("square"), d, d);
    const ValueId root =
        unary(UnaryFn::kSqrt, add(net_.op(id("variance"), mean, {square}), scalar(0.1)));
    x_ = coin() ? net_.div(id("norm"), d, root) : mul(d, unary(UnaryFn::kReciprocal, root));
  }
  /// Of the channels, or of groups of them.
  void wrapped_instance_norm() {
    const Shape s = shape();
    const std::int64_t groups = coin() ? s[1] : divisor(s[1]);
    const ValueId flat = net_.reshape(id("flat"), x_, {s[0], groups, s[1] / groups * s[2] * s[3]});
    const std::vector<ValueId> inputs = {flat, net_.random({groups}, 0.5, 2),
                                         net_.random({groups})};
    x_ = net_.reshape(id("back"), net_.op(id("norm"), InstanceNorm{0.1}, inputs), s);
  }
  void pad() {
    const auto mode = net_.pick(0, 3) == 0 ? PadMode::kEdge : PadMode::kConstant;
    const std::int64_t low = net_.pick(0, 3) == 0 ? -1 : 0;
    if (shape()[2] < 3 || shape()[3] < 3 || shape()[2] > 10 || shape()[3] > 10) return;
    const Ints pads = {net_.pick(low, 1), net_.pick(low, 1), net_.pick(0, 1), net_.pick(low, 1)};
    const std::int64_t reader = net_.pick(0, 5);  // 0: a maximum, 1: a mean, others: whatever comes
    const double fill[] = {0, 0, 0, 1};
    x_ = net_.pad2d(id("pad"), x_, pads, reader == 0 ? -kInfinity : fill[net_.pick(0, 3)], mode);
    if (reader > 1 || !fits(window2d(2))) return;
    const Pool pool{reader == 0 ? PoolFn::kMax : PoolFn::kAverage, window2d(2), false, coin()};
    x_ = net_.op(id("pool"), pool, {x_});
  }
  void pool() {
    Window window = random_window();
    if (coin()) window = window2d(2);
    if (coin())
      window.kernel = {shape()[2], shape()[3]},
      window = {window.kernel, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {}};
    for (std::size_t i = 0; i < 2; ++i)
      window.pads_end[i] = std::min(window.pads_end[i], window.kernel[i] - 1);
    if (!fits(window) || element_count(shape()) < 8) return;
    x_ = net_.op(id("pool"), Pool{coin() ? PoolFn::kMax : PoolFn::kAverage, window, false, coin()},
                 {x_});
  }
  /// Reshape, Transpose, Reshape in the order of a shuffle or in any other.
  void shuffle() {
    const Shape s = shape();
    const std::int64_t groups = divisor(s[1]);
    const ValueId split = net_.reshape(id("split"), x_, {s[0], groups, s[1] / groups, s[2], s[3]});
    const Ints perms[] = {{0, 2, 1, 3, 4}, {0, 2, 1, 3, 4}, {0, 1, 2, 4, 3}, {0, 1, 2, 3, 4}};
    x_ = net_.reshape(id("join"), net_.transpose(id("permute"), split, perms[net_.pick(0, 3)]), s);
  }
  void pixel_shuffle() {
    const Shape s = shape();
    if (s[1] % 4 == 0 && s[2] * s[3] <= 36) {
      const bool blocks_first = coin();
      const Shape parts = blocks_first ? Shape{s[0], 2, 2, s[1] / 4, s[2], s[3]}
                                       : Shape{s[0], s[1] / 4, 2, 2, s[2], s[3]};
      const Ints perm = blocks_first ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3};
      const ValueId moved =
          net_.transpose(id("permute"), net_.reshape(id("split"), x_, parts), perm);
      x_ = net_.reshape(id("join"), moved, {s[0], s[1] / 4, 2 * s[2], 2 * s[3]});
    } else if (s[2] % 2 == 0 && s[3] % 2 == 0) {
      const Shape parts = {s[0], s[1], s[2] / 2, 2, s[3] / 2, 2};
      const Ints perm = coin() ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4};
      const ValueId moved =
          net_.transpose(id("permute"), net_.reshape(id("split"), x_, parts), perm);
      x_ = net_.reshape(id("join"), moved, {s[0], 4 * s[1], s[2] / 2, s[3] / 2});
    }
  }
  void focus() {
    const Shape s = shape();
    if (s[2] % 2 != 0 || s[3] % 2 != 0 || s[1] > 4) return;
    std::vector<ValueId> parts;
    for (std::int64_t part = 0; part < 4; ++part) {
      const std::int64_t i = swap_phases_ ? part % 2 : part / 2;
      const std::int64_t j = swap_phases_ ? part / 2 : part % 2;
      parts.push_back(
          net_.slice(id("columns"), net_.slice(id("rows"), x_, 2, i, s[2], 2), 3, j, s[3], 2));
    }
    swap_phases_ = !swap_phases_;
    x_ = net_.op(id("focus"), Concat{1}, parts);
    if (coin()) convolution();
  }
  /// Half of the channels: by Slice, by Gather, or from a reshaped view.
  void half() {
    const Shape s = shape();
    if (s[1] % 2 != 0) return;
    const std::int64_t part = net_.pick(0, 1);
    const ValueId index = net_.constant({}, {static_cast<double>(part)}, DType::kInt64);
    if (coin()) {
      x_ = net_.slice(id("half"), x_, 1, part * s[1] / 2, (part + 1) * s[1] / 2);
    } else if (s[0] == 1 && coin()) {
      const ValueId view = net_.reshape(id("view"), x_, {2, 1, s[1] / 2, s[2], s[3]});
      x_ = net_.op(id("gather"), Gather{0}, {view, index});
    } else {
      std::vector<double> channels(static_cast<std::size_t>(s[1] / 2));
      for (std::size_t i = 0; i < channels.size(); ++i)
        channels[i] = static_cast<double>(2 * static_cast<std::int64_t>(i) + part);
      x_ = net_.op(id("gather"), Gather{1},
                   {x_, net_.constant({s[1] / 2}, channels, DType::kInt64)});
    }
  }
  void there_and_back() {
    const Ints perm = coin() ? Ints{0, 2, 3, 1} : Ints{1, 0, 2, 3};
    Ints back(4);
    for (std::size_t i = 0; i < 4; ++i)
      back[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
    ValueId y = net_.transpose(id("there"), x_, perm);
    if (coin()) y = unary(UnaryFn::kRelu, y);
    x_ = net_.transpose(id("back"), y, back);
  }
  void nothing() {
    switch (net_.pick(0, 4)) {
      case 0:
        x_ = net_.op(id("identity"), Identity{}, {x_});
        break;
      case 1:
        x_ = net_.reshape(id("same"), x_, shape());
        break;
      case 2:
        x_ = mul(x_, scalar(1));
        break;
      case 3:
        x_ = add(x_, scalar(0));
        break;
      default:
        x_ = net_.op(id("where"), Where{},
                     {net_.constant({1}, {1}, DType::kBool), x_, unary(UnaryFn::kExp, scalar(1))});
    }
  }
  /// Adds or multiplies something computed earlier, as it is or expanded from its mean.
  void residual() {
    for (const ValueId other : older_) {
      if (net_.shape(other) != shape() || coin()) continue;
      x_ = coin() ? add(x_, other) : mul(x_, unary(UnaryFn::kSigmoid, other));
      return;
    }
    ValueId gate =
        unary(UnaryFn::kSigmoid, net_.op(id("mean"), Reduce{ReduceFn::kMean, {2, 3}}, {x_}));
    if (coin()) gate = net_.op(id("expand"), Expand{shape()}, {gate});
    x_ = mul(x_, gate);
  }
  /// The same thing twice.
  void twins() { x_ = add(unary(UnaryFn::kTanh, x_), unary(UnaryFn::kTanh, x_)); }
  void classifier() {
    const std::int64_t features = shape()[1] * shape()[2] * shape()[3];
    const ValueId flat = net_.reshape(id("flat"), x_, {shape()[0], features});
    const double bound = 1 / std::sqrt(static_cast<double>(features));
    x_ = net_.op(id("matmul"), MatMul{}, {flat, net_.random({features, 5}, -bound, bound)});
    if (coin()) x_ = net_.batch_norm(id("bn"), x_);
    x_ = add(x_, net_.random(coin() ? Shape{5} : Shape{shape()[0], 1}));
  }

  using Step = void (Bait::*)();
  static constexpr Step kSteps[] = {
      &Bait::convolution,   &Bait::convolution,
      &Bait::convolution,   &Bait::transposed_convolution,
      &Bait::batch_norm,    &Bait::constant,
      &Bait::constant,      &Bait::constant,
      &Bait::clamp,         &Bait::clamp,
      &Bait::gated,         &Bait::gated,
      &Bait::gated,         &Bait::instance_norm,
      &Bait::pad,           &Bait::pad,
      &Bait::pool,          &Bait::shuffle,
      &Bait::pixel_shuffle, &Bait::focus,
      &Bait::half,          &Bait::there_and_back,
      &Bait::nothing,       &Bait::residual,
      &Bait::twins,
  };

  Net net_;
  ValueId x_ = kNoValue;
  std::vector<ValueId> older_;
  bool swap_phases_ = false;
  int count_ = 0;
};

}  // namespace

Net random_bait(unsigned seed, int steps) { return Bait(seed, steps).take(); }

}  // namespace braze::test
