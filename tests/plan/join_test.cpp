// Joining kernels into groups of several members, with families that exist only for that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/net.hpp"
#include "plan/device_families.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Nodes = std::vector<std::string>;

Support no_anchor(const Graph&, const Node&, const Device&) { return Support::no("members", ""); }

/// Runs up to three convolutions.
Support joins_convolutions(const Graph& graph, const Group& group, const Device&) {
  for (const Group::Member& member : group.members) {
    if (graph.node(member.anchor).kind() != OpKind::kConv) return Support::no("", "");
  }
  if (group.members.size() > 3) return Support::no("members", "takes three");
  return Support::yes();
}

Registry registry_with(Support (*joins)(const Graph&, const Group&, const Device&),
                       Work (*work)(const Graph&, const Group&, const Candidate&,
                                    const Device&) = nullptr) {
  Registry registry = device_families();
  registry.push_back({.name = "tower",
                      .backend = "cpu",
                      .layouts = LayoutRule::kEach,
                      .epilogue = true,
                      .pitched = true,
                      .supports = no_anchor,
                      .joins = joins,
                      .work = work});
  return registry;
}

Plan plan_of(const Net& net, const Registry& registry = registry_with(joins_convolutions),
             FusionLevel fusion = FusionLevel::kFull) {
  return make_plan(net.graph, cpu_device(1), {fusion, false}, registry);
}

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

/// `count` convolutions "c0", "c1", ..., each with a Relu "r0", "r1", ...
ValueId tower(Net& net, ValueId x, int count) {
  for (int i = 0; i < count; ++i) {
    x = net.conv("c" + std::to_string(i), x, 8, window2d(3, 1));
    x = net.unary("r" + std::to_string(i), UnaryFn::kRelu, x);
  }
  return x;
}

TEST(Join, ConvolutionsInARowAreOneKernel) {
  Net net;
  net.output(tower(net, net.input("x", {1, 8, 6, 6}), 2));
  const Plan plan = plan_of(net);
  ASSERT_EQ(plan.kernels.size(), 1U);
  const KernelPlan& kernel = plan.kernels[0];
  EXPECT_THAT(kernel.nodes, ElementsAre("c0", "r0", "c1", "r1"));
  EXPECT_EQ(kernel.kind, KernelKind::kGroup);
  EXPECT_EQ(kernel.family, "tower");
  ASSERT_EQ(kernel.group.members.size(), 2U);
  EXPECT_EQ(kernel.group.members[0].epilogue.steps.size(), 1U);
  EXPECT_EQ(kernel.group.inputs, plan.graph.inputs);
  EXPECT_THAT(kernel.group.outputs, ElementsAre(plan.graph.outputs[0].value));
  const ValueId between = kernel.group.members[0].result;
  EXPECT_EQ(plan.placements[static_cast<std::size_t>(between)].memory, Memory::kNone);
  EXPECT_EQ(plan.arena_bytes, 0);
  const double image = 8 * 6 * 6 * 4;  // two steps, and what is between the members
  EXPECT_EQ(kernel.work.onchip_bytes, 3 * image);
  EXPECT_THAT(plan.not_fused, IsEmpty());
  EXPECT_THAT(describe(plan, kernel), HasSubstr("Conv relu; Conv relu"));
}

TEST(Join, TheCheapestCoverIsMade) {
  Net net;
  net.output(tower(net, net.input("x", {1, 8, 6, 6}), 7));
  const Plan plan = plan_of(net);
  std::vector<std::size_t> members;
  for (const KernelPlan& kernel : plan.kernels) members.push_back(kernel.group.members.size());
  EXPECT_EQ(plan.kernels.size(), 3U);
  EXPECT_THAT(members, Each(::testing::Le(3U)));
  ASSERT_EQ(plan.not_fused.size(), 1U);
  EXPECT_EQ(plan.not_fused[0].rule, "members");
  EXPECT_THAT(plan.not_fused[0].nodes, ElementsAre("c0", "c1", "c2", "c3", "c4", "c5", "c6"));
}

TEST(Join, WhatWouldBeSlowerIsRecordedWithBothTimes) {
  Net net;
  net.output(tower(net, net.input("x", {1, 8, 6, 6}), 3));
  const auto slow = [](const Graph&, const Group& group, const Candidate&, const Device& device) {
    // Three members take a second, two nothing.
    return Work{.flops = group.members.size() == 3 ? device.flops_fp32 : 0};
  };
  const Plan plan = plan_of(net, registry_with(joins_convolutions, slow));
  EXPECT_EQ(plan.kernels.size(), 2U);
  ASSERT_EQ(plan.not_fused.size(), 1U);
  EXPECT_EQ(plan.not_fused[0].rule, "slower");
  EXPECT_THAT(plan.not_fused[0].nodes, ElementsAre("c0", "c1", "c2"));
  EXPECT_THAT(plan.not_fused[0].reason, AllOf(HasSubstr("tower"), HasSubstr("10000"),
                                              HasSubstr(" us, those that are made take ")));
}

TEST(Join, OnlyAtFullFusion) {
  Net net;
  net.output(tower(net, net.input("x", {1, 8, 6, 6}), 2));
  const Plan plan = plan_of(net, registry_with(joins_convolutions), FusionLevel::kEpilogue);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"c0", "r0"}, Nodes{"c1", "r1"}));
}

TEST(Join, AResultThatIsAnOutputTooEndsAChain) {
  Net net;
  const ValueId first = tower(net, net.input("x", {1, 8, 6, 6}), 1);
  net.output(first);
  net.output(net.conv("next", first, 4, window2d(1)));
  EXPECT_EQ(plan_of(net).kernels.size(), 2U);
}

TEST(Join, AResultThatIsReadElsewhereEndsAChain) {
  Net net;
  const ValueId first = tower(net, net.input("x", {1, 8, 6, 6}), 1);
  net.output(net.conv("a", first, 4, window2d(1)));
  net.output(net.conv("b", first, 4, window2d(1)));
  EXPECT_EQ(plan_of(net).kernels.size(), 3U);
}

Registry storing_registry() {
  Registry registry = registry_with(joins_convolutions);
  registry.back().stores = true;
  return registry;
}

TEST(Join, AnOutputIsStoredByFamiliesThatCan) {
  Net net;
  const ValueId first = tower(net, net.input("x", {1, 8, 6, 6}), 1);
  net.output(first);
  net.output(net.conv("next", first, 4, window2d(1)));
  const Plan plan = plan_of(net, storing_registry());
  ASSERT_THAT(nodes_of(plan), ElementsAre(Nodes{"c0", "r0", "next"}));
  // The last member's result, then the one in between.
  EXPECT_THAT(plan.kernels[0].group.outputs,
              ElementsAre(plan.graph.outputs[1].value, plan.graph.outputs[0].value));
  EXPECT_EQ(plan.kernels[0].work.onchip_bytes, 8 * 6 * 6 * 4);  // before the Relu
}

TEST(Join, AResultThatIsReadLaterIsStoredByFamiliesThatCan) {
  Net net;
  const ValueId first = tower(net, net.input("x", {1, 8, 6, 6}), 1);
  net.output(net.conv("a", first, 4, window2d(1)));
  net.output(net.conv("b", first, 4, window2d(1)));
  const Plan plan = plan_of(net, storing_registry());
  EXPECT_EQ(plan.kernels.size(), 2U);
  EXPECT_EQ(plan.kernels[0].group.outputs.size(), 2U);
}

TEST(Join, WhatIsReadBeforeTheLastMemberByOthersEndsAStretch) {
  // "mean" reads c0's result and the last convolution reads mean's: one kernel would have to run
  // both before and after it.
  Net net;
  const ValueId first = tower(net, net.input("x", {1, 8, 6, 6}), 1);
  const ValueId mean = net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {first});
  net.output(net.add("sum", net.conv("next", first, 8, window2d(1)), mean));
  EXPECT_THAT(nodes_of(plan_of(net, storing_registry())),
              ElementsAre(Nodes{"c0", "r0"}, Nodes{"mean"}, Nodes{"next", "sum"}));
}

TEST(Join, AResultMayBeReadByALaterMember) {
  Net net;
  const ValueId first = tower(net, net.input("x", {1, 8, 6, 6}), 1);
  const ValueId second = net.conv("second", first, 8, window2d(3, 1));
  const ValueId third = net.conv("third", second, 8, window2d(3, 1));
  net.output(net.add("sum", third, first));
  const Plan plan = plan_of(net);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"c0", "r0", "second", "third", "sum"}));
  EXPECT_EQ(plan.kernels[0].group.inputs.size(), 1U);
}

TEST(Join, NoStretchEndsBeforeTheLastReaderOfItsResults) {
  Net net;
  const ValueId first = tower(net, net.input("x", {1, 8, 6, 6}), 1);
  const ValueId second = net.conv("second", first, 8, window2d(3, 1));
  const ValueId third = net.conv("third", second, 8, window2d(3, 1));
  const ValueId fourth = net.conv("fourth", third, 8, window2d(3, 1));
  net.output(net.add("sum", fourth, first));
  const Plan plan = plan_of(net);  // all four would do, three of them take the first's result away
  EXPECT_THAT(nodes_of(plan),
              ElementsAre(Nodes{"c0", "r0"}, Nodes{"second", "third", "fourth", "sum"}));
  EXPECT_THAT(rules_of(plan), ElementsAre("several-readers", "members"));
}

TEST(Join, KernelsOfAnotherBackendStayThere) {
  Net net;
  net.output(tower(net, net.input("x", {1, 8, 6, 6}), 2));
  Registry registry = registry_with(joins_convolutions);
  registry[0].backend = "other";
  EXPECT_THAT(nodes_of(plan_of(net, registry)), ElementsAre(Nodes{"c0", "r0"}, Nodes{"c1", "r1"}));
}

/// A convolution "a" of x and a tower of `count` on it that meet in a sum.
Net meeting(int count) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 6, 6});
  const ValueId a = net.conv("a", x, 8, window2d(3, 1));
  net.output(net.add("sum", a, tower(net, x, count)));
  return net;
}

TEST(Join, ABranchIsPartOfWhatReadsIt) {
  EXPECT_THAT(nodes_of(plan_of(meeting(2))),
              ElementsAre(Nodes{"a", "c0", "r0", "c1", "r1", "sum"}));
}

TEST(Join, OfTwoConvolutionsThatMeetTheLaterIsInTheChain) {
  EXPECT_THAT(nodes_of(plan_of(meeting(3))),
              ElementsAre(Nodes{"a"}, Nodes{"c0", "r0", "c1", "r1", "c2", "r2", "sum"}));
}

TEST(Join, ABranchThatCannotJoinRunsBefore) {
  Net net;
  const ValueId c1 = net.conv("c1", net.input("x", {1, 8, 6, 6}), 8, window2d(3, 1));
  const ValueId z = net.input("z", {1, 8, 6, 6});
  const ValueId mean = net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {z});
  const ValueId c3 = net.conv("c3", net.conv("c2", c1, 8, window2d(3, 1)), 8, window2d(3, 1));
  net.output(net.add("sum", c3, mean));
  EXPECT_THAT(nodes_of(plan_of(net)), ElementsAre(Nodes{"mean"}, Nodes{"c1", "c2", "c3", "sum"}));
}

TEST(Join, ARefusalOfFormationIsForgottenWhereAGroupMadeIt) {
  Net net;
  const ValueId c = net.conv("c", net.input("x", {1, 8, 6, 6}), 8, window2d(3, 1));
  net.output(net.conv("d", net.mul("square", c, c), 8, window2d(1)));
  const auto all = [](const Graph&, const Group&, const Device&) { return Support::yes(); };
  EXPECT_THAT(rules_of(plan_of(net, device_families())), ElementsAre("both-operands"));
  const Plan plan = plan_of(net, registry_with(all));
  EXPECT_EQ(plan.kernels.size(), 1U);
  EXPECT_THAT(plan.not_fused, IsEmpty());
}

}  // namespace
}  // namespace braze::test
