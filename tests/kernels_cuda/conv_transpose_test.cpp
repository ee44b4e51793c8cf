#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {
namespace {

struct Case {
  Shape x;
  std::int64_t outputs, groups;
  Ints kernel, strides, dilations, begin, end, padding;
};

OneNode transposed(const Case& c, DType dtype, unsigned seed) {
  Shape w = {c.x[1], c.outputs / c.groups};
  w.insert(w.end(), c.kernel.begin(), c.kernel.end());
  ConvTranspose op;
  op.window = {c.kernel, c.strides, c.dilations, c.begin, c.end, AutoPad::kNotSet};
  op.output_padding = c.padding;
  op.group = c.groups;
  return OneNode(op,
                 {random_floats(dtype, c.x, seed), random_floats(dtype, w, seed + 1),
                  random_floats(dtype, {c.outputs}, seed + 2)},
                 {1, 2});
}

const Case kCases[] = {
    {{2, 16, 5, 6}, 24, 1, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, {0, 0}},
    {{1, 12, 5, 6}, 7, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 8, 5, 4}, 16, 2, {4, 3}, {2, 3}, {1, 2}, {1, 0}, {2, 1}, {0, 0}},
    {{2, 8, 9}, 8, 8, {4}, {2}, {1}, {1}, {1}, {0}},
    {{1, 6, 3, 4, 3}, 10, 1, {2, 3, 2}, {2, 1, 2}, {1, 1, 1}, {0, 1, 0}, {0, 1, 0}, {0, 0, 0}},
    {{1, 16, 6, 6}, 12, 2, {2, 2}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, {0, 0}},
};

TEST(CudaConvTranspose, WindowsLayoutsAndTypes) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const Case& c : kCases) {
    for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
      check_node(conv_transpose(), transposed(c, dtype, seed), rounded(dtype, 2e-5), 4, seed);
      ++seed;
      if (HasFailure()) return;
    }
  }
}

TEST(CudaConvTranspose, OnTheTensorCores) {
  BRAZE_NEEDS_EMULATOR();
  const Case cases[] = {
      {{2, 40, 7, 9}, 72, 1, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, {0, 0}},
      {{1, 24, 6, 5}, 20, 1, {4, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {0, 1}},
      {{1, 16, 6, 5}, 16, 1, {2, 2}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, {0, 0}},
  };
  unsigned seed = 1;
  for (const Case& c : cases) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      const OneNode node = transposed(c, dtype, seed++);
      for (const Layout out : {Layout::kChannelsLast, Layout::kModel}) {
        const Plan plan = one_kernel_plan(node.graph, conv_transpose(), node.group,
                                          {{node.group.inputs[0], {Layout::kChannelsLast, 8}},
                                           {node.group.outputs[0], {out, 0}}});
        EXPECT_NE(conv_transpose().build(plan, plan.kernels[0]).source.find("mma"),
                  std::string::npos);
        const std::vector<Tensor> got = run_on_gpu(plan, conv_transpose(), node.inputs);
        rounded(dtype, 2e-5)(got[0], interpret(node.graph, node.inputs)[0]);
        if (HasFailure()) return;
      }
    }
  }
}

/// The times of a U-Net's four on an H200, within 5 %.
TEST(CudaConvTranspose, EstimatesAreTheTimesMeasured) {
  struct Measured {
    std::int64_t channels, size;
    double us;
  };
  for (const auto& [channels, size, us] : {Measured{1024, 16, 21.1}, Measured{512, 32, 15.5},
                                           Measured{256, 64, 14.3}, Measured{128, 128, 18.0}}) {
    const OneNode node = transposed({{1, channels, size, size},
                                     channels / 2,
                                     1,
                                     {2, 2},
                                     {2, 2},
                                     {1, 1},
                                     {0, 0},
                                     {0, 0},
                                     {0, 0}},
                                    DType::kFloat16, 1);
    const Device device = cuda_device(90);
    const Work work = conv_transpose().family.work(node.graph, node.group, Candidate{}, device);
    EXPECT_NEAR(work.flops / (work.efficiency * device.flops_fp16) * 1e6, us, 0.05 * us);
  }
}

TEST(CudaConvTranspose, WithAnEpilogue) {
  BRAZE_NEEDS_EMULATOR();
  OneNode node = transposed(kCases[0], DType::kFloat32, 1);
  node.then(Unary{UnaryFn::kRelu});
  node.then(Binary{BinaryFn::kAdd}, random_floats(DType::kFloat32, {2, 24, 10, 12}, 5), false);
  check_node(conv_transpose(), node, rounded(DType::kFloat32, 1e-5), 8);
}

}  // namespace
}  // namespace braze::cuda::testing
