// Where squeeze and excitation becomes one kernel on a GPU, and where it must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/families.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Nodes = std::vector<std::string>;

/// relu -> mean -> fc1 silu -> fc2 sigmoid -> mul of relu's result, or of another image.
class Block {
 public:
  explicit Block(Shape image = {1, 96, 14, 14}, std::int64_t hidden = 8) {
    x = net.unary("x", UnaryFn::kRelu, net.input("in", image));
    mean = net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {x});
    h = net.unary("silu", UnaryFn::kSilu, net.conv("fc1", mean, hidden, window2d(1)));
    gate = net.unary("sigmoid", UnaryFn::kSigmoid, net.conv("fc2", h, image[1], window2d(1)));
  }
  Plan scaled(ValueId image, int sm = 90, FusionLevel fusion = FusionLevel::kFull) {
    const ValueId y = net.mul("mul", image, gate);
    net.output(net.unary("end", UnaryFn::kRelu, y));
    lower_precision(net.graph, DType::kFloat16, true);
    Device device = cuda_device(sm);
    device.launch_us = launch_us;
    return make_plan(net.graph, device, {fusion, false}, cuda::registry());
  }
  Plan plan(int sm = 90, FusionLevel fusion = FusionLevel::kFull) { return scaled(x, sm, fusion); }

  Net net;
  ValueId x, mean, h, gate;
  double launch_us = 5;  // dear enough for whatever is allowed
};

std::vector<Nodes> nodes_of(const Plan& plan) {
  std::vector<Nodes> nodes;
  for (const KernelPlan& kernel : plan.kernels) nodes.push_back(kernel.nodes);
  return nodes;
}

std::vector<std::string> rules_of(const Plan& plan) {
  std::vector<std::string> rules;
  for (const Refusal& refusal : plan.not_fused) rules.push_back(refusal.rule);
  return rules;
}

TEST(SqueezeExcite, IsOneKernel) {
  const Plan plan = Block().plan();
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"x"}, Nodes{"mean", "fc1", "silu", "fc2", "sigmoid",
                                                            "mul", "end"}));
  const KernelPlan& kernel = plan.kernels[1];
  EXPECT_EQ(kernel.kind, KernelKind::kGroup);
  EXPECT_EQ(kernel.family, "squeeze_excite");
  EXPECT_EQ(kernel.group.members.size(), 4U);
  EXPECT_EQ(kernel.group.inputs.size(), 1U);
  EXPECT_GT(kernel.work.onchip_bytes, 0);
  for (const Group::Member& member : kernel.group.members) {
    if (&member == &kernel.group.members.back()) continue;
    EXPECT_EQ(plan.placements[static_cast<std::size_t>(member.result)].memory, Memory::kNone);
  }
  EXPECT_THAT(describe(plan, kernel), HasSubstr("Reduce; Conv silu; Conv sigmoid; mul relu"));
  EXPECT_GT(cuda::builder(kernel.family)(plan, kernel).cluster, 1U);
}

TEST(SqueezeExcite, OfALargeImageTheMeanIsAKernelOfManyBlocks) {
  Block block({1, 240, 28, 28});
  block.launch_us = cuda_device(90).launch_us;
  const Plan plan = block.plan();
  EXPECT_THAT(nodes_of(plan), Contains(Nodes{"mean"}));
  EXPECT_THAT(nodes_of(plan), Contains(Nodes{"fc1", "silu", "fc2", "sigmoid", "mul", "end"}));
  ASSERT_THAT(rules_of(plan), Contains("slower"));
  for (const Refusal& refusal : plan.not_fused) {
    if (refusal.rule != "slower") continue;
    EXPECT_THAT(refusal.nodes, ElementsAre("mean", "fc1", "fc2", "mul"));
    EXPECT_THAT(refusal.reason, HasSubstr("squeeze_excite"));
  }
}

TEST(SqueezeExcite, WritesOverItsImage) {
  const Plan plan = Block().plan();
  EXPECT_LE(plan.arena_bytes, 96 * 14 * 14 * 2 + 64);
}

TEST(SqueezeExcite, AMeanThatIsReadElsewhereIsAKernelOfItsOwn) {
  Block block;
  block.net.output(block.mean);
  EXPECT_THAT(
      nodes_of(block.plan()),
      ElementsAre(Nodes{"x"}, Nodes{"mean"}, Nodes{"fc1", "silu", "fc2", "sigmoid", "mul", "end"}));
}

TEST(SqueezeExcite, AGateThatIsReadElsewhereIsStored) {
  Block block;
  block.net.output(block.net.unary("other", UnaryFn::kRelu, block.gate));
  const Plan plan = block.plan();
  EXPECT_THAT(nodes_of(plan), Contains(Nodes{"mean", "fc1", "silu", "fc2", "sigmoid"}));
  EXPECT_THAT(nodes_of(plan), Contains(Nodes{"mul", "end"}));
}

TEST(SqueezeExcite, TheHiddenVectorIsNotReadElsewhere) {
  Block block;
  block.net.output(block.net.unary("other", UnaryFn::kRelu, block.h));
  for (const KernelPlan& kernel : block.plan().kernels) EXPECT_NE(kernel.family, "squeeze_excite");
}

TEST(SqueezeExcite, WhatIsScaledIsWhatTheMeanIsOf) {
  Block block;
  const ValueId other =
      block.net.unary("other", UnaryFn::kTanh, block.net.input("in2", {1, 96, 14, 14}));
  block.net.output(block.net.conv("reader", other, 8, window2d(1)));
  const Plan plan = block.scaled(other);
  EXPECT_THAT(rules_of(plan), Contains("other-image"));
  for (const KernelPlan& kernel : plan.kernels)
    EXPECT_NE(kernel.group.members.size(), 4U) << print(plan);
}

TEST(SqueezeExcite, MembersReadNoOtherResultsOfTheGroup) {
  Block block;
  block.net.output(block.net.add("sum", block.gate, block.mean));
  lower_precision(block.net.graph, DType::kFloat16, true);
  const Plan plan =
      make_plan(block.net.graph, cuda_device(90), {FusionLevel::kFull, false}, cuda::registry());
  for (const KernelPlan& kernel : plan.kernels)
    EXPECT_NO_THROW(cuda::builder(kernel.family)(plan, kernel));
}

TEST(SqueezeExcite, NotWithoutFusionOfGroups) {
  for (const FusionLevel fusion : {FusionLevel::kOff, FusionLevel::kEpilogue}) {
    for (const KernelPlan& kernel : Block().plan(90, fusion).kernels)
      EXPECT_NE(kernel.kind, KernelKind::kGroup);
  }
}

TEST(SqueezeExcite, WithoutClustersTheMeanOfALargerImageStaysApart) {
  const Plan small = Block().plan(80);
  EXPECT_EQ(small.kernels.back().kind, KernelKind::kGroup);
  EXPECT_EQ(cuda::builder("squeeze_excite")(small, small.kernels.back()).cluster, 1U);
  const Plan plan = Block({1, 96, 56, 56}).plan(80);
  EXPECT_THAT(nodes_of(plan), Contains(Nodes{"mean"}));
  EXPECT_THAT(nodes_of(plan), Contains(Nodes{"fc1", "silu", "fc2", "sigmoid", "mul", "end"}));
  EXPECT_THAT(rules_of(plan), Contains("slower"));
}

TEST(SqueezeExcite, WeightsThatDoNotFitOnChipAreRefused) {
  const Plan plan = Block({1, 2048, 7, 7}, 2048).plan();
  EXPECT_THAT(rules_of(plan), Contains("on-chip"));
  for (const KernelPlan& kernel : plan.kernels) EXPECT_NE(kernel.kind, KernelKind::kGroup);
}

TEST(SqueezeExcite, AConvolutionOfMoreThanOnePixelIsNone) {
  Net net;
  const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {1, 32, 8, 8}));
  const ValueId h = net.unary("silu", UnaryFn::kSilu, net.conv("fc1", x, 8, window2d(1)));
  const ValueId gate = net.unary("sigmoid", UnaryFn::kSigmoid, net.conv("fc2", h, 32, window2d(1)));
  net.output(net.mul("mul", x, gate));
  lower_precision(net.graph, DType::kFloat16, true);
  const Plan plan =
      make_plan(net.graph, cuda_device(90), {FusionLevel::kFull, false}, cuda::registry());
  for (const KernelPlan& kernel : plan.kernels) EXPECT_NE(kernel.family, "squeeze_excite");
}

}  // namespace
}  // namespace braze::test
