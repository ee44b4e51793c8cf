// Where products of matrices one after another become one kernel on a GPU, and where they must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernels/cpu/families.hpp"
#include "kernels/cuda/families.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"
#include "target/image_conv.hpp"

namespace braze::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Nodes = std::vector<std::string>;

/// A registry whose chains cost nothing, so that every one that can be made is, and other groups
/// are none.
Registry eager(Registry registry) {
  for (KernelFamily& family : registry) {
    if (!family.name.starts_with("chain_")) {
      family.joins = nullptr;
      continue;
    }
    family.work = [](const Graph&, const Group&, const Candidate&, const Device&) {
      return Work{};
    };
  }
  return registry;
}

ValueId gemm(Net& net, const std::string& id, ValueId x, std::int64_t outputs,
             const Gemm& op = {.trans_b = true}) {
  const std::int64_t depth = net.shape(x)[op.trans_a ? 0 : 1];
  const Shape shape = op.trans_b ? Shape{outputs, depth} : Shape{depth, outputs};
  return net.op(id, op, {x, net.random(shape), net.random({outputs})});
}
ValueId relu(Net& net, const std::string& id, ValueId x) {
  return net.unary(id, UnaryFn::kRelu, x);
}

/// x -> "a", "ra", "b", "rb".
Net two(std::int64_t rows, std::int64_t depth, std::int64_t middle, std::int64_t outputs) {
  Net net;
  const ValueId x = net.input("x", {rows, depth});
  const ValueId a = relu(net, "ra", gemm(net, "a", x, middle));
  net.output(relu(net, "rb", gemm(net, "b", a, outputs)));
  return net;
}

Plan plan_of(Net net, int sm, const Registry& registry, FusionLevel fusion = FusionLevel::kFull) {
  lower_precision(net.graph, DType::kFloat16, true);
  return make_plan(net.graph, cuda_device(sm), {fusion, false}, registry);
}

std::vector<Nodes> groups_of(const Plan& plan) {
  std::vector<Nodes> nodes;
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.kind == KernelKind::kGroup) nodes.push_back(kernel.nodes);
  }
  return nodes;
}

/// That a and b are two kernels on every architecture, though groups would cost nothing; and the
/// rule, where one is told.
void expect_apart(const std::function<void(Net&, ValueId)>& build, const std::string& rule = "",
                  const Shape& shape = {4096, 64}) {
  for (const int sm : {90, 80, 75}) {
    Net net;
    build(net, net.input("x", shape));
    const Plan plan = plan_of(net, sm, eager(cuda::registry()));
    EXPECT_THAT(groups_of(plan), ElementsAre()) << print(plan);
    if (rule.empty()) continue;
    const bool told = std::ranges::any_of(plan.not_fused, [&](const Refusal& refusal) {
      return refusal.rule == rule && refusal.nodes == Nodes{"a", "b"};
    });
    EXPECT_TRUE(told) << "no refusal '" << rule << "' on sm_" << sm << " in\n" << print(plan);
  }
}

TEST(ChainGemmPlan, LongMatricesOfFewChannelsAreOneKernel) {
  for (const std::int64_t outputs : {128, 256}) {
    const Plan plan = plan_of(two(81920, 576, 64, outputs), 90, cuda::registry());
    ASSERT_THAT(groups_of(plan), ElementsAre(Nodes{"a", "ra", "b", "rb"})) << print(plan);
    const KernelPlan& kernel = plan.kernels.back();
    EXPECT_EQ(kernel.family, "chain_sm90");
    EXPECT_GE(kernel.work.onchip_bytes, 81920.0 * 64 * 2);
    EXPECT_EQ(plan.placements[static_cast<std::size_t>(kernel.group.members[0].result)].memory,
              Memory::kNone);
  }
}

TEST(ChainGemmPlan, WhatTakesLongerIsNotJoined) {
  const std::vector<std::pair<int, std::string>> families = {
      {90, "chain_sm90"}, {80, "chain_sm80"}, {75, "chain_portable"}};
  for (const auto& [sm, family] : families) {
    const Plan plan = plan_of(two(8192, 576, 64, 256), sm, cuda::registry());
    EXPECT_THAT(groups_of(plan), ElementsAre()) << print(plan);
    const auto slower = std::ranges::find(plan.not_fused, "slower", &Refusal::rule);
    ASSERT_NE(slower, plan.not_fused.end()) << print(plan);
    EXPECT_EQ(slower->nodes, (Nodes{"a", "b"}));
    EXPECT_THAT(slower->reason, HasSubstr(family + " would take"));
    EXPECT_THAT(slower->reason, HasSubstr("those that are made take"));
  }
}

TEST(ChainGemmPlan, EveryFamilyJoinsThem) {
  for (const int sm : {90, 86, 75}) {
    Net net;
    const ValueId x = net.input("x", {4096, 64});
    const ValueId a = relu(net, "ra", gemm(net, "a", x, 48, {}));
    const ValueId b = net.op("b", MatMul{}, {a, net.random({48, 64})});
    net.output(relu(net, "rb", net.add("s", b, x)));
    const Plan plan = plan_of(net, sm, eager(cuda::registry()));
    EXPECT_THAT(groups_of(plan), ElementsAre(Nodes{"a", "ra", "b", "s", "rb"})) << print(plan);
  }
}

TEST(ChainGemmPlan, NotWithoutFusionOfGroups) {
  for (const FusionLevel fusion : {FusionLevel::kOff, FusionLevel::kEpilogue}) {
    EXPECT_THAT(groups_of(plan_of(two(81920, 576, 64, 128), 90, cuda::registry(), fusion)),
                ElementsAre());
  }
}

TEST(ChainGemmPlan, NotOnACpu) {
  const Plan plan = make_plan(two(81920, 576, 64, 128).graph, cpu_device(1),
                              {FusionLevel::kFull, false}, eager(cpu::registry()));
  EXPECT_THAT(groups_of(plan), ElementsAre());
}

TEST(ChainGemmPlan, ProductsThatAreNoConvolutions) {
  expect_apart(
      [](Net& net, ValueId x) {
        const ValueId w = relu(net, "w", net.input("w_in", {64, 64}));
        net.output(net.op("b", Gemm{}, {gemm(net, "a", x, 64), w}));
      },
      "weights");
  expect_apart(
      [](Net& net, ValueId x) {
        net.output(gemm(net, "b", gemm(net, "a", x, 4096), 64, {.trans_a = true}));
      },
      "transposed");
  expect_apart(
      [](Net& net, ValueId x) {
        net.output(gemm(net, "b", gemm(net, "a", x, 64), 64, {.alpha = 0.5, .trans_b = true}));
      },
      "scale");
  expect_apart(
      [](Net& net, ValueId x) {
        net.output(gemm(net, "b", gemm(net, "a", x, 64, {.beta = 2}), 64));
      },
      "scale");
  expect_apart(
      [](Net& net, ValueId x) {
        const ValueId a = gemm(net, "a", x, 64);
        net.output(net.op("b", Gemm{}, {a, net.random({64, 64}), net.random({4096, 64})}));
      },
      "addend");
  expect_apart(
      [](Net& net, ValueId x) {
        const ValueId a = net.op("a", MatMul{}, {x, net.random({64, 64})});
        net.output(net.op("b", MatMul{}, {a, net.random({64, 64})}));
      },
      "rank", {8, 512, 64});
  // The result is the second matrix.
  expect_apart([](Net& net, ValueId x) {
    const ValueId a = gemm(net, "a", x, 64);
    net.output(net.op("b", MatMul{}, {net.random({64, 4096}), a}));
  });
  expect_apart([](Net& net, ValueId x) {
    const ValueId a = gemm(net, "a", x, 4096);
    net.output(net.op("b", MatMul{}, {a, a}));
  });
}

TEST(ChainGemmPlan, WhatIsReadElsewhereIsInMemory) {
  for (const int sm : {90, 80, 75}) {
    Net net;
    const ValueId a = gemm(net, "a", net.input("x", {4096, 64}), 64);
    net.output(gemm(net, "b", a, 64));
    net.output(a);
    const Plan plan = plan_of(net, sm, eager(cuda::registry()));
    ASSERT_THAT(groups_of(plan), ElementsAre(Nodes{"a", "b"})) << print(plan);
    EXPECT_THAT(plan.kernels.back().group.outputs, ::testing::Contains(a));
    EXPECT_NE(plan.placements[static_cast<std::size_t>(a)].memory, Memory::kNone);
  }
}

TEST(ImageConv, OfAProduct) {
  Net net;
  const ValueId x = net.input("x", {10, 6});
  gemm(net, "by_output", x, 4);
  gemm(net, "by_channel", x, 4, {});
  const auto conv = [&net](NodeId id) { return *image_conv(net.graph, net.graph.node(id)); };
  EXPECT_EQ(conv(0).output_stride, 6);
  EXPECT_EQ(conv(0).channel_stride, 1);
  EXPECT_EQ(conv(1).output_stride, 1);
  EXPECT_EQ(conv(1).channel_stride, 4);
  EXPECT_EQ(conv(0).window.kernel, (Ints{1, 1}));
  const ImageShape image = *image_shape({10, 6});
  EXPECT_EQ(image.n, 1);
  EXPECT_EQ(image.channels, 6);
  EXPECT_EQ(image.extent, (std::array<std::int64_t, 2>{1, 10}));
  EXPECT_FALSE(image_shape({10, 6, 2}).has_value());
}

}  // namespace
}  // namespace braze::test
