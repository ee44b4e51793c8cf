// Random convolutional networks, for tests of the whole path.
#pragma once

#include <fmt/format.h>

#include <string>

#include "passes/net.hpp"

namespace braze::test {

/// Grows a network from parts that real ones are made of, with awkward sizes.
class RandomNetwork {
 public:
  explicit RandomNetwork(unsigned seed) : net(seed) {
    ValueId x = net.input(
        "x", {net.pick(1, 2), net.pick(1, 3) * net.pick(1, 6), net.pick(5, 21), net.pick(5, 21)});
    const std::int64_t parts = net.pick(3, 9);
    for (std::int64_t i = 0; i < parts; ++i) x = part(x);
    net.output(x);
    if (net.pick(0, 1) == 0) net.output(head(x));
  }

  Net net;

 private:
  std::string id(const char* what) { return fmt::format("{}{}", what, count_++); }
  const Shape& shape(ValueId x) const { return net.shape(x); }

  ValueId activation(ValueId x) {
    static constexpr UnaryFn kFns[] = {
        UnaryFn::kRelu,      UnaryFn::kLeakyRelu, UnaryFn::kSigmoid, UnaryFn::kHardSigmoid,
        UnaryFn::kHardSwish, UnaryFn::kSilu,      UnaryFn::kMish,    UnaryFn::kGelu,
        UnaryFn::kTanh,      UnaryFn::kElu,       UnaryFn::kClip,    UnaryFn::kSoftplus};
    const UnaryFn fn = kFns[net.pick(0, std::ssize(kFns) - 1)];
    if (fn == UnaryFn::kClip) return net.clip(id("clip"), x, -0.5, 1.5);
    return net.unary(id("act"), fn, x, fn == UnaryFn::kHardSigmoid ? 0.2 : 0.1,
                     fn == UnaryFn::kHardSigmoid ? 0.5 : 0);
  }

  ValueId conv(ValueId x, std::int64_t channels, std::int64_t kernel, std::int64_t stride,
               std::int64_t group = 1) {
    const std::int64_t dilation = kernel > 1 && stride == 1 ? net.pick(1, 2) : 1;
    const std::int64_t reach = dilation * (kernel - 1);
    Window window{{kernel, kernel},
                  {stride, stride},
                  {dilation, dilation},
                  {reach / 2, reach / 2},
                  {reach - reach / 2, reach - reach / 2}};
    if (net.pick(0, 5) == 0 && kernel > 1) window.pads_begin[1] = 0;  // asymmetric
    if (shape(x)[2] + window.pads_begin[0] + window.pads_end[0] <= reach ||
        shape(x)[3] + window.pads_begin[1] + window.pads_end[1] <= reach)
      return x;
    return net.conv(id("conv"), x, channels, window, group, net.pick(0, 3) != 0);
  }

  ValueId part(ValueId x) {
    const std::int64_t channels = shape(x)[1];
    switch (net.pick(0, 13)) {
      case 0:
        return activation(conv(x, net.pick(1, 40), 3, net.pick(1, 2)));
      case 1:
        return activation(conv(x, net.pick(1, 70), 1, 1));
      case 2:
        return activation(
            conv(x, channels, net.pick(1, 2) * 2 + 1, net.pick(1, 2), channels));  // depthwise
      case 3: {  // residual, before or after the activation
        const ValueId y = conv(conv(x, channels, 1, 1), channels, 1, 1);
        return net.pick(0, 1) == 0 ? activation(net.add(id("sum"), x, y))
                                   : net.add(id("sum"), activation(y), x);
      }
      case 4: {  // squeeze-excite
        const ValueId mean =
            net.op(id("mean"), Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {x});
        const ValueId gate = net.unary(id("gate"), UnaryFn::kSigmoid,
                                       net.conv(id("fc"), mean, channels, window2d(1)));
        return net.mul(id("scale"), x, gate);
      }
      case 5: {  // branches that meet in a concat
        const ValueId a = activation(conv(x, net.pick(1, 20), 1, 1));
        const ValueId b = conv(x, net.pick(1, 20), 1, 1);
        return net.op(id("cat"), Concat{1}, {a, b, x});
      }
      case 6: {  // shuffle unit
        if (channels % 2 != 0 || channels < 4) return x;
        const ValueId left = net.slice(id("left"), x, 1, 0, channels / 2);
        const ValueId right =
            conv(net.slice(id("right"), x, 1, channels / 2, channels), channels / 2, 1, 1);
        return net.op(id("shuffle"), ChannelShuffle{2},
                      {net.op(id("cat"), Concat{1}, {left, right})});
      }
      case 7: {
        if (shape(x)[2] < 4 || shape(x)[3] < 4) return x;
        const PoolFn fn = net.pick(0, 1) == 0 ? PoolFn::kMax : PoolFn::kAverage;
        return net.op(
            id("pool"),
            Pool{fn, window2d(3, 1, net.pick(1, 2)), net.pick(0, 1) == 0, net.pick(0, 1) == 0},
            {x});
      }
      case 8: {
        if (shape(x)[2] > 24) return x;
        Window window = window2d(net.pick(2, 3), net.pick(0, 1), 2);
        return net.conv_transpose(id("up"), x, net.pick(1, 20), window, 1);
      }
      case 9:
        return net.batch_norm(id("bn"), x);
      case 10:
        return net.binary(id("prelu"), BinaryFn::kPRelu, x, net.random({channels, 1, 1}, 0, 0.5));
      case 11:
        return channels % 4 == 0 ? net.op(id("d2s"), DepthToSpace{2, net.pick(0, 1) == 0}, {x}) : x;
      case 12: {
        if (shape(x)[2] > 24) return x;
        Resize resize;
        resize.mode = net.pick(0, 1) == 0 ? ResizeMode::kNearest : ResizeMode::kLinear;
        resize.coordinate = resize.mode == ResizeMode::kNearest ? CoordinateMode::kAsymmetric
                                                                : CoordinateMode::kHalfPixel;
        resize.nearest = NearestMode::kFloor;
        resize.scales = {1, 1, 2, 2};
        resize.sizes = {shape(x)[0], channels, shape(x)[2] * 2, shape(x)[3] * 2};
        resize.roi = {0, 0, 0, 0, 1, 1, 1, 1};
        return net.op(id("resize"), resize, {x});
      }
      default:
        return net.pad2d(id("pad"), x, {1, 0, 0, 1}, net.pick(0, 1) == 0 ? 0 : 0.5);
    }
  }

  /// Classifier or detection head.
  ValueId head(ValueId x) {
    if (net.pick(0, 1) == 0) {
      const ValueId rows = net.transpose(id("t"), conv(x, 6, 1, 1), {0, 2, 3, 1});
      const std::int64_t count = shape(rows)[1] * shape(rows)[2] * shape(rows)[3] / 3;
      return net.op(id("softmax"), Softmax{2},
                    {net.reshape(id("rows"), rows, {shape(rows)[0], count, 3})});
    }
    const std::int64_t features = shape(x)[1];
    const ValueId mean =
        net.op(id("mean"), Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {x});
    const ValueId flat = net.reshape(id("flat"), mean, {shape(x)[0], features});
    return net.op(id("fc"), Gemm{1, 1, false, true},
                  {flat, net.random({10, features}), net.random({10})});
  }

  int count_ = 0;
};

}  // namespace braze::test
