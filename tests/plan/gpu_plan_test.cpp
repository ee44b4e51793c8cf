// Plans for GPUs that are not here: conversions inside of kernels, limits of an epilogue, which
// family runs what on which architecture; and that lower_precision() leaves a legal graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/verify.hpp"
#include "kernels/cuda/families.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Plan plan_for(const Graph& graph, int sm, FusionLevel fusion = FusionLevel::kFull) {
  return make_plan(graph, cuda_device(sm), {fusion, false}, cuda::registry());
}

Net conv_relu() {
  Net net;
  const ValueId c = net.conv("conv", net.input("x", {1, 32, 16, 16}), 64, window2d(3, 1));
  net.output(net.unary("relu", UnaryFn::kRelu, c));
  return net;
}

std::vector<std::string> families_of(const Plan& plan) {
  std::vector<std::string> families;
  for (const KernelPlan& kernel : plan.kernels) families.push_back(kernel.family);
  return families;
}

TEST(GpuPlan, ConvolutionAndEpilogueAreOneKernelWithTheModelsTypesAtItsBorders) {
  for (const auto& [sm, family] : std::vector<std::pair<int, std::string>>{
           {75, "conv_portable"}, {80, "conv_sm80"}, {86, "conv_sm80"}, {90, "conv_sm90"}}) {
    Net net = conv_relu();
    EXPECT_GT(lower_precision(net.graph, DType::kFloat16, false), 0);
    verify(net.graph, "lower_precision");
    const Plan plan = plan_for(net.graph, sm);
    EXPECT_THAT(families_of(plan), ElementsAre(family));
    EXPECT_THAT(plan.kernels[0].nodes, ElementsAre("conv", "relu"));
    EXPECT_EQ(plan.kernels[0].group.casts.size(), 1U);
    EXPECT_EQ(plan.graph.value(plan.graph.inputs[0]).dtype, DType::kFloat32);
    EXPECT_EQ(plan.graph.value(plan.graph.outputs[0].value).dtype, DType::kFloat32);
  }
}

TEST(GpuPlan, WithoutFusionConversionsAreKernels) {
  Net net = conv_relu();
  lower_precision(net.graph, DType::kFloat16, false);
  const Plan plan = plan_for(net.graph, 80, FusionLevel::kOff);
  EXPECT_THAT(families_of(plan), ElementsAre("pointwise", "conv_sm80", "pointwise", "pointwise"));
}

TEST(GpuPlan, ComputeTypesAtTheBordersNeedNoConversion) {
  Net net = conv_relu();
  lower_precision(net.graph, DType::kBFloat16, true);
  verify(net.graph, "lower_precision");
  const Plan plan = plan_for(net.graph, 80);
  EXPECT_TRUE(plan.kernels[0].group.casts.empty());
  EXPECT_EQ(plan.graph.value(plan.graph.inputs[0]).dtype, DType::kBFloat16);
  EXPECT_EQ(plan.graph.value(plan.graph.outputs[0].value).dtype, DType::kBFloat16);
}

TEST(GpuPlan, AnOperandOfAnEpilogueIsConvertedInside) {
  Net net;
  const ValueId c = net.conv("conv", net.input("x", {1, 32, 16, 16}), 64, window2d(3, 1));
  net.output(net.mul("scale", c, net.input("s", {1, 64, 1, 1})));
  lower_precision(net.graph, DType::kFloat16, false);
  const Plan plan = plan_for(net.graph, 90);
  EXPECT_THAT(families_of(plan), ElementsAre("conv_sm90"));
  EXPECT_EQ(plan.kernels[0].group.casts.size(), 2U);
}

TEST(GpuPlan, AnInputConvertedForTwoReadersIsConvertedOnce) {
  Net net;
  const ValueId x = net.input("x", {1, 32, 16, 16});
  net.output(net.conv("a", x, 64, window2d(3, 1)));
  net.output(net.conv("b", x, 64, window2d(3, 1)));
  lower_precision(net.graph, DType::kFloat16, false);
  EXPECT_THAT(families_of(plan_for(net.graph, 80)),
              ElementsAre("pointwise", "conv_sm80", "conv_sm80"));
}

TEST(GpuPlan, EpiloguesAreAsLongAsTheirParametersHaveRoom) {
  Net net;
  ValueId v = net.conv("conv", net.input("x", {1, 32, 16, 16}), 64, window2d(3, 1));
  for (int i = 0; i < 20; ++i) v = net.add("add" + std::to_string(i), v, net.random({64, 1, 1}));
  net.output(v);
  const Plan plan = plan_for(net.graph, 80);
  EXPECT_GT(plan.kernels.size(), 1U);
  ASSERT_FALSE(plan.not_fused.empty());
  EXPECT_EQ(plan.not_fused[0].rule, "epilogue-length");
  EXPECT_THAT(plan.not_fused[0].reason, HasSubstr("conv_s"));
  for (const KernelPlan& kernel : plan.kernels)
    EXPECT_NO_THROW(cuda::builder(kernel.family)(plan, kernel));
}

TEST(GpuPlan, QuantisationKeepsItsScalesInFloat32) {
  Net net;
  const ValueId scale = net.scalar(0.1);
  const ValueId q = net.op("q", Quantize{}, {net.input("x", {1, 8, 4, 4}), scale});
  net.output(net.op("dq", Dequantize{}, {q, scale}));
  lower_precision(net.graph, DType::kFloat16, true);
  verify(net.graph, "lower_precision");
  EXPECT_EQ(net.graph.value(scale).dtype, DType::kFloat32);
}

/// What a family would be slower at goes to the one after it.
TEST(GpuPlan, ConvolutionsOfFewChannelsHaveAFamily) {
  const auto family = [](std::int64_t channels, std::int64_t size, DType dtype, int sm) {
    Net net;
    net.output(net.conv("conv", net.input("x", {1, channels, size, size}), 32, window2d(3, 1, 2)));
    if (dtype != DType::kFloat32) lower_precision(net.graph, dtype, false);
    return families_of(plan_for(net.graph, sm)).front();
  };
  for (const std::int64_t channels : {1, 3, 4, 6}) {
    EXPECT_EQ(family(channels, 64, DType::kFloat16, 80), "conv_stem");
    EXPECT_EQ(family(channels, 64, DType::kBFloat16, 90), "conv_stem");
  }
  EXPECT_EQ(family(3, 64, DType::kFloat32, 90), "conv_simt");
  EXPECT_EQ(family(3, 64, DType::kFloat16, 75), "conv_portable");
  EXPECT_EQ(family(16, 64, DType::kFloat16, 90), "conv_sm90");
  EXPECT_EQ(family(3, 12, DType::kFloat16, 80), "conv_sm80");
  Device tf32 = cuda_device(90);
  tf32.tf32 = true;
  Net net;
  net.output(net.conv("conv", net.input("x", {1, 3, 64, 64}), 32, window2d(3, 1, 2)));
  EXPECT_THAT(families_of(make_plan(net.graph, tf32, {}, cuda::registry())),
              ElementsAre("conv_stem"));
}

/// Few blocks of few pixels at batch 1; all outputs of a pixel in one block where there are many.
TEST(GpuPlan, TilesOfFirstLayersFollowTheBatch) {
  const auto candidate = [](std::int64_t batch) {
    Net net;
    net.output(
        net.conv("conv", net.input("x", {batch, 3, 224, 224}), 64, window2d(7, 3, 2), 1, false));
    lower_precision(net.graph, DType::kFloat16, true);
    return plan_for(net.graph, 90).kernels[0].candidate;
  };
  EXPECT_EQ(candidate(1).get("rows"), 4);
  EXPECT_EQ(candidate(32).get("channels"), 64);
  EXPECT_GT(candidate(32).get("rows"), 4);
}

TEST(GpuPlan, TransposedConvolutionsRunAsConvolutions) {
  const auto kernels = [](std::int64_t kernel, std::int64_t stride, std::int64_t group, int sm,
                          DType dtype = DType::kFloat16) {
    Net net;
    const ValueId y = net.op("up", ConvTranspose{window2d(kernel, 0, stride), {0, 0}, {}, group},
                             {net.input("x", {1, 64, 16, 16}),
                              net.random({64, 64 / group, kernel, kernel}), net.random({64})});
    net.output(net.unary("relu", UnaryFn::kRelu, y));
    if (dtype != DType::kFloat32) lower_precision(net.graph, dtype, true);
    const Plan plan = plan_for(net.graph, sm);
    EXPECT_THAT(plan.kernels[0].nodes, ElementsAre("up", "relu"));
    return families_of(plan);
  };
  EXPECT_THAT(kernels(2, 2, 1, 90), ElementsAre("conv_sm90"));
  EXPECT_THAT(kernels(4, 2, 1, 90, DType::kBFloat16), ElementsAre("conv_sm90"));
  EXPECT_THAT(kernels(3, 1, 1, 90), ElementsAre("conv_sm90"));
  EXPECT_THAT(kernels(3, 2, 1, 90), ElementsAre("conv_sm90"));
  EXPECT_THAT(kernels(1, 2, 1, 90), ElementsAre("conv_transpose"));
  EXPECT_THAT(kernels(2, 2, 2, 90), ElementsAre("conv_transpose"));
  EXPECT_THAT(kernels(2, 2, 1, 90, DType::kFloat32), ElementsAre("conv_transpose"));
  EXPECT_THAT(kernels(2, 2, 1, 80), ElementsAre("conv_transpose"));
}

TEST(GpuPlan, ProductsOfFewRowsHaveAFamily) {
  const auto family = [](std::int64_t rows, std::int64_t depth, std::int64_t outputs, DType dtype,
                         int sm) {
    Net net;
    Gemm gemm;
    gemm.trans_b = true;
    net.output(net.op(
        "fc", gemm,
        {net.input("x", {rows, depth}), net.random({outputs, depth}), net.random({outputs})}));
    if (dtype != DType::kFloat32) lower_precision(net.graph, dtype, true);
    return families_of(plan_for(net.graph, sm)).front();
  };
  EXPECT_EQ(family(1, 2048, 1000, DType::kFloat16, 90), "matrix_vector");
  EXPECT_EQ(family(8, 2048, 1000, DType::kFloat32, 90), "matrix_vector");
  EXPECT_EQ(family(8, 256, 64, DType::kFloat16, 75), "matrix_vector");
  EXPECT_EQ(family(32, 1280, 1000, DType::kFloat16, 90), "matrix_vector");
  EXPECT_EQ(family(33, 1280, 1000, DType::kFloat16, 90), "conv_sm90");
  EXPECT_EQ(family(9, 4096, 1000, DType::kFloat16, 90), "conv_sm90");
  EXPECT_EQ(family(16, 256, 64, DType::kFloat32, 90), "gemm_cuda");

  Net net;  // squeeze and excite
  const ValueId x = net.input("x", {4, 240, 1, 1});
  const ValueId down = net.unary("relu", UnaryFn::kRelu, net.conv("down", x, 10, window2d(1)));
  net.output(net.unary("gate", UnaryFn::kSigmoid, net.conv("up", down, 240, window2d(1))));
  lower_precision(net.graph, DType::kFloat16, true);
  EXPECT_THAT(families_of(plan_for(net.graph, 90, FusionLevel::kEpilogue)),
              ElementsAre("matrix_vector", "matrix_vector"));
}

}  // namespace
}  // namespace braze::test
