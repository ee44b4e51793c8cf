// Random stretches of convolutions, pools, elementwise nodes and those that move channels or repeat
// pixels, that can run as one group.
#pragma once

#include <fmt/format.h>

#include <string>

#include "passes/net.hpp"

namespace braze::test {

class RandomChain {
 public:
  explicit RandomChain(unsigned seed) : net(seed) {
    ValueId x = net.input("x", {net.pick(1, 2), net.pick(1, 20), net.pick(6, 24), net.pick(3, 24)});
    const std::int64_t parts = net.pick(2, 5);
    for (std::int64_t i = 0; i < parts; ++i) {
      const ValueId before = x;
      x = part(x);
      if (x != before && net.pick(0, 3) == 0) net.output(x);  // stored, and the group goes on
    }
    x = conv(x, net.pick(1, 36), net.pick(0, 1) * 2 + 1, 1, 1);
    net.output(net.pick(0, 1) == 0 ? x : activation(x));
  }

  Net net;

 private:
  std::string id(const char* what) { return fmt::format("{}{}", what, count_++); }
  const Shape& shape(ValueId x) const { return net.shape(x); }

  ValueId activation(ValueId x) {
    static constexpr UnaryFn kFns[] = {UnaryFn::kRelu, UnaryFn::kHardSwish, UnaryFn::kSilu,
                                       UnaryFn::kLeakyRelu};
    return net.unary(id("act"), kFns[net.pick(0, std::ssize(kFns) - 1)], x, 0.1);
  }

  /// Any window that fits; pads may be uneven, or larger than the filter's reach.
  ValueId conv(ValueId x, std::int64_t channels, std::int64_t kernel, std::int64_t stride,
               std::int64_t group) {
    Window window;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::int64_t dilation = kernel > 1 ? net.pick(1, 2) : 1;
      const std::int64_t reach = dilation * (kernel - 1);
      const std::int64_t begin = net.pick(0, reach), end = net.pick(0, reach);
      if (shape(x)[axis + 2] + begin + end <= reach) return x;
      window.kernel.push_back(kernel);
      window.strides.push_back(stride);
      window.dilations.push_back(dilation);
      window.pads_begin.push_back(begin);
      window.pads_end.push_back(end);
    }
    return net.conv(id("conv"), x, channels, window, group, net.pick(0, 3) != 0);
  }

  ValueId part(ValueId x) {
    const std::int64_t channels = shape(x)[1];
    switch (net.pick(0, 11)) {
      case 0:
        return activation(conv(x, net.pick(1, 40), 3, net.pick(1, 2), 1));
      case 1:
        return activation(conv(x, net.pick(1, 70), 1, net.pick(1, 2), 1));
      case 2:  // depthwise
        return activation(conv(x, channels, net.pick(1, 2) * 2 + 1, net.pick(1, 2),
                               std::max<std::int64_t>(channels, 2) == channels ? channels : 1));
      case 3: {  // residual
        const ValueId y = net.conv(id("res"), x, channels, window2d(3, 1));
        const ValueId z = net.conv(id("res"), activation(y), channels, window2d(1));
        return net.pick(0, 1) == 0 ? activation(net.add(id("sum"), x, z))
                                   : net.add(id("sum"), activation(z), x);
      }
      case 4: {
        if (shape(x)[2] < 5 || shape(x)[3] < 5) return x;
        const PoolFn fn = net.pick(0, 1) == 0 ? PoolFn::kMax : PoolFn::kAverage;
        const std::int64_t kernel = net.pick(2, 3);
        const Window window = window2d(kernel, net.pick(0, kernel - 1), net.pick(1, 2));
        return net.op(id("pool"), Pool{fn, window, net.pick(0, 1) == 0, net.pick(0, 1) == 0}, {x});
      }
      case 5:
        return net.mul(id("scale"), activation(conv(x, channels, 1, 1, 1)),
                       net.random({channels, 1, 1}));
      case 6:
        if (shape(x)[2] > 24 || shape(x)[3] > 24) return x;
        return net.upsample(id("up"), x, net.pick(1, 3), net.pick(1, 3));
      case 7:  // two branches, one of them perhaps a part twice
        return net.op(id("concat"), Concat{1},
                      net.pick(0, 1) == 0
                          ? std::vector{conv(x, net.pick(1, 20), 1, 1, 1), activation(x)}
                          : std::vector{x, same(x, net.pick(1, 20)), x});
      case 8: {
        const std::int64_t begin = net.pick(0, channels - 1), end = net.pick(begin + 1, channels);
        return net.slice(id("slice"), x, 1, begin, end, net.pick(1, 2));
      }
      case 9:  // a unit of ShuffleNet
      case 10:
        return channels < 2 ? x : shuffle_unit(x);
      default:
        return activation(x);
    }
  }

  /// Keeps rows and columns.
  ValueId same(ValueId x, std::int64_t channels) {
    return net.conv(id("same"), x, channels, window2d(3, 1));
  }

  ValueId shuffle_unit(ValueId x) {
    const std::int64_t half = shape(x)[1] / 2, rest = shape(x)[1] - half;
    std::vector<ValueId> parts;
    if (net.pick(0, 1) == 0) {
      parts = net.split(id("split"), x, {half, rest});
    } else {
      parts = {net.slice(id("slice"), x, 1, 0, half),
               net.slice(id("slice"), x, 1, half, half + rest)};
    }
    const std::int64_t channels = net.pick(0, 1) == 0 ? half : net.pick(1, 40);
    const ValueId y =
        net.conv(id("last"), activation(same(parts[1], net.pick(1, 24))), channels, window2d(1));
    std::vector<ValueId> both = {parts[0], net.pick(0, 1) == 0 ? y : activation(y)};
    if (net.pick(0, 1) == 0) std::swap(both[0], both[1]);
    const ValueId all = net.op(id("concat"), Concat{1}, both);
    std::int64_t groups = net.pick(2, 5);
    if (groups == 5) groups = std::max<std::int64_t>(shape(all)[1] / 2, 2);
    while (shape(all)[1] % groups != 0) --groups;
    return groups == 1 ? all : net.op(id("shuffle"), ChannelShuffle{groups}, {all});
  }

  int count_ = 0;
};

}  // namespace braze::test
