#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {
namespace {

struct Case {
  Shape x;
  Ints kernel, strides, dilations, begin, end;
  std::int64_t multiplier = 1;
};

OneNode depthwise(const Case& c, DType dtype, unsigned seed) {
  Shape w = {c.x[1] * c.multiplier, 1};
  w.insert(w.end(), c.kernel.begin(), c.kernel.end());
  Conv op;
  op.window = {c.kernel, c.strides, c.dilations, c.begin, c.end, AutoPad::kNotSet};
  op.group = c.x[1];
  return OneNode(op,
                 {random_floats(dtype, c.x, seed), random_floats(dtype, w, seed + 1),
                  random_floats(dtype, {w[0]}, seed + 2)},
                 {1, 2});
}

const Case kCases[] = {
    {{2, 32, 9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 24, 10, 9}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},
    {{1, 20, 8, 8}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {{2, 16, 11, 9}, {5, 5}, {2, 2}, {1, 1}, {2, 1}, {1, 2}},
    {{1, 16, 12, 13}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},
    {{1, 7, 6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 8, 6, 7}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
    {{1, 16, 9, 8}, {2, 4}, {1, 3}, {1, 1}, {0, 2}, {1, 1}},
    {{2, 16, 17}, {3}, {1}, {1}, {1}, {1}},
    {{1, 8, 4, 5, 6}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {{1, 8, 9, 9}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
};

TEST(CudaConvDepthwise, WindowsLayoutsAndTypes) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const Case& c : kCases) {
    const DType dtype = std::array{DType::kFloat16, DType::kFloat32, DType::kBFloat16}[seed % 3];
    const OneNode node = depthwise(c, dtype, seed++);
    check_node(conv_depthwise(), node, rounded(dtype, 1e-5), 4, seed);
    if (HasFailure()) return;
  }
}

/// Channels-last in and out, a given share of a thread.
Plan plan_of(const OneNode& node, int vector, int pixels, int rows) {
  Plan plan = one_kernel_plan(node.graph, conv_depthwise(), node.group,
                              {{node.group.inputs[0], {Layout::kChannelsLast, 0}},
                               {node.group.outputs[0], {Layout::kChannelsLast, 8}}});
  plan.kernels[0].candidate = {{{"vector", vector}, {"pixels", pixels}, {"rows", rows}}};
  return plan;
}

TEST(CudaConvDepthwise, EveryShareOfAThread) {
  BRAZE_NEEDS_EMULATOR();
  const Case cases[] = {
      {{2, 16, 9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {{1, 16, 10, 9}, {3, 3}, {2, 2}, {1, 1}, {0, 1}, {1, 0}},
      {{1, 16, 11, 7}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
      {{2, 8, 11, 13}, {5, 5}, {2, 2}, {1, 1}, {2, 1}, {1, 2}},
      {{1, 8, 9, 9}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
      {{1, 8, 8, 9}, {2, 3}, {1, 1}, {1, 1}, {1, 0}, {0, 2}},
  };
  unsigned seed = 1;
  for (const Case& c : cases) {
    for (const int rows : {1, 2, 5}) {
      for (const int pixels : {1, 2, 4}) {
        const DType dtype =
            std::array{DType::kFloat16, DType::kFloat32, DType::kBFloat16}[seed % 3];
        const int vector = dtype == DType::kFloat32 ? 2 << seed % 2 : 2 << seed / 3 % 3;
        const OneNode node = depthwise(c, dtype, seed++);
        const Plan plan = plan_of(node, vector, pixels, rows);
        const std::vector<Tensor> got = run_on_gpu(plan, conv_depthwise(), node.inputs);
        rounded(dtype, 1e-5)(got[0], interpret(node.graph, node.inputs)[0]);
        if (HasFailure()) FAIL() << conv_depthwise().build(plan, plan.kernels[0]).source;
      }
    }
  }
}

TEST(CudaConvDepthwise, WhatIsNoNumberStaysInItsChannel) {
  BRAZE_NEEDS_EMULATOR();
  for (const int rows : {1, 4}) {
    OneNode node = depthwise(kCases[0], DType::kFloat16, 1);
    std::vector<double> values = load<double>(node.inputs[0]);
    values[40] = std::numeric_limits<double>::quiet_NaN();
    values[300] = std::numeric_limits<double>::infinity();
    node.inputs[0] = make_tensor<double>(DType::kFloat16, node.inputs[0].shape(), values);
    const std::vector<Tensor> got =
        run_on_gpu(plan_of(node, 4, 2, rows), conv_depthwise(), node.inputs);
    rounded(DType::kFloat16, 1e-5)(got[0], interpret(node.graph, node.inputs)[0]);
  }
}

TEST(CudaConvDepthwise, ManyOutputsGoDownInStrips) {
  for (const std::int64_t batch : {1, 32}) {
    const OneNode node = depthwise({{batch, 192, 28, 28}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
                                   DType::kFloat16, 1);
    const std::vector<Candidate> list =
        conv_depthwise().family.candidates(node.graph, node.group, cuda_device(90));
    ASSERT_GT(list.size(), 1U);
    EXPECT_EQ(list[0].get("rows") > 1, batch > 1);
    double before = 0;
    for (const Candidate& candidate : list) {
      const Work work =
          conv_depthwise().family.work(node.graph, node.group, candidate, cuda_device(90));
      const double us = work.flops / (work.efficiency * cuda_device(90).flops_fp16) * 1e6;
      EXPECT_GE(us, before);  // best first
      EXPECT_LT(us, batch > 1 ? 50 : 10);
      before = us;
    }
  }
}

TEST(CudaConvDepthwise, WithAnEpilogue) {
  BRAZE_NEEDS_EMULATOR();
  OneNode node = depthwise(kCases[0], DType::kFloat32, 1);
  node.then(Unary{UnaryFn::kClip, 0, 6});
  node.then(Binary{BinaryFn::kAdd}, random_floats(DType::kFloat32, {2, 32, 9, 11}, 5), false);
  node.then(Binary{BinaryFn::kMul}, random_floats(DType::kFloat32, {2, 32, 1, 1}, 6), false);
  check_node(conv_depthwise(), node, rounded(DType::kFloat32, 1e-5), 8);
}

}  // namespace
}  // namespace braze::cuda::testing
