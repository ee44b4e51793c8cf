// The planner without any kernel: groups, refusals, layouts, views, memory, accounting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "passes/net.hpp"
#include "plan/device_families.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Plan plan_of(const Net& net, FusionLevel fusion = FusionLevel::kFull, bool nhwc_io = false) {
  return make_plan(net.graph, cpu_device(1), {fusion, nhwc_io}, device_families());
}

std::vector<std::vector<std::string>> nodes_of(const Plan& plan) {
  std::vector<std::vector<std::string>> nodes;
  for (const KernelPlan& kernel : plan.kernels) nodes.push_back(kernel.nodes);
  return nodes;
}

std::vector<std::string> families_of(const Plan& plan) {
  std::vector<std::string> families;
  for (const KernelPlan& kernel : plan.kernels) families.push_back(kernel.family);
  return families;
}

/// The refusal between these two nodes, or one with an empty rule.
Refusal refusal(const Plan& plan, const std::string& a, const std::string& b) {
  for (const Refusal& entry : plan.not_fused) {
    if (entry.nodes == std::vector<std::string>{a, b}) return entry;
  }
  return {};
}

const Placement& placement(const Plan& plan, const std::string& value) {
  for (ValueId id = 0; id < plan.graph.value_count(); ++id) {
    if (plan.graph.value(id).name == value) return plan.placements[static_cast<std::size_t>(id)];
  }
  throw std::runtime_error("no value " + value);
}

using Nodes = std::vector<std::string>;

TEST(Groups, ConvolutionTakesBiasReluAndResidual) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 6, 6});
  const ValueId r = net.input("r", {1, 8, 6, 6});
  const ValueId c = net.conv("conv", x, 8, window2d(3, 1));
  const ValueId b = net.add("bias", c, net.random({8, 1, 1}));
  net.output(net.unary("relu", UnaryFn::kRelu, net.add("residual", r, b)));
  const Plan plan = plan_of(net);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"conv", "bias", "residual", "relu"}));
  EXPECT_EQ(plan.kernels[0].kind, KernelKind::kEpilogue);
  const auto& steps = plan.kernels[0].group.members[0].epilogue.steps;
  EXPECT_EQ(steps[0].broadcast, Broadcast::kChannel);
  EXPECT_EQ(steps[1].broadcast, Broadcast::kFull);
  EXPECT_TRUE(steps[1].swapped);
  EXPECT_GT(plan.kernels[0].work.onchip_bytes, 0);
  EXPECT_TRUE(plan.not_fused.empty());
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(Groups, FusionOffSaysSo) {
  Net net;
  net.output(net.unary("relu", UnaryFn::kRelu,
                       net.conv("conv", net.input("x", {1, 8, 6, 6}), 8, window2d(3, 1))));
  const Plan plan = plan_of(net, FusionLevel::kOff);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"conv"}, Nodes{"relu"}));
  EXPECT_EQ(refusal(plan, "conv", "relu").rule, "option");
}

TEST(Groups, ResultThatIsAlsoAnOutputStaysApart) {
  Net net;
  const ValueId c = net.conv("conv", net.input("x", {1, 8, 6, 6}), 8, window2d(3, 1));
  net.output(c);
  net.output(net.unary("relu", UnaryFn::kRelu, c));
  const Plan plan = plan_of(net);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"conv"}, Nodes{"relu"}));
  EXPECT_EQ(refusal(plan, "conv", "relu").rule, "graph-output");
}

TEST(Groups, ResultWithTwoReadersStaysApart) {
  Net net;
  const ValueId c = net.conv("conv", net.input("x", {1, 8, 6, 6}), 8, window2d(3, 1));
  const ValueId relu = net.unary("relu", UnaryFn::kRelu, c);
  net.output(net.conv("next", c, 4, window2d(1)));
  net.output(relu);
  const Refusal entry = refusal(plan_of(net), "conv", "relu");
  EXPECT_EQ(entry.rule, "several-readers");
  EXPECT_THAT(entry.reason, HasSubstr("'next'"));
}

TEST(Groups, SquareOfTheResultStaysApart) {
  Net net;
  const ValueId c = net.conv("conv", net.input("x", {1, 8, 6, 6}), 8, window2d(3, 1));
  net.output(net.mul("square", c, c));
  EXPECT_EQ(refusal(plan_of(net), "conv", "square").rule, "both-operands");
}

TEST(Groups, OperandAlongTheLastAxisIsNoBias) {
  Net net;  // [8] against [1,8,6,8]: as many elements as channels, but along W
  const ValueId c = net.conv("conv", net.input("x", {1, 8, 6, 8}), 8, window2d(3, 1));
  net.output(net.add("add", c, net.random({8})));
  const Refusal entry = refusal(plan_of(net), "conv", "add");
  EXPECT_EQ(entry.rule, "broadcast");
  EXPECT_THAT(entry.reason, HasSubstr("axes 3"));
}

TEST(Groups, OperandThatGrowsTheResultStaysApart) {
  Net net;
  const ValueId c = net.conv("conv", net.input("x", {1, 8, 1, 1}), 8, window2d(1));
  net.output(net.add("add", c, net.input("r", {4, 8, 5, 5})));
  EXPECT_EQ(refusal(plan_of(net), "conv", "add").rule, "shape");
}

TEST(Groups, OfTwoConvolutionsTheLaterTakesTheirSum) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 6, 6});
  const ValueId a = net.conv("a", x, 8, window2d(1));
  const ValueId b = net.conv("b", x, 8, window2d(3, 1));
  net.output(net.unary("relu", UnaryFn::kRelu, net.add("sum", a, b)));
  const Plan plan = plan_of(net);
  EXPECT_THAT(nodes_of(plan), ElementsAre(Nodes{"a"}, Nodes{"b", "sum", "relu"}));
  EXPECT_EQ(refusal(plan, "a", "sum").rule, "joined-elsewhere");
}

TEST(Groups, PointwiseNodesJoinEachOther) {
  Net net;
  const ValueId x = net.input("x", {2, 3});
  net.output(net.unary("exp", UnaryFn::kExp, net.unary("neg", UnaryFn::kNeg, x)));
  EXPECT_THAT(nodes_of(plan_of(net)), ElementsAre(Nodes{"neg", "exp"}));
}

TEST(Layouts, ConvolutionsReadAndWriteTheModelsLayoutThemselves) {
  Net net;
  const ValueId a = net.conv("a", net.input("x", {1, 8, 6, 6}), 8, window2d(3, 1));
  net.output(net.conv("b", a, 8, window2d(1)));
  const Plan plan = plan_of(net);
  EXPECT_THAT(families_of(plan), ElementsAre("conv", "conv"));
  EXPECT_EQ(placement(plan, "x").layout, Layout::kModel);
  EXPECT_EQ(placement(plan, "a").layout, Layout::kChannelsLast);
  EXPECT_EQ(placement(plan, "b").layout, Layout::kModel);
}

TEST(Layouts, PoolOnModelInputNeedsNoCopyButAConvolutionsResultIsPooledChannelsLast) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 8, 8});
  const ValueId p = net.op("pool", Pool{PoolFn::kMax, window2d(2, 0, 2)}, {x});
  const ValueId c = net.conv("conv", p, 8, window2d(3, 1));
  net.output(net.conv("last", net.op("pool2", Pool{PoolFn::kMax, window2d(2, 0, 2)}, {c}), 8,
                      window2d(1)));
  const Plan plan = plan_of(net);
  EXPECT_THAT(families_of(plan), ElementsAre("pool", "conv", "pool", "conv"));
  EXPECT_EQ(placement(plan, "pool").layout, Layout::kModel);
  EXPECT_EQ(placement(plan, "pool2").layout, Layout::kChannelsLast);
}

TEST(Layouts, ReshapeAcrossChannelsIsReadInModelOrder) {
  Net net;  // conv -> pool -> reshape: the pool's result must be in model order, whoever writes it
            // so
  const ValueId c = net.conv("conv", net.input("x", {1, 8, 8, 8}), 8, window2d(3, 1));
  const ValueId p = net.op("pool", Pool{PoolFn::kMax, window2d(2, 0, 2)}, {c});
  net.output(net.reshape("flat", p, {1, 128}));
  const Plan plan = plan_of(net);
  EXPECT_THAT(families_of(plan),
              ElementsAre("conv", "pool"));  // conv writes model order, pool keeps it
  EXPECT_THAT(plan.folded, ElementsAre(::testing::FieldsAre("flat", "view")));
}

TEST(Layouts, TransposeToLastIsAView) {
  Net net;
  const ValueId c = net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1));
  net.output(net.reshape("rows", net.transpose("t", c, {0, 2, 3, 1}), {1, 16, 8}));
  const Plan plan = plan_of(net);
  EXPECT_THAT(families_of(plan), ElementsAre("conv"));
  EXPECT_EQ(placement(plan, "conv").layout, Layout::kChannelsLast);
  EXPECT_EQ(placement(plan, "conv").memory, Memory::kOutput);
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(Layouts, NhwcInputsAndOutputsAreKept) {
  Net net;
  net.output(net.conv("conv", net.input("x", {1, 8, 4, 4}), 8, window2d(3, 1)));
  const Plan plan = plan_of(net, FusionLevel::kFull, true);
  EXPECT_EQ(placement(plan, "x").layout, Layout::kChannelsLast);
  EXPECT_EQ(placement(plan, "conv").layout, Layout::kChannelsLast);
}

TEST(Views, ConcatIsWrittenInPlace) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 6, 6});
  const ValueId a = net.conv("a", x, 4, window2d(1));
  const ValueId b = net.conv("b", x, 12, window2d(1));
  const ValueId cat = net.op("cat", Concat{1}, {a, b});
  net.output(net.conv("c", cat, 8, window2d(1)));
  const Plan plan = plan_of(net);
  EXPECT_THAT(families_of(plan), ElementsAre("conv", "conv", "conv"));
  EXPECT_EQ(placement(plan, "a").pitch, 16);
  EXPECT_EQ(placement(plan, "b").pitch, 16);
  EXPECT_EQ(placement(plan, "b").offset - placement(plan, "a").offset, 16);
  EXPECT_EQ(plan.arena_bytes, 16 * 36 * 4);
}

TEST(Views, ConcatCopiesOnlyWhatCannotBeWrittenInPlace) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 6, 6});
  const ValueId a = net.conv("a", x, 4, window2d(1));
  const ValueId cat = net.op("cat", Concat{1}, {a, x});
  net.output(net.conv("c", cat, 8, window2d(1)));
  EXPECT_THAT(families_of(plan_of(net)), ElementsAre("conv", "relayout", "conv"));
}

TEST(Views, ConcatOfOneValueTwiceIsRight) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 6, 6});
  const ValueId a = net.conv("a", x, 4, window2d(1));
  net.output(net.conv("c", net.op("cat", Concat{1}, {a, a}), 8, window2d(1)));
  EXPECT_THAT(families_of(plan_of(net)), ElementsAre("conv", "relayout", "conv"));
}

TEST(Views, SplitIsReadInPlaceAndShuffledUnitsChain) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 6, 6});
  const ValueId c = net.conv("c", x, 8, window2d(1));
  const ValueId left = net.slice("left", c, 1, 0, 4);
  const ValueId right = net.slice("right", c, 1, 4, 8);
  const ValueId d = net.conv("d", right, 4, window2d(3, 1));
  net.output(net.conv("e", net.op("cat", Concat{1}, {left, d}), 8, window2d(1)));
  const Plan plan = plan_of(net);
  EXPECT_THAT(families_of(plan),
              ElementsAre("conv", "slice", "conv",
                          "conv"));  // left is copied into the concat by its own slice
  EXPECT_EQ(placement(plan, "right").pitch, 8);
}

TEST(Views, ReshapedHeadsAreWrittenIntoTheirConcat) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 4, 4});
  std::vector<ValueId> heads;
  for (const std::string name : {"a", "b"}) {
    const ValueId c = net.conv(name, x, 4, window2d(1));
    heads.push_back(
        net.reshape(name + "_rows", net.transpose(name + "_t", c, {0, 2, 3, 1}), {1, 16, 4}));
  }
  net.output(net.op("cat", Concat{1}, heads));
  const Plan plan = plan_of(net);
  EXPECT_THAT(families_of(plan), ElementsAre("conv", "conv"));
  EXPECT_EQ(placement(plan, "b").memory, Memory::kOutput);
  EXPECT_EQ(placement(plan, "b").offset, 256);
}

TEST(Outputs, AnInputOrAConstantAsOutputIsCopied) {
  Net net;
  const ValueId x = net.input("x", {2, 3});
  net.output(x);
  net.output(net.reshape("r", x, {6}));
  net.output(net.random({4}));
  const Plan plan = plan_of(net);
  EXPECT_THAT(families_of(plan), ElementsAre("relayout", "relayout", "relayout"));
  for (const GraphOutput& output : plan.graph.outputs) {
    EXPECT_EQ(plan.placements[static_cast<std::size_t>(output.value)].memory, Memory::kOutput);
  }
}

TEST(Memory, PointwiseResultsOverwriteTheirInput) {
  Net net;
  ValueId x =
      net.op("pool", Pool{PoolFn::kMax, window2d(2, 0, 2)}, {net.input("x", {1, 8, 32, 32})});
  const ValueId side = x;
  x = net.unary("exp", UnaryFn::kExp, net.add("sum", x, net.input("y", {8, 1, 1})));
  net.output(
      net.op("last", Pool{PoolFn::kMax, window2d(2, 0, 2)}, {net.unary("neg", UnaryFn::kNeg, x)}));
  (void)side;
  const Plan plan = plan_of(net, FusionLevel::kOff);
  EXPECT_EQ(plan.arena_bytes, 8 * 16 * 16 * 4);  // one buffer for pool, sum, exp and neg
}

/// Values that are alive at the same time must not share bytes unless one is a view of the other's
/// storage or written in place.
void expect_disjoint_lives(const Plan& plan) {
  struct Life {
    std::size_t first = SIZE_MAX, last = 0;
  };
  const auto root = [&](ValueId id) {
    while (plan.placements[static_cast<std::size_t>(id)].view_of != kNoValue)
      id = plan.placements[static_cast<std::size_t>(id)].view_of;
    return id;
  };
  std::map<ValueId, Life> lives;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const auto touch = [&](ValueId id) {
      if (plan.placements[static_cast<std::size_t>(id)].memory != Memory::kArena) return;
      Life& life = lives[root(id)];
      life.first = std::min(life.first, k);
      life.last = std::max(life.last, k);
    };
    for (const ValueId id : plan.kernels[k].group.inputs) touch(id);
    for (const ValueId id : plan.kernels[k].group.outputs) touch(id);
  }
  for (const auto& [a, life_a] : lives) {
    const Placement& pa = plan.placements[static_cast<std::size_t>(a)];
    EXPECT_LE(pa.offset + pa.bytes, plan.arena_bytes);
    for (const auto& [b, life_b] : lives) {
      if (a >= b) continue;
      const Placement& pb = plan.placements[static_cast<std::size_t>(b)];
      const bool in_place =
          pa.offset == pb.offset && (life_a.last == life_b.first || life_b.last == life_a.first);
      const bool together = life_a.first <= life_b.last && life_b.first <= life_a.last;
      const bool overlap = pa.offset < pb.offset + pb.bytes && pb.offset < pa.offset + pa.bytes;
      EXPECT_FALSE(together && overlap && !in_place)
          << plan.graph.value(a).name << " and " << plan.graph.value(b).name << "\n"
          << print(plan);
    }
  }
}

TEST(Memory, RandomGraphsShareBytesSafelyAndTightly) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Net net(seed);
    std::vector<ValueId> values = {net.input("x", {1, 8, 16, 16})};
    for (int i = 0; i < 30; ++i) {
      const ValueId v = values[static_cast<std::size_t>(
          net.pick(std::max<std::int64_t>(0, static_cast<std::int64_t>(values.size()) - 4),
                   static_cast<std::int64_t>(values.size()) - 1))];
      const std::string id = "n" + std::to_string(i);
      const Shape shape = net.shape(v);
      switch (net.pick(0, 6)) {
        case 0:
          values.push_back(net.conv(id, v, 4 * net.pick(1, 6), window2d(3, 1)));
          break;
        case 1:
          values.push_back(net.unary(id, UnaryFn::kRelu, v));
          break;
        case 2:
          values.push_back(net.op(id, Concat{1}, {v, values.back()}));
          break;
        case 3:
          values.push_back(net.slice(id, v, 1, 0, std::max<std::int64_t>(1, shape[1] / 2)));
          break;
        case 4:
          values.push_back(
              net.add(id, v, net.conv(id + "c", values.back(), shape[1], window2d(1))));
          break;
        case 5:
          values.push_back(net.op(id, Pool{PoolFn::kMax, window2d(3, 1)}, {v}));
          break;
        default:
          values.push_back(net.op(id, ChannelShuffle{1}, {v}));
          break;
      }
    }
    net.output(values.back());
    net.output(values[values.size() - 3]);
    net.graph.remove_dead();
    for (const FusionLevel fusion : {FusionLevel::kOff, FusionLevel::kFull}) {
      const Plan plan = plan_of(net, fusion);
      expect_disjoint_lives(plan);
      EXPECT_LE(plan.arena_bytes, plan.largest_live_bytes * 11 / 10);
      // Each model node once.
      std::multiset<std::string> seen;
      for (const KernelPlan& kernel : plan.kernels)
        seen.insert(kernel.nodes.begin(), kernel.nodes.end());
      for (const Folded& folded : plan.folded) seen.insert(folded.node);
      for (const std::string& id : net.ids()) EXPECT_EQ(seen.count(id), 1U) << id;
    }
  }
}

TEST(Plan, IsAPureFunction) {
  Net net;
  const ValueId a = net.conv("a", net.input("x", {1, 8, 6, 6}), 8, window2d(3, 1));
  net.output(net.unary("relu", UnaryFn::kRelu, a));
  EXPECT_EQ(print(plan_of(net)), print(plan_of(net)));
}

}  // namespace
}  // namespace braze::test
