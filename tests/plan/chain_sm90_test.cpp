// Where convolutions become one kernel on an sm_90, and where they must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/families.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

/// The registry without the other families of chains, which take over where this one does not.
Registry without_others() {
  Registry registry = cuda::registry();
  for (KernelFamily& family : registry) {
    if (family.name == "chain_sm80" || family.name == "chain_portable") family.joins = nullptr;
  }
  return registry;
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Nodes = std::vector<std::string>;

/// x = relu(in), then convolutions with relus: "conv0", "relu0", ...
struct Chain {
  Net net;
  ValueId x, at;
  int count = 0;

  explicit Chain(const Shape& shape) : x(net.unary("x", UnaryFn::kRelu, net.input("in", shape))) {
    at = x;
  }
  Chain& conv(std::int64_t outputs, const Window& window, ValueId plus = kNoValue) {
    const std::string id = std::to_string(count++);
    at = net.conv("conv" + id, at, outputs, window);
    if (plus != kNoValue) at = net.add("add" + id, at, plus);
    at = net.unary("relu" + id, UnaryFn::kRelu, at);
    return *this;
  }
  Plan plan(int sm = 90, FusionLevel fusion = FusionLevel::kFull, DType dtype = DType::kFloat16) {
    net.output(at);
    if (dtype != DType::kFloat32) lower_precision(net.graph, dtype, true);
    return make_plan(net.graph, cuda_device(sm), {fusion, false}, without_others());
  }
};

std::vector<Nodes> chains_of(const Plan& plan) {
  std::vector<Nodes> nodes;
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.family == "chain_sm90") nodes.push_back(kernel.nodes);
  }
  return nodes;
}

void expect_refused(const Plan& plan, const std::string& rule, const std::string& reason) {
  EXPECT_THAT(chains_of(plan), ElementsAre()) << print(plan);
  for (const Refusal& refusal : plan.not_fused) {
    if (refusal.rule == rule && refusal.nodes == Nodes{"conv0", "conv1"}) {
      EXPECT_THAT(refusal.reason, HasSubstr(reason));
      return;
    }
  }
  ADD_FAILURE() << "no refusal '" << rule << "' in\n" << print(plan);
}

TEST(ChainSm90, TwoConvolutionsAreOneKernel) {
  for (const std::int64_t batch : {1, 8, 32, 128}) {
    for (const std::int64_t outputs : {64, 256}) {
      const Plan plan =
          Chain({batch, 64, 56, 56}).conv(64, window2d(3, 1)).conv(outputs, window2d(1)).plan();
      ASSERT_THAT(chains_of(plan), ElementsAre(Nodes{"conv0", "relu0", "conv1", "relu1"}))
          << print(plan);
      for (const KernelPlan& kernel : plan.kernels) {
        if (kernel.family != "chain_sm90") continue;
        EXPECT_EQ(kernel.kind, KernelKind::kGroup);
        EXPECT_EQ(kernel.group.members.size(), 2U);
        EXPECT_GE(kernel.work.onchip_bytes, static_cast<double>(batch) * 64 * 56 * 56 * 2);
        EXPECT_EQ(plan.placements[static_cast<std::size_t>(kernel.group.members[0].result)].memory,
                  Memory::kNone);
      }
    }
  }
}

TEST(ChainSm90, TwoThreeByThreeAreOneKernel) {
  const Plan plan =
      Chain({32, 64, 56, 56}).conv(64, window2d(3, 1)).conv(64, window2d(3, 1)).plan();
  EXPECT_THAT(chains_of(plan), ElementsAre(Nodes{"conv0", "relu0", "conv1", "relu1"}));
}

TEST(ChainSm90, ABottleneckIsOneKernel) {
  Chain chain({1, 256, 56, 56});
  chain.conv(64, window2d(1)).conv(64, window2d(3, 1)).conv(256, window2d(1), chain.x);
  const Plan plan = chain.plan();
  EXPECT_THAT(chains_of(plan),
              ElementsAre(Nodes{"conv0", "relu0", "conv1", "relu1", "conv2", "add2", "relu2"}))
      << print(plan);
}

TEST(ChainSm90, AResultThatIsReadElsewhereIsStored) {
  Chain chain({8, 64, 56, 56});
  const ValueId first = chain.conv(64, window2d(3, 1)).at;
  chain.net.output(first);
  const Plan plan = chain.conv(64, window2d(1)).plan();
  ASSERT_THAT(chains_of(plan), ElementsAre(Nodes{"conv0", "relu0", "conv1", "relu1"}))
      << print(plan);
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.family != "chain_sm90") continue;
    EXPECT_EQ(kernel.group.outputs.size(), 2U);
    EXPECT_EQ(kernel.group.outputs[1], kernel.group.members[0].result);
  }
  EXPECT_NE(plan.placements[static_cast<std::size_t>(first)].memory, Memory::kNone);
}

TEST(ChainSm90, NotWithoutFusionOfGroups) {
  for (const FusionLevel fusion : {FusionLevel::kOff, FusionLevel::kEpilogue}) {
    Chain chain({8, 64, 56, 56});
    const Plan plan = chain.conv(64, window2d(3, 1)).conv(64, window2d(1)).plan(90, fusion);
    EXPECT_THAT(chains_of(plan), ElementsAre());
  }
}

TEST(ChainSm90, OnItsArchitectureOnly) {
  Chain chain({8, 64, 56, 56});
  EXPECT_THAT(chains_of(chain.conv(64, window2d(3, 1)).conv(64, window2d(1)).plan(80)),
              ElementsAre());
}

TEST(ChainSm90, WhatItDoesNotTake) {
  const auto two = [](const Shape& shape, std::int64_t middle, const Window& first,
                      const Window& second) {
    Chain chain(shape);
    return chain.conv(middle, first).conv(64, second);
  };
  const Window three = window2d(3, 1), one = window2d(1);
  expect_refused(two({8, 64, 56, 56}, 64, three, one).plan(90, FusionLevel::kFull, DType::kFloat32),
                 "dtype", "takes float16");
  expect_refused(two({8, 64, 56, 56}, 64, three, window2d(3, 1, 2)).plan(), "stride",
                 "only the first");
  expect_refused(two({8, 65, 56, 56}, 64, three, one).plan(), "channels", "multiples of 8");
  expect_refused(two({8, 64, 56, 56}, 1032, three, one).plan(), "channels", "at most 1024");
  expect_refused(two({1, 64, 56, 56}, 64, window2d(9, 4), one).plan(), "window", "49 taps");
  Window far = window2d(7, 24);
  far.dilations = {8, 8};
  expect_refused(two({1, 256, 96, 96}, 256, far, window2d(3, 1)).plan(), "on-chip",
                 "shared memory");
}

TEST(ChainSm90, WhatTakesLongerIsNotJoined) {
  const Plan plan =
      Chain({1, 512, 7, 7}).conv(512, window2d(3, 1)).conv(512, window2d(3, 1)).plan();
  expect_refused(plan, "slower", "chain_sm90");
}

}  // namespace
}  // namespace braze::test
