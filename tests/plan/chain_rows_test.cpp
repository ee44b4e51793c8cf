// Which groups the CPU makes, and which it must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/families.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using Nodes = std::vector<std::string>;

/// One core with 1 MB of L2, whatever machine this is.
Device one_core() {
  Device device = cpu_device(1);
  device.onchip_bytes = 1 << 20;
  device.cache_bytes = 4 << 20;
  device.dram_bandwidth = 18e9;
  device.cache_bandwidth = 24e9;
  device.onchip_bandwidth = 96e9;
  device.flops_fp32 = 96e9;
  device.isa = "AVX3";
  return device;
}

Plan plan_of(const Net& net, FusionLevel fusion = FusionLevel::kFull) {
  return make_plan(net.graph, one_core(), {fusion, true}, cpu::registry());
}

std::vector<Nodes> nodes_of(const Plan& plan) {
  std::vector<Nodes> nodes;
  for (const KernelPlan& kernel : plan.kernels) nodes.push_back(kernel.nodes);
  return nodes;
}

ValueId depthwise(Net& net, const std::string& id, ValueId x) {
  return net.conv(id, x, net.shape(x)[1], window2d(3, 1), net.shape(x)[1]);
}

/// Expand, depthwise, project and residual; returns the residual's sum.
ValueId inverted_residual(Net& net, ValueId x, std::int64_t hidden) {
  const ValueId a = net.clip("a", net.conv("expand", x, hidden, window2d(1)), 0, 6);
  const ValueId b = net.clip("b", depthwise(net, "dw", a), 0, 6);
  return net.add("sum", x, net.conv("project", b, net.shape(x)[1], window2d(1)));
}

TEST(ChainRowsPlan, AnInvertedResidualIsOneKernelWithNothingInMemory) {
  Net net;
  net.output(inverted_residual(net, net.input("x", {1, 24, 112, 112}), 144));
  const Plan plan = plan_of(net);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"expand", "a", "dw", "b", "project", "sum"}));
  const KernelPlan& kernel = plan.kernels[0];
  EXPECT_EQ(kernel.family, "chain_rows");
  EXPECT_EQ(kernel.kind, KernelKind::kGroup);
  EXPECT_EQ(plan.arena_bytes, 0);
  const double pixel = 112 * 112 * 4, weights = 24 * 144 + 9 * 144 + 144 * 24 + 2 * 144 + 24;
  EXPECT_EQ(kernel.work.dram_bytes, 2 * 24 * pixel + 4 * weights);
  EXPECT_EQ(kernel.work.onchip_bytes, 4 * 144 * pixel + 24 * pixel);  // 2 x (conv, clip), the sum
}

TEST(ChainRowsPlan, OnlyAtFullFusion) {
  Net net;
  net.output(inverted_residual(net, net.input("x", {1, 24, 112, 112}), 144));
  EXPECT_THAT(nodes_of(plan_of(net, FusionLevel::kEpilogue)),
              ElementsAre(Nodes{"expand", "a"}, Nodes{"dw", "b"}, Nodes{"project", "sum"}));
}

TEST(ChainRowsPlan, AnIntermediateThatOthersNeedIsStoredAndTheGroupGoesOn) {
  Net net;
  const ValueId x = net.input("x", {1, 16, 320, 160});
  const ValueId a = depthwise(net, "a", x);
  const ValueId b = depthwise(net, "b", a);
  net.output(depthwise(net, "c", b));
  net.output(net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {b}));
  Device device = one_core();
  device.flops_fp32 *= 8;  // memory is the limit
  const Plan plan = make_plan(net.graph, device, {FusionLevel::kFull, true}, cpu::registry());
  ASSERT_THAT(nodes_of(plan), ElementsAre(Nodes{"a", "b", "c"}, Nodes{"mean"}));
  EXPECT_THAT(plan.kernels[0].group.outputs,
              ElementsAre(plan.graph.outputs[0].value, plan.kernels[1].group.inputs[0]));
  const double image = 16 * 320 * 160 * 4;
  EXPECT_EQ(plan.kernels[0].work.onchip_bytes, image);  // a alone
  EXPECT_EQ(plan.arena_bytes, image);                   // b
}

TEST(ChainRowsPlan, AReductionEndsAGroup) {
  Net net;
  const ValueId x = depthwise(net, "a", net.input("x", {1, 16, 160, 160}));
  const ValueId b = depthwise(net, "b", x);
  const ValueId mean = net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {b});
  net.output(net.mul("scale", b, net.unary("gate", UnaryFn::kSigmoid, mean)));
  const Plan plan = plan_of(net);
  EXPECT_THAT(nodes_of(plan), Contains(Nodes{"a", "b"}));
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.kind != KernelKind::kGroup) continue;
    EXPECT_THAT(kernel.nodes, Not(Contains("mean")));
  }
}

TEST(ChainRowsPlan, WeightsThatArriveAtRunTimeStayOut) {
  Net net;
  const ValueId x = depthwise(net, "a", net.input("x", {1, 16, 160, 160}));
  net.output(net.op("b", Conv{window2d(1), 1}, {x, net.input("w", {16, 16, 1, 1})}));
  const Plan plan = plan_of(net);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"a"}, Nodes{"b"}));
  EXPECT_THAT(plan.not_fused,
              Contains(AllOf(Field(&Refusal::rule, "weights"),
                             Field(&Refusal::reason, HasSubstr("'b' arrive at run time")))));
}

TEST(ChainRowsPlan, RowsThatDoNotFitTheL2AreSlower) {
  Net net;
  const ValueId x = depthwise(net, "a", net.input("x", {1, 64, 8, 1600}));
  net.output(depthwise(net, "b", x));
  const Plan plan = plan_of(net);
  EXPECT_THAT(plan.kernels, SizeIs(2));
  ASSERT_THAT(plan.not_fused, SizeIs(1));
  EXPECT_EQ(plan.not_fused[0].rule, "slower");
  EXPECT_THAT(plan.not_fused[0].nodes, ElementsAre("a", "b"));
}

TEST(ChainRowsPlan, AGroupThatRecomputesTooMuchIsSlower) {
  // Two workers, one image of few rows: each would compute most of it.
  Net net;
  ValueId x = net.input("x", {1, 64, 6, 64});
  for (const char* id : {"a", "b", "c"}) x = net.conv(id, x, 64, window2d(5, 2));
  net.output(x);
  Device device = one_core();
  device.units = 2;
  const Plan plan = make_plan(net.graph, device, {FusionLevel::kFull, true}, cpu::registry());
  EXPECT_THAT(plan.kernels, SizeIs(3));
  EXPECT_THAT(plan.not_fused,
              Contains(AllOf(Field(&Refusal::rule, "slower"),
                             Field(&Refusal::reason, HasSubstr("those that are made take")))));
}

/// A unit of ShuffleNet on an image of twice `channels`; the last node is `name` + "shuffle".
ValueId shuffle_unit(Net& net, const std::string& name, ValueId x, std::int64_t channels) {
  const ValueId a = net.slice(name + "left", x, 1, 0, channels);
  const ValueId b = net.slice(name + "right", x, 1, channels, 2 * channels);
  const ValueId c = net.clip(name + "r", net.conv(name + "expand", b, channels, window2d(1)), 0, 6);
  const ValueId d =
      net.conv(name + "project", depthwise(net, name + "dw", c), channels, window2d(1));
  const ValueId all = net.op(name + "all", Concat{1}, {a, d});
  return net.op(name + "shuffle", ChannelShuffle{2}, {all});
}

const Placement& placed(const Plan& plan, const std::string& name) {
  ValueId id = 0;
  while (plan.graph.value(id).name != name) ++id;
  return plan.placements[static_cast<std::size_t>(id)];
}

TEST(ChainRowsPlan, ShuffleUnitsAreOneKernelThatMovesNoPartsOfImages) {
  Net net;
  const ValueId x = net.input("x", {1, 48, 160, 64});
  net.output(shuffle_unit(net, "2", shuffle_unit(net, "1", x, 24), 24));
  Device device = one_core();
  device.flops_fp32 *= 8;  // memory is the limit
  const Plan plan = make_plan(net.graph, device, {FusionLevel::kFull, true}, cpu::registry());
  // What the first unit cuts out of the input is a view as it is.
  ASSERT_THAT(nodes_of(plan),
              ElementsAre(Nodes{"1expand", "1r", "1dw", "1project", "1all", "1shuffle", "2left",
                                "2right", "2expand", "2r", "2dw", "2project", "2all", "2shuffle"}));
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(placed(plan, "2right").pitch, 48);    // in the shuffle's result
  EXPECT_EQ(placed(plan, "2project").pitch, 24);  // read by the shuffle: there is no Concat
  // Of each unit expand, r, dw, project and the Concat's two parts; of the first, the shuffle's
  // two.
  EXPECT_EQ(plan.kernels[0].work.onchip_bytes, 14.0 * 24 * 160 * 64 * 4);
}

TEST(ChainRowsPlan, AConcatIsWrittenInPlaceInsideOfAGroup) {
  Net net;
  const ValueId x = net.input("x", {1, 16, 160, 160});
  const ValueId a = depthwise(net, "a", x), b = depthwise(net, "b", a);
  net.output(depthwise(net, "y", net.op("all", Concat{1}, {b, depthwise(net, "c", a)})));
  const Plan plan = plan_of(net);
  ASSERT_THAT(nodes_of(plan), ElementsAre(Nodes{"a", "b", "c", "all", "y"}));
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(placed(plan, "b").pitch, 32);
  EXPECT_EQ(placed(plan, "c").pitch, 32);
  EXPECT_EQ(plan.kernels[0].work.onchip_bytes, 3.0 * 16 * 160 * 160 * 4);  // a, and "all" once
}

TEST(ChainRowsPlan, PixelsAreRepeatedInsideOfAGroup) {
  Net net;
  const ValueId small = depthwise(net, "a", net.input("z", {1, 32, 80, 80}));
  const ValueId x = net.input("x", {1, 32, 160, 160});
  net.output(net.add("sum", depthwise(net, "b", x), net.upsample("up", small, 2, 2)));
  const Plan plan = plan_of(net);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"a", "up", "b", "sum"}));
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(ChainRowsPlan, WhatInterpolatesStaysOut) {
  Net net;
  const ValueId small = depthwise(net, "a", net.input("z", {1, 32, 80, 80}));
  const ValueId up = net.upsample("up", small, 2, 2, ResizeMode::kLinear);
  net.output(depthwise(net, "b", up));
  const Plan plan = plan_of(net);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"a"}, Nodes{"up"}, Nodes{"b"}));
  EXPECT_THAT(plan.not_fused,
              Contains(AllOf(Field(&Refusal::rule, "resize"),
                             Field(&Refusal::reason, HasSubstr("'up' needs more than")))));
}

TEST(ChainRowsPlan, WhatCutsRowsStaysOut) {
  Net net;
  const ValueId a = depthwise(net, "a", net.input("z", {1, 32, 160, 160}));
  net.output(depthwise(net, "b", net.slice("top", a, 2, 0, 80)));
  const Plan plan = plan_of(net);
  for (const KernelPlan& kernel : plan.kernels) EXPECT_NE(kernel.kind, KernelKind::kGroup);
  EXPECT_THAT(plan.not_fused, Contains(AllOf(Field(&Refusal::rule, "channels"),
                                             Field(&Refusal::reason, HasSubstr("'top'")))));
}

TEST(ChainRowsPlan, AConcatThatCostsNothingOutsideIsNotCopiedInside) {
  // Every input but the last comes from elsewhere and is written where it belongs: in a group they
  // would be copied.
  Net net;
  const ValueId x = net.input("x", {1, 32, 40, 40});
  std::vector<ValueId> parts;
  for (const char* id : {"a", "b", "c"}) parts.push_back(net.conv(id, x, 64, window2d(3, 1)));
  net.output(net.conv("y", net.op("all", Concat{1}, parts), 32, window2d(1)));
  net.output(net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {parts[0]}));
  net.output(net.op("mean2", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {parts[1]}));
  for (const KernelPlan& kernel : plan_of(net).kernels)
    EXPECT_THAT(kernel.nodes, Not(Contains("all")));
}

TEST(ChainRowsPlan, AReaderInBetweenKeepsItsPlace) {
  // "late" reads a, and the group's last member reads "late": a cannot be inside.
  Net net;
  const ValueId a = depthwise(net, "a", net.input("x", {1, 16, 160, 160}));
  const ValueId late = net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {a});
  const ValueId b = depthwise(net, "b", a);
  net.output(net.mul("scale", b, late));
  for (const KernelPlan& kernel : plan_of(net).kernels) {
    if (kernel.kind != KernelKind::kGroup) continue;
    EXPECT_FALSE(std::ranges::count(kernel.nodes, "a") == 1 &&
                 std::ranges::count(kernel.nodes, "scale") == 1);
  }
}

}  // namespace
}  // namespace braze::test
