// Depthwise convolution against the interpreter: every loop, border, tail, epilogue and instruction
// set.
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

class ConvDepthwiseOnIsa : public OnIsa {};
BRAZE_ON_EVERY_ISA(ConvDepthwiseOnIsa);

OneNode depthwise(const Shape& x, std::int64_t multiplier, const Window& window, bool bias,
                  unsigned seed) {
  Shape w = {x[1] * multiplier, 1};
  w.insert(w.end(), window.kernel.begin(), window.kernel.end());
  std::vector<Tensor> in = {random_tensor(x, seed), random_tensor(w, seed + 1)};
  if (bias) in.push_back(random_tensor({w[0]}, seed + 2));
  Conv conv;
  conv.window = window;
  conv.group = x[1];
  return OneNode(conv, in, bias ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{1});
}

Window window_2d(std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                 std::int64_t dilation = 1) {
  return {{kernel, kernel}, {stride, stride}, {dilation, dilation},
          {pad, pad},       {pad, pad},       AutoPad::kNotSet};
}

/// u (|y| + 2 sqrt(K) sum |x| |w|) with |x|, |w|, |y| up to 1: 49 taps at most here.
void check(const OneNode& node) {
  check_node(conv_depthwise(), node,
             [](const Tensor& got, const Tensor& want) { expect_close(got, want, 6e-6, 1e-6); });
}

TEST_P(ConvDepthwiseOnIsa, KernelsStridesAndChannelTails) {
  for (const std::int64_t kernel : {1, 3, 5, 7}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t channels : {2, 7, 8, 9, 16, 20, 24, 31, 58, 72, 145}) {
        const Shape x = {1, channels, 11, 13};
        check(depthwise(x, 1, window_2d(kernel, stride, kernel / 2), channels % 2 == 0, 1));
        if (HasFailure())
          FAIL() << fmt::format("kernel {} stride {} channels {}", kernel, stride, channels);
      }
    }
  }
}

TEST_P(ConvDepthwiseOnIsa, EveryWidth) {
  for (std::int64_t width = 1; width <= 19; ++width) {
    for (const std::int64_t kernel : {3, 5}) {
      for (const std::int64_t stride : {1, 2}) {
        check(depthwise({2, 24, 4, width}, 1, window_2d(kernel, stride, kernel / 2), true, 1));
        if (HasFailure())
          FAIL() << fmt::format("kernel {} stride {} width {}", kernel, stride, width);
      }
    }
  }
}

TEST_P(ConvDepthwiseOnIsa, PadsDilationsAndOddWindows) {
  for (const Window& window : {Window{{3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
                               Window{{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},
                               Window{{3, 3}, {1, 2}, {1, 1}, {2, 3}, {1, 0}},
                               Window{{3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},
                               Window{{3, 3}, {1, 1}, {3, 1}, {3, 1}, {3, 1}},
                               Window{{1, 5}, {1, 1}, {1, 1}, {0, 2}, {0, 2}},
                               Window{{5, 1}, {2, 1}, {1, 1}, {2, 0}, {2, 0}},
                               Window{{2, 4}, {2, 1}, {1, 2}, {1, 0}, {0, 3}},
                               Window{{3, 3}, {1, 1}, {1, 1}, {7, 7}, {7, 7}},
                               Window{{5, 5}, {1, 1}, {4, 4}, {9, 9}, {8, 8}},
                               Window{{7, 9}, {1, 1}, {1, 1}, {3, 4}, {3, 4}}}) {
    check(depthwise({2, 24, 9, 10}, 1, window, true, 1));
    check(depthwise({1, 5, 9, 10}, 1, window, false, 2));
    if (HasFailure())
      FAIL() << fmt::format("kernel {} strides {} dilations {}", window.kernel, window.strides,
                            window.dilations);
  }
}

TEST_P(ConvDepthwiseOnIsa, OneDimension) {
  for (const std::int64_t channels : {4, 16, 40}) {
    for (const Window& window :
         {Window{{3}, {1}, {1}, {1}, {1}}, Window{{5}, {2}, {1}, {2}, {1}},
          Window{{31}, {1}, {1}, {15}, {15}}, Window{{4}, {1}, {3}, {0}, {9}}}) {
      check(depthwise({2, channels, 37}, 1, window, true, 1));
    }
  }
}

TEST_P(ConvDepthwiseOnIsa, ChannelMultiplier) {
  for (const std::int64_t multiplier : {2, 3, 5}) {
    for (const std::int64_t channels : {2, 3, 8, 17}) {
      for (const std::int64_t kernel : {3, 4})
        check(depthwise({2, channels, 7, 9}, multiplier, window_2d(kernel, 1, 1), true, 1));
      if (HasFailure()) FAIL() << fmt::format("multiplier {} channels {}", multiplier, channels);
    }
  }
}

TEST_P(ConvDepthwiseOnIsa, Epilogues) {
  for (const std::int64_t channels : {6, 24, 72, 150}) {
    for (const std::int64_t stride : {1, 2}) {
      const Shape x = {2, channels, 9, 12};
      const auto node = [&] { return depthwise(x, 1, window_2d(3, stride, 1), true, 1); };
      OneNode relu = node();
      relu.then(Unary{UnaryFn::kRelu});
      check(relu);
      OneNode swish = node();
      swish.then(Unary{UnaryFn::kClip, -1, 1});
      swish.then(Unary{UnaryFn::kHardSwish});
      check(swish);
      OneNode many = node();
      const Shape y = many.graph.value(many.group.members[0].result).shape;
      many.then(Binary{BinaryFn::kMul}, random_tensor({1, channels, 1, 1}, 5));
      many.then(Binary{BinaryFn::kAdd}, random_tensor(y, 6), false);
      many.then(Unary{UnaryFn::kRelu});
      many.then(Binary{BinaryFn::kMul}, random_tensor({2, channels, 1, 1}, 7), false);
      check(many);
      if (HasFailure()) FAIL() << fmt::format("channels {} stride {}", channels, stride);
    }
  }
}

TEST_P(ConvDepthwiseOnIsa, NaNStaysWhereWindowsSeeIt) {
  Window window = window_2d(3, 1, 1);
  OneNode node = depthwise({1, 24, 5, 6}, 1, window, false, 1);
  node.inputs[0].as<float>()[24 * 3 + 7] = std::numeric_limits<float>::quiet_NaN();
  node.inputs[0].as<float>()[0] = std::numeric_limits<float>::infinity();
  node.then(Unary{UnaryFn::kClip, 0, 6});
  check(node);
}

TEST_P(ConvDepthwiseOnIsa, RandomProblems) {
  constexpr unsigned kSeed = 77;
  std::mt19937 random(kSeed);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  for (int run = 0; run < 150; ++run) {
    const Shape x = {1 + below(2), 2 + below(70), 1 + below(14), 1 + below(30)};
    Window window;
    for (int axis = 0; axis < 2; ++axis) {
      window.kernel.push_back(1 + below(5));
      window.strides.push_back(1 + below(3));
      window.dilations.push_back(1 + below(2));
      window.pads_begin.push_back(below(4));
      window.pads_end.push_back(below(4));
    }
    const auto fits = [&](std::size_t axis) {
      return x[axis + 2] + window.pads_begin[axis] + window.pads_end[axis] >
             (window.kernel[axis] - 1) * window.dilations[axis];
    };
    if (!fits(0) || !fits(1)) continue;
    OneNode node = depthwise(x, 1 + (below(5) == 0 ? 1 : 0), window, below(2) != 0,
                             static_cast<unsigned>(run));
    if (below(2) != 0) node.then(Unary{UnaryFn::kRelu});
    if (below(2) != 0) node.then(Unary{UnaryFn::kSilu});
    check(node);
    if (HasFailure()) FAIL() << "seed " << kSeed << ", run " << run;
  }
}

TEST(ConvDepthwise, RefusesWhatItDoesNotDo) {
  const Device device = cpu_device(1);
  const auto support = [&](const OneNode& node) {
    return conv_depthwise().family.supports(node.graph, node.graph.node(0), device);
  };
  EXPECT_EQ(support(depthwise({1, 4, 3, 5, 5}, 1,
                              {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, false, 1))
                .rule,
            "rank");
  Conv conv;
  conv.window = window_2d(3, 1, 1);
  conv.group = 2;
  EXPECT_EQ(
      support(OneNode(conv, {random_tensor({1, 4, 5, 5}, 1), random_tensor({4, 2, 3, 3}, 2)}, {1}))
          .rule,
      "depthwise");
  conv.group = 4;
  EXPECT_EQ(
      support(OneNode(conv, {random_tensor({1, 4, 5, 5}, 1), random_tensor({4, 1, 3, 3}, 2)})).rule,
      "weights");
}

}  // namespace
}  // namespace braze::cpu::testing
