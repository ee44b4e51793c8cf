// Where convolutions one after another become one kernel of the families chain_sm80 and
// chain_portable, and where they must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/families.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"
#include "plan/stages.hpp"

namespace braze::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// x -> expand, depthwise, project, + x -> end.
class InvertedResidual {
 public:
  explicit InvertedResidual(Shape image = {8, 16, 112, 112}, std::int64_t hidden = 64) {
    x = net.transpose("x", net.input("in", {image[0], image[1], image[3], image[2]}), {0, 1, 3, 2});
    expanded = net.clip("e6", net.conv("expand", x, hidden, window2d(1)), 0, 6);
    const ValueId d = net.conv("depthwise", expanded, hidden, window2d(3, 1), hidden);
    projected = net.conv("project", net.clip("d6", d, 0, 6), image[1], window2d(1));
    y = net.add("sum", projected, x);
    net.output(net.unary("end", UnaryFn::kAbs, net.transpose("turn", y, {0, 1, 3, 2})));
  }
  Plan plan(int sm = 86, FusionLevel fusion = FusionLevel::kFull, DType dtype = DType::kFloat16) {
    if (dtype != DType::kFloat32) lower_precision(net.graph, dtype, true);
    return make_plan(net.graph, cuda_device(sm), {fusion, false}, cuda::registry());
  }

  Net net;
  ValueId x, expanded, projected, y;
};

const KernelPlan* chain_of(const Plan& plan) {
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.family.starts_with("chain_")) return &kernel;
  }
  return nullptr;
}

std::vector<std::string> rules_of(const Plan& plan) {
  std::vector<std::string> rules;
  for (const Refusal& refusal : plan.not_fused) rules.push_back(refusal.rule);
  return rules;
}

TEST(ChainPlan, AnInvertedResidualIsOneKernel) {
  for (const int sm : {70, 75, 86}) {
    const Plan plan = InvertedResidual({1, 16, 56, 56}).plan(sm);
    const KernelPlan* chain = chain_of(plan);
    ASSERT_NE(chain, nullptr) << print(plan);
    EXPECT_EQ(chain->family, sm < 80 ? "chain_portable" : "chain_sm80");
    EXPECT_EQ(chain->kind, KernelKind::kGroup);
    EXPECT_EQ(chain->nodes,
              (std::vector<std::string>{"expand", "e6", "depthwise", "d6", "project", "sum"}));
    EXPECT_EQ(chain->group.inputs.size(), 1U);
    EXPECT_GE(chain->work.onchip_bytes, 2.0 * 64 * 56 * 56 * 2);
    EXPECT_GT(chain->work.units, 1);
    for (std::size_t i = 0; i < 2; ++i) {
      const ValueId inside = chain->group.members[i].result;
      EXPECT_EQ(plan.placements[static_cast<std::size_t>(inside)].memory, Memory::kNone);
    }
    const cuda::Kernel kernel = cuda::builder(chain->family)(plan, *chain);
    EXPECT_LE(kernel.shared_bytes, plan.device.onchip_bytes);
    const Registry registry = cuda::registry();
    const KernelFamily& family = family_of(registry, chain->family);
    const Tiling tiling = family.tiling(plan.graph, chain->group, chain->candidate, plan.device);
    EXPECT_GT(tiling.rows, 0);
    EXPECT_GT(tiling.columns, 0);
  }
}

TEST(ChainPlan, NotWithoutFusionOfGroups) {
  for (const FusionLevel fusion : {FusionLevel::kOff, FusionLevel::kEpilogue})
    EXPECT_EQ(chain_of(InvertedResidual().plan(86, fusion)), nullptr);
}

TEST(ChainPlan, WhatIsReadElsewhereIsInMemory) {
  InvertedResidual block;
  block.net.output(block.expanded);
  const Plan plan = block.plan();
  for (const KernelPlan& kernel : plan.kernels) {
    for (const Group::Member& member : kernel.group.members) {
      if (member.result != block.expanded) continue;
      EXPECT_THAT(kernel.group.outputs, Contains(block.expanded)) << print(plan);
    }
  }
  EXPECT_NE(plan.placements[static_cast<std::size_t>(block.expanded)].memory, Memory::kNone);
}

TEST(ChainPlan, WhatIsSlowerIsNotMade) {
  // Of a small image there are few tiles: many kernels with many blocks each are faster.
  const Plan plan = InvertedResidual({1, 160, 7, 7}, 960).plan();
  EXPECT_EQ(chain_of(plan), nullptr) << print(plan);
  ASSERT_THAT(rules_of(plan), Contains("slower"));
  for (const Refusal& refusal : plan.not_fused) {
    if (refusal.rule != "slower") continue;
    EXPECT_THAT(refusal.reason, HasSubstr("chain_sm80"));
  }
}

TEST(ChainPlan, WhatIsSlowerIsMadeWhereAskedFor) {
  setenv("BRAZE_JOIN", "most", 1);
  const Plan plan = InvertedResidual({1, 160, 7, 7}, 960).plan();
  unsetenv("BRAZE_JOIN");
  const KernelPlan* chain = chain_of(plan);
  ASSERT_NE(chain, nullptr) << print(plan);
  EXPECT_EQ(chain->family, "chain_sm80");
  EXPECT_EQ(chain->group.members.size(), 3U);
  EXPECT_LT(chain->est_us, 1e3);
}

TEST(ChainPlan, RefusalsHaveARuleAndAReason) {
  {
    Net net;
    Window wide = window2d(3, 24);
    wide.dilations = {24, 24};
    const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {8, 64, 64, 64}));
    net.output(net.conv("b", net.conv("a", x, 64, window2d(3, 1)), 64, wide));
    lower_precision(net.graph, DType::kFloat16, true);
    const Plan plan =
        make_plan(net.graph, cuda_device(86), {FusionLevel::kFull, false}, cuda::registry());
    EXPECT_EQ(chain_of(plan), nullptr);
    EXPECT_THAT(rules_of(plan), Contains("on-chip"));
  }
  {
    Net net;
    const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {8, 32, 56, 56}));
    net.output(net.conv("b", net.conv("a", x, 32, window2d(3, 1), 4), 32, window2d(1)));
    lower_precision(net.graph, DType::kFloat16, true);
    const Plan plan =
        make_plan(net.graph, cuda_device(86), {FusionLevel::kFull, false}, cuda::registry());
    EXPECT_EQ(chain_of(plan), nullptr);
    EXPECT_THAT(rules_of(plan), Contains("groups"));
  }
}

TEST(ChainPlan, OtherNeighboursAreNotSpokenOf) {
  Net net;
  const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {8, 32, 28, 28}));
  const ValueId a = net.transpose("turn", net.conv("a", x, 32, window2d(3, 1)), {0, 1, 3, 2});
  net.output(net.conv("b", a, 32, window2d(1)));
  lower_precision(net.graph, DType::kFloat16, true);
  const Plan plan =
      make_plan(net.graph, cuda_device(86), {FusionLevel::kFull, false}, cuda::registry());
  EXPECT_EQ(chain_of(plan), nullptr);
  EXPECT_THAT(rules_of(plan), Not(Contains("slower")));
}

}  // namespace
}  // namespace braze::test
