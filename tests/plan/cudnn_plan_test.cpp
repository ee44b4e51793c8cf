// What goes to cuDNN in a plan, what does not, and what the plan says of it.
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
using ::testing::IsEmpty;

Plan plan_for(const Graph& graph, int sm = 90) {
  return make_plan(graph, cuda_device(sm), {}, cuda::registry_with_cudnn());
}

std::vector<std::string> families_of(const Plan& plan) {
  std::vector<std::string> families;
  for (const KernelPlan& kernel : plan.kernels) families.push_back(kernel.family);
  return families;
}

std::vector<std::string> rules_of(const Plan& plan) {
  std::vector<std::string> rules;
  for (const Refusal& refusal : plan.not_fused) rules.push_back(refusal.rule);
  return rules;
}

/// The kernel that family cudnn runs, built.
const KernelPlan& cudnn_kernel(const Plan& plan) {
  for (const KernelPlan& kernel : plan.kernels)
    if (kernel.family == "cudnn") return kernel;
  throw std::runtime_error("cuDNN has no kernel in this plan");
}
cuda::CudnnProblem problem_of(const Plan& plan) {
  return *cuda::builder("cudnn")(plan, cudnn_kernel(plan)).cudnn;
}

std::vector<cuda::PointwiseMode> modes_of(const cuda::CudnnProblem& problem) {
  std::vector<cuda::PointwiseMode> modes;
  for (const cuda::CudnnStep& step : problem.steps) modes.push_back(step.mode);
  return modes;
}

TEST(CudnnPlan, AConvolutionGoesThereWithBiasResidualAndActivation) {
  Net net;
  const ValueId x = net.input("x", {2, 32, 8, 6});
  ValueId y = net.conv("conv", x, 32, window2d(3, 1));
  y = net.add("residual", y, x);
  net.output(net.unary("relu", UnaryFn::kRelu, y));
  const Plan plan = plan_for(net.graph);
  const KernelPlan& kernel = cudnn_kernel(plan);
  EXPECT_EQ(kernel.backend, "cudnn");
  EXPECT_EQ(kernel.kind, KernelKind::kEpilogue);
  EXPECT_THAT(kernel.nodes, ElementsAre("conv", "residual", "relu"));
  EXPECT_THAT(rules_of(plan), IsEmpty());

  const cuda::CudnnProblem problem = problem_of(plan);
  EXPECT_THAT(problem.x.extents, ElementsAre(2, 32, 8, 6));
  EXPECT_THAT(problem.x.strides, ElementsAre(32 * 48, 1, 32 * 6, 32));
  EXPECT_THAT(problem.w.strides, ElementsAre(32 * 9, 1, 32 * 3, 32));
  EXPECT_EQ(problem.x.address.of, cuda::Address::Of::kInput);
  EXPECT_EQ(problem.w.address.of, cuda::Address::Of::kConstant);
  EXPECT_FALSE(problem.tf32);
  using enum cuda::PointwiseMode;
  EXPECT_THAT(modes_of(problem), ElementsAre(kAdd, kAdd, kRelu));
  // The residual first: that order is compiled into cuDNN.
  EXPECT_THAT(problem.steps[0].operand->extents, ElementsAre(2, 32, 8, 6));
  EXPECT_THAT(problem.steps[1].operand->extents, ElementsAre(1, 32, 1, 1));
}

TEST(CudnnPlan, ImagesAreChannelsLastThere) {
  Net net;
  net.output(net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1)));
  EXPECT_THAT(families_of(plan_for(net.graph)), ElementsAre("relayout", "cudnn", "relayout"));
  EXPECT_THAT(families_of(make_plan(net.graph, cuda_device(90), {FusionLevel::kFull, true},
                                    cuda::registry_with_cudnn())),
              ElementsAre("cudnn"));
}

TEST(CudnnPlan, SpatialAxesPadsGroupsAndDilationsAreTold) {
  Net net;
  Window window = window2d(3, 1);
  window.pads_end = {2, 0};
  window.strides = {2, 1};
  window.dilations = {1, 2};
  net.output(
      net.op("conv", Conv{window, 4}, {net.input("x", {1, 8, 9, 9}), net.random({12, 2, 3, 3})}));
  const cuda::CudnnProblem problem = problem_of(plan_for(net.graph));
  EXPECT_THAT(problem.w.extents, ElementsAre(12, 2, 3, 3));
  EXPECT_THAT(problem.pads_begin, ElementsAre(1, 1));
  EXPECT_THAT(problem.pads_end, ElementsAre(2, 0));
  EXPECT_THAT(problem.strides, ElementsAre(2, 1));
  EXPECT_THAT(problem.dilations, ElementsAre(1, 2));
}

TEST(CudnnPlan, ARowIsAnImageOfOneRow) {
  Net net;
  net.output(net.op("conv", Conv{Window{{3}, {2}, {1}, {1}, {1}}, 1},
                    {net.input("x", {1, 4, 9}), net.random({6, 4, 3})}));
  const cuda::CudnnProblem problem = problem_of(plan_for(net.graph));
  EXPECT_THAT(problem.x.extents, ElementsAre(1, 4, 1, 9));
  EXPECT_THAT(problem.y.extents, ElementsAre(1, 6, 1, 5));
  EXPECT_THAT(problem.w.extents, ElementsAre(6, 4, 1, 3));
  EXPECT_THAT(problem.pads_begin, ElementsAre(0, 1));
  EXPECT_THAT(problem.strides, ElementsAre(1, 2));
}

TEST(CudnnPlan, TransposedConvolution) {
  Net net;
  const ValueId y = net.op("up", ConvTranspose{window2d(2, 0, 2), {0, 0}, {}, 1},
                           {net.input("x", {1, 6, 3, 3}), net.random({6, 4, 2, 2})});
  net.output(net.unary("silu", UnaryFn::kSilu, y));
  const cuda::CudnnProblem problem = problem_of(plan_for(net.graph));
  EXPECT_TRUE(problem.transposed);
  EXPECT_THAT(problem.w.extents, ElementsAre(6, 4, 2, 2));
  EXPECT_THAT(problem.y.extents, ElementsAre(1, 4, 6, 6));
  EXPECT_THAT(modes_of(problem), ElementsAre(cuda::PointwiseMode::kSwish));
}

TEST(CudnnPlan, Tf32IsTold) {
  Net net;
  net.output(net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1)));
  Device device = cuda_device(90);
  device.tf32 = true;
  EXPECT_TRUE(problem_of(make_plan(net.graph, device, {}, cuda::registry_with_cudnn())).tf32);
}

TEST(CudnnPlan, WhatCudnnHasNoModeForStaysOutsideAndIsToldSo) {
  Net net;
  const ValueId y = net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1));
  net.output(net.unary("swish", UnaryFn::kHardSwish, net.add("b", y, net.random({8, 1, 1}))));
  const Plan plan = plan_for(net.graph);
  EXPECT_THAT(families_of(plan), ElementsAre("relayout", "cudnn", "pointwise"));
  EXPECT_THAT(cudnn_kernel(plan).nodes, ElementsAre("conv", "b"));
  ASSERT_EQ(plan.not_fused.size(), 1U);
  EXPECT_EQ(plan.not_fused[0].rule, "cudnn-epilogue");
  EXPECT_THAT(plan.not_fused[0].nodes, ElementsAre("conv", "swish"));
  EXPECT_EQ(plan.not_fused[0].reason, "cuDNN is not asked for hard_swish");
}

TEST(CudnnPlan, ReversedSubtractionStaysOutside) {
  Net net;
  const ValueId y = net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1));
  net.output(net.op("minus", Binary{BinaryFn::kSub}, {net.random({8, 1, 1}), y}));
  const Plan plan = plan_for(net.graph);
  EXPECT_THAT(cudnn_kernel(plan).nodes, ElementsAre("conv"));
  EXPECT_THAT(rules_of(plan), ElementsAre("cudnn-epilogue"));
}

TEST(CudnnPlan, OperandsThatVaryByImageOnlyStayOutside) {
  Net net;
  const ValueId y = net.conv("conv", net.input("x", {2, 8, 4, 4}), 8, window2d(3, 1));
  net.output(net.add("gate", y, net.input("g", {2, 8, 1, 1})));
  const Plan plan = plan_for(net.graph);
  EXPECT_THAT(cudnn_kernel(plan).nodes, ElementsAre("conv"));
  EXPECT_THAT(plan.not_fused.at(0).reason, HasSubstr("varies by image but not by pixel"));
}

TEST(CudnnPlan, CrossedBoundsStayOutside) {
  Net net;
  const ValueId y = net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1));
  net.output(net.op("clip", Unary{UnaryFn::kClip, 2, 1}, {y}));
  EXPECT_THAT(plan_for(net.graph).not_fused.at(0).reason, HasSubstr("not between 2 and 1"));
}

TEST(CudnnPlan, AConvolutionThatDoesNotGoThereSaysWhy) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 4, 4});
  const ValueId w = net.input("w", {8, 8, 3, 3});
  net.output(net.op("conv", Conv{window2d(3, 1), 1}, {x, w}));
  const Plan plan = plan_for(net.graph);
  EXPECT_THAT(families_of(plan), testing::Not(testing::Contains("cudnn")));
  ASSERT_EQ(plan.not_fused.size(), 1U);
  EXPECT_EQ(plan.not_fused[0].rule, "cudnn-weights");
  EXPECT_THAT(plan.not_fused[0].nodes, ElementsAre("conv"));
  EXPECT_THAT(plan.not_fused[0].reason, HasSubstr("'w' is no constant"));
}

TEST(CudnnPlan, OtherOperatorsSayNothing) {
  Net net;
  net.output(net.op("pool", Pool{PoolFn::kMax, window2d(2, 0, 2)}, {net.input("x", {1, 8, 4, 4})}));
  EXPECT_THAT(plan_for(net.graph).not_fused, IsEmpty());
}

TEST(CudnnPlan, Bfloat16NeedsSm80) {
  Net net;
  net.output(net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1)));
  lower_precision(net.graph, DType::kBFloat16, true);
  EXPECT_THAT(rules_of(plan_for(net.graph, 75)), ElementsAre("cudnn-dtype"));
  EXPECT_THAT(rules_of(plan_for(net.graph, 80)), IsEmpty());
}

TEST(CudnnPlan, ConversionsAtTheBordersAreKernelsOfOurOwn) {
  Net net;
  net.output(net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1)));
  lower_precision(net.graph, DType::kFloat16, false);
  const Plan plan = plan_for(net.graph);
  EXPECT_TRUE(cudnn_kernel(plan).group.casts.empty());
  EXPECT_EQ(problem_of(plan).y.dtype, DType::kFloat16);
}

TEST(CudnnPlan, GroupsOfOtherFamiliesAreTakenAsTheyLie) {
  Net net;
  const ValueId y = net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1));
  net.output(net.unary("relu", UnaryFn::kRelu, y));
  const auto support = [&](bool nhwc) {
    Plan plan = make_plan(net.graph, cuda_device(90), {FusionLevel::kFull, nhwc}, cuda::registry());
    EXPECT_EQ(plan.kernels.size(), 1U);
    return cuda::cudnn_takes(plan, plan.kernels[0].group);
  };
  EXPECT_TRUE(support(true).ok) << support(true).reason;
  EXPECT_FALSE(support(false).ok);
  EXPECT_EQ(support(false).rule, "cudnn-layout");
  lower_precision(net.graph, DType::kFloat16, false);
  EXPECT_EQ(support(true).rule, "cudnn-epilogue");  // conversions inside
}

TEST(CudnnPlan, WhatGoesThereIsJoinedToNothingElse) {
  Net net;
  const ValueId x = net.input("x", {1, 64, 16, 16});
  ValueId gate = net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true}, {x});
  gate = net.unary("relu", UnaryFn::kRelu, net.conv("down", gate, 16, window2d(1)));
  gate = net.unary("gate", UnaryFn::kSigmoid, net.conv("up", gate, 64, window2d(1)));
  net.output(net.mul("scale", x, gate));
  const auto count = [](const Plan& plan, const char* family) {
    return std::ranges::count(families_of(plan), family);
  };
  EXPECT_EQ(count(make_plan(net.graph, cuda_device(90), {}, cuda::registry()), "squeeze_excite"),
            1);
  const Plan plan = plan_for(net.graph);
  EXPECT_EQ(count(plan, "squeeze_excite"), 0);
  EXPECT_EQ(count(plan, "cudnn"), 2);
}

TEST(CudnnPlan, OfferedCudnnFormsNoGroup) {
  Net net;
  net.output(net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1)));
  const Plan plan = make_plan(net.graph, cuda_device(90), {}, cuda::registry_offering_cudnn());
  EXPECT_THAT(families_of(plan), testing::Not(testing::Contains("cudnn")));
  EXPECT_THAT(plan.not_fused, IsEmpty());
}

}  // namespace
}  // namespace braze::test
