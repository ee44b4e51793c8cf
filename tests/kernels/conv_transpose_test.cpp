// Transposed convolution against the interpreter: phases, groups, both layouts, 1-D to 3-D.
#include <fmt/format.h>

#include <random>

#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

class ConvTransposeOnIsa : public OnIsa {};
BRAZE_ON_EVERY_ISA(ConvTransposeOnIsa);

struct Problem {
  Shape x{1, 8, 5, 6};
  std::int64_t outputs = 8, group = 1;  // outputs of all groups
  Window window;
  Ints output_padding;
  bool bias = true;
};

OneNode transposed(const Problem& p, unsigned seed = 1) {
  Shape w = {p.x[1], p.outputs / p.group};
  w.insert(w.end(), p.window.kernel.begin(), p.window.kernel.end());
  std::vector<Tensor> in = {random_tensor(p.x, seed), random_tensor(w, seed + 1)};
  if (p.bias) in.push_back(random_tensor({p.outputs}, seed + 2));
  ConvTranspose op;
  op.window = p.window;
  op.group = p.group;
  op.output_padding = p.output_padding.empty() ? Ints(p.window.kernel.size(), 0) : p.output_padding;
  return OneNode(op, in, p.bias ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{1});
}

/// u (|y| + 2 sqrt(K) sum |x| |w|) per element, with values up to 1 and K terms: at most 2 u K
/// sqrt(K) = 1e-7 K sqrt(K).
void check(const OneNode& node, double terms) {
  const double tolerance =
      1.2e-7 * std::max(4.0, terms) * std::sqrt(std::max(4.0, terms)) / 4 + 1e-6;
  check_node(conv_transpose(), node, [tolerance](const Tensor& got, const Tensor& want) {
    expect_close(got, want, tolerance, 1e-6);
  });
}

void check(const Problem& p, unsigned seed = 1) {
  check(transposed(p, seed),
        static_cast<double>(p.x[1] / p.group * element_count(p.window.kernel)));
  if (::testing::Test::HasFailure()) {
    ADD_FAILURE() << fmt::format(
        "x {} outputs {} group {} kernel {} strides {} dilations {} pads {} {}", p.x, p.outputs,
        p.group, p.window.kernel, p.window.strides, p.window.dilations, p.window.pads_begin,
        p.window.pads_end);
  }
}

Window square(std::int64_t kernel, std::int64_t stride, std::int64_t pad,
              std::int64_t dilation = 1) {
  return {{kernel, kernel}, {stride, stride}, {dilation, dilation},
          {pad, pad},       {pad, pad},       AutoPad::kNotSet};
}

TEST_P(ConvTransposeOnIsa, KernelsAndStrides) {
  for (const std::int64_t kernel : {1, 2, 3, 4, 5}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t pad : {0, 1}) {
        if (kernel <= 2 * pad) continue;
        check({{2, 7, 6, 19}, 20, 1, square(kernel, stride, pad), {}, true});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(ConvTransposeOnIsa, OutputChannels) {
  for (const std::int64_t outputs : {1, 3, 8, 9, 16, 17, 24, 31, 32, 40, 70}) {
    check({{1, 12, 5, 30}, outputs, 1, square(2, 2, 0), {}, outputs % 2 == 0});
    if (HasFailure()) return;
  }
}

TEST_P(ConvTransposeOnIsa, DilationsAndOutputPadding) {
  for (const std::int64_t dilation : {2, 3, 4}) {
    for (const std::int64_t stride : {1, 2, 3, 4}) {
      check({{1, 5, 4, 9}, 18, 1, square(3, stride, 1, dilation), {}, true});
      check({{1, 6, 4, 9}, 6, 6, square(3, stride, 1, dilation), {}, true});
      if (HasFailure()) return;
    }
  }
  Problem p{{1, 5, 4, 9}, 18,  1, {{3, 4}, {2, 3}, {1, 2}, {1, 0}, {0, 2}, AutoPad::kNotSet},
            {1, 2},       true};
  check(p);
  p.window.kernel = {1, 1};  // phases without a tap
  check(p);
  check({{2, 40, 4, 9},
         40,
         40,
         {{1, 2}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, AutoPad::kNotSet},
         {2, 1},
         true});
}

TEST_P(ConvTransposeOnIsa, Groups) {
  check({{2, 12, 5, 8}, 36, 3, square(3, 2, 1), {}, true});
  check({{1, 8, 5, 8}, 8, 4, square(4, 2, 1), {}, true});
  for (const std::int64_t channels : {3, 8, 16, 21, 24, 150}) {  // one input channel a group
    check({{2, channels, 5, 13}, channels, channels, square(4, 2, 1), {}, true});
    check({{1, channels, 5, 13}, channels, channels, square(3, 1, 1), {}, false});
    check({{1, channels, 3, 7}, channels * 2, channels, square(5, 2, 2), {1, 1}, true});
    if (HasFailure()) return;
  }
}

TEST_P(ConvTransposeOnIsa, OneAndThreeDimensions) {
  check({{2, 9, 33}, 20, 1, {{4}, {2}, {1}, {1}, {1}}, {}, true});
  check({{2, 20, 33}, 20, 20, {{4}, {2}, {1}, {1}, {1}}, {}, true});
  check({{1, 4, 3, 4, 9},
         10,
         1,
         {{2, 3, 3}, {2, 1, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
         {0, 0, 1},
         true});
  check({{2, 6, 2, 3, 5}, 6, 6, {{3, 2, 2}, {2, 2, 2}, {1, 2, 1}, {1, 0, 0}, {1, 0, 0}}, {}, true});
}

TEST_P(ConvTransposeOnIsa, Epilogues) {
  for (const std::int64_t group : {1, 2, 24}) {
    Problem p{{2, 24, 5, 8}, 24, group, square(4, 2, 1), {}, true};
    OneNode node = transposed(p);
    const Shape y = node.graph.value(node.group.members[0].result).shape;
    node.then(Unary{UnaryFn::kClip, -1, 4});
    node.then(Binary{BinaryFn::kMul}, random_tensor({24, 1, 1}, 5));
    node.then(Binary{BinaryFn::kAdd}, random_tensor(y, 6), false);
    node.then(Unary{UnaryFn::kSilu});
    check(node, static_cast<double>(24 / group * 16));
  }
}

TEST_P(ConvTransposeOnIsa, RandomProblems) {
  constexpr unsigned kSeed = 31337;
  std::mt19937 random(kSeed);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  for (int run = 0; run < 80; ++run) {
    Problem p;
    const auto axes = static_cast<std::size_t>(1 + below(3));
    p.group = below(2) == 0 ? 1 : 1 + below(6);
    p.x = {1 + below(2), p.group * (below(3) == 0 ? 1 : 1 + below(9))};
    p.outputs = p.group * (1 + below(30));
    bool fits = true;
    for (std::size_t i = 0; i < axes; ++i) {
      p.x.push_back(1 + below(i + 1 == axes ? 20 : 5));
      p.window.kernel.push_back(1 + below(5));
      p.window.strides.push_back(1 + below(3));
      p.window.dilations.push_back(1 + below(3));
      p.window.pads_begin.push_back(below(3));
      p.window.pads_end.push_back(below(3));
      p.output_padding.push_back(below(p.window.strides[i]));
      const std::int64_t out = (p.x[i + 2] - 1) * p.window.strides[i] +
                               (p.window.kernel[i] - 1) * p.window.dilations[i] + 1 +
                               p.output_padding[i] - p.window.pads_begin[i] - p.window.pads_end[i];
      fits = fits && out > 0;
    }
    p.bias = below(2) != 0;
    if (!fits) continue;
    check(p, static_cast<unsigned>(run));
    if (HasFailure()) FAIL() << "seed " << kSeed << ", run " << run;
  }
}

TEST(ConvTranspose, RefusesWeightsThatAreNotConstant) {
  ConvTranspose op;
  op.window = square(2, 2, 0);
  op.output_padding = {0, 0};
  const OneNode node(op, {random_tensor({1, 4, 5, 5}, 1), random_tensor({4, 2, 2, 2}, 2)});
  EXPECT_EQ(conv_transpose().family.supports(node.graph, node.graph.node(0), cpu_device(1)).rule,
            "weights");
}

}  // namespace
}  // namespace braze::cpu::testing
