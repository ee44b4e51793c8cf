// Pooling against the interpreter: windows, pads, both layouts, ceil mode, what an average counts,
// NaN.
#include <fmt/format.h>

#include <limits>
#include <random>

#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

class PoolOnIsa : public OnIsa {};
BRAZE_ON_EVERY_ISA(PoolOnIsa);

OneNode pooled(PoolFn fn, const Shape& x, const Window& window, bool ceil_mode = false,
               bool include_pad = false) {
  Pool op;
  op.fn = fn;
  op.window = window;
  op.ceil_mode = ceil_mode;
  op.count_include_pad = include_pad;
  return OneNode(op, {random_tensor(x, 1)});
}

void check(const OneNode& node) {
  check_node(pool(), node,
             [](const Tensor& got, const Tensor& want) { expect_close(got, want, 1e-6, 1e-6); });
}

Window square(std::int64_t kernel, std::int64_t stride, std::int64_t pad,
              std::int64_t dilation = 1) {
  return {{kernel, kernel}, {stride, stride}, {dilation, dilation},
          {pad, pad},       {pad, pad},       AutoPad::kNotSet};
}

TEST_P(PoolOnIsa, WindowsAndChannels) {
  for (const PoolFn fn : {PoolFn::kMax, PoolFn::kAverage}) {
    for (const std::int64_t channels : {1, 3, 16, 24, 70}) {
      for (const Window& window :
           {square(2, 2, 0), square(3, 2, 1), square(3, 1, 1), square(5, 1, 2), square(13, 1, 6),
            square(3, 3, 0), square(1, 1, 0), square(2, 1, 0, 2), square(7, 2, 3, 2),
            square(4, 4, 0)}) {
        check(pooled(fn, {2, channels, 14, 45}, window));
        if (HasFailure())
          FAIL() << to_string(fn)
                 << fmt::format(" kernel {} strides {} channels {}", window.kernel, window.strides,
                                channels);
      }
    }
  }
}

TEST_P(PoolOnIsa, WholeImages) {
  for (const PoolFn fn : {PoolFn::kMax, PoolFn::kAverage}) {
    check(pooled(fn, {2, 40, 20, 33}, {{20, 33}, {20, 33}, {1, 1}, {0, 0}, {0, 0}}));
    check(pooled(fn, {1, 3, 20, 33}, {{20, 33}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}));
  }
}

TEST_P(PoolOnIsa, OneAndThreeDimensions) {
  for (const PoolFn fn : {PoolFn::kMax, PoolFn::kAverage}) {
    check(pooled(fn, {2, 19, 50}, {{3}, {2}, {1}, {1}, {1}}));
    check(pooled(fn, {1, 5, 50}, {{9}, {1}, {1}, {4}, {4}}));
    check(pooled(fn, {2, 19, 5, 6, 21}, {{2, 3, 3}, {2, 1, 2}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}));
    check(pooled(fn, {1, 4, 7, 6, 9}, {{3, 2, 2}, {1, 2, 1}, {2, 1, 3}, {1, 0, 1}, {1, 1, 2}}));
  }
}

TEST_P(PoolOnIsa, CeilModeAndWhatAnAverageCounts) {
  for (const bool ceil_mode : {false, true}) {
    for (const bool include_pad : {false, true}) {
      for (const Window& window : {Window{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
                                   Window{{3, 2}, {3, 4}, {1, 1}, {0, 1}, {2, 0}},
                                   Window{{5, 5}, {2, 3}, {1, 1}, {2, 4}, {0, 1}},
                                   Window{{7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
                                   Window{{3, 3}, {2, 2}, {2, 2}, {2, 1}, {1, 2}},
                                   Window{{4, 4}, {1, 1}, {1, 1}, {5, 4}, {4, 5}}}) {
        for (const PoolFn fn : {PoolFn::kMax, PoolFn::kAverage}) {
          check(pooled(fn, {1, 17, 12, 44}, window, ceil_mode, include_pad));
          check(pooled(fn, {2, 3, 8, 7}, window, ceil_mode, include_pad));
          if (HasFailure()) {
            FAIL() << to_string(fn)
                   << fmt::format(" kernel {} strides {} pads {} {} ceil {} include {}",
                                  window.kernel, window.strides, window.pads_begin, window.pads_end,
                                  ceil_mode, include_pad);
          }
        }
      }
    }
  }
}

TEST_P(PoolOnIsa, NaNWins) {
  for (const Window& window : {square(2, 2, 0), square(3, 1, 1), square(9, 1, 4)}) {
    for (const PoolFn fn : {PoolFn::kMax, PoolFn::kAverage}) {
      OneNode node = pooled(fn, {1, 20, 16, 40}, window);
      for (const int at : {0, 77, 1234, 5000, 12799})
        node.inputs[0].as<float>()[at] = std::numeric_limits<float>::quiet_NaN();
      node.inputs[0].as<float>()[400] = -std::numeric_limits<float>::infinity();
      check(node);
    }
  }
}

TEST_P(PoolOnIsa, Epilogues) {
  for (const Window& window : {square(2, 2, 0), square(9, 1, 4)}) {
    for (const std::int64_t channels : {5, 72}) {
      OneNode node = pooled(PoolFn::kAverage, {2, channels, 16, 20}, window);
      const Shape y = node.graph.value(node.group.members[0].result).shape;
      node.then(Unary{UnaryFn::kRelu});
      node.then(Binary{BinaryFn::kAdd}, random_tensor({channels, 1, 1}, 2));
      node.then(Binary{BinaryFn::kMul}, random_tensor(y, 3), false);
      check(node);
    }
  }
}

TEST_P(PoolOnIsa, RandomProblems) {
  constexpr unsigned kSeed = 4711;
  std::mt19937 random(kSeed);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  for (int run = 0; run < 100; ++run) {
    const auto axes = static_cast<std::size_t>(1 + below(3));
    Shape x = {1 + below(2), 1 + below(40)};
    Window window;
    bool fits = true;
    for (std::size_t i = 0; i < axes; ++i) {
      x.push_back(1 + below(i + 1 == axes ? 50 : 10));
      window.kernel.push_back(1 + below(6));
      window.strides.push_back(1 + below(4));
      window.dilations.push_back(1 + below(2));
      window.pads_begin.push_back(below(window.kernel[i]));
      window.pads_end.push_back(below(window.kernel[i]));
      fits = fits && x[i + 2] + window.pads_begin[i] + window.pads_end[i] >
                         (window.kernel[i] - 1) * window.dilations[i];
    }
    if (!fits) continue;
    const OneNode node = pooled(below(2) != 0 ? PoolFn::kMax : PoolFn::kAverage, x, window,
                                below(2) != 0, below(2) != 0);
    check(node);
    if (HasFailure()) FAIL() << "seed " << kSeed << ", run " << run;
  }
}

TEST(Pool, RefusesIndicesAndOtherTypes) {
  Pool op;
  op.window = square(2, 2, 0);
  const Device device = cpu_device(1);
  const OneNode both(op, {random_tensor({1, 2, 4, 4}, 1)}, {}, 2);
  EXPECT_EQ(pool().family.supports(both.graph, both.graph.node(0), device).rule, "indices");
  const OneNode bytes(op, {counting_tensor(DType::kUInt8, {1, 2, 4, 4}, 1)});
  EXPECT_EQ(pool().family.supports(bytes.graph, bytes.graph.node(0), device).rule, "dtype");
}

}  // namespace
}  // namespace braze::cpu::testing
