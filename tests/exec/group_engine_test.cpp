// Engine files of plans with groups of several members: what is written comes back, and a group
// that is not what its family runs is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.hpp"
#include "exec/engine_file.hpp"
#include "graph/print.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cuda/families.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

/// Squeeze and excitation for an sm_90; its group is the last kernel.
Plan sample() {
  Net net;
  const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {2, 64, 7, 7}));
  const ValueId mean = net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {x});
  const ValueId h = net.unary("h", UnaryFn::kSilu, net.conv("fc1", mean, 8, window2d(1)));
  const ValueId g = net.unary("g", UnaryFn::kSigmoid, net.conv("fc2", h, 64, window2d(1)));
  net.output(net.mul("y", x, g));
  lower_precision(net.graph, DType::kFloat16, true);
  Device device = cuda_device(90);
  device.launch_us = 5;  // so that all of it is one kernel
  return make_plan(net.graph, device, {FusionLevel::kFull, false}, cuda::registry());
}

class GroupEngine : public ::testing::Test {
 protected:
  Plan reread(const Plan& plan) const {
    const TemporaryFolder folder;
    write_engine(folder / "group.engine", plan);
    return read_engine(folder / "group.engine");
  }
  void expect_refused(const std::string& part, const std::function<void(KernelPlan&)>& change) {
    expect_refused(part, sample(), [&](Plan& plan) { change(plan.kernels.back()); });
  }
  void expect_refused(const std::string& part, Plan plan,
                      const std::function<void(Plan&)>& change) {
    SCOPED_TRACE(part);
    change(plan);
    try {
      reread(plan);
      ADD_FAILURE() << "the plan was taken";
    } catch (const Exception& refusal) {
      EXPECT_EQ(refusal.error().code, ErrorCode::kModelInvalid);
      EXPECT_THAT(refusal.error().message, ::testing::HasSubstr(part));
    }
  }
};

TEST_F(GroupEngine, GivesTheSamePlan) {
  const Plan plan = sample();
  ASSERT_EQ(plan.kernels.back().kind, KernelKind::kGroup);
  ASSERT_EQ(plan.kernels.back().group.members.size(), 4U);
  const Plan read = reread(plan);
  EXPECT_EQ(print(read), print(plan));
  const Group &a = plan.kernels.back().group, &b = read.kernels.back().group;
  ASSERT_EQ(a.members.size(), b.members.size());
  for (std::size_t i = 0; i < a.members.size(); ++i) {
    EXPECT_EQ(a.members[i].anchor, b.members[i].anchor);
    EXPECT_EQ(a.members[i].result, b.members[i].result);
  }
}

TEST_F(GroupEngine, RefusesAGroupThatItsFamilyDoesNotRun) {
  expect_refused("does not run", [](KernelPlan& kernel) {
    std::swap(kernel.group.members[0], kernel.group.members[1]);
  });
  expect_refused("does not run", [](KernelPlan& kernel) {
    kernel.group.members.erase(kernel.group.members.begin() + 2);
  });
  expect_refused("does not run", [](KernelPlan& kernel) {
    kernel.group.members.push_back(kernel.group.members.back());
  });
  expect_refused("does not store", [](KernelPlan& kernel) { kernel.group.outputs.clear(); });
  expect_refused("outside of its memory", [](KernelPlan& kernel) {
    kernel.group.outputs = {kernel.group.members[2].result};
  });
  expect_refused("does not read", [](KernelPlan& kernel) { kernel.group.inputs.clear(); });
  expect_refused("no such candidate",
                 [](KernelPlan& kernel) { kernel.candidate.parameters[0].value = 16; });
  expect_refused("takes one", [](KernelPlan& kernel) { kernel.family = "pointwise"; });
  expect_refused("members, expected none",
                 [](KernelPlan& kernel) { kernel.kind = KernelKind::kRelayout; });
}

/// Three depthwise convolutions on the CPU; the second one's result is an output too.
Plan rows_sample() {
  Net net;
  ValueId x = net.input("x", {1, 16, 160, 160});
  std::vector<ValueId> made;
  for (const char* id : {"a", "b", "c"}) {
    x = net.conv(id, x, 16, window2d(3, 1), 16);
    made.push_back(x);
  }
  net.output(made[2]);
  net.output(made[1]);
  Device device = cpu_device(1);
  device.onchip_bytes = 1 << 20;
  Registry registry = cpu::registry();
  for (KernelFamily& family : registry) {
    // Groups cost nothing, so that all three are one, whatever machine this is.
    if (family.joins != nullptr)
      family.work = [](const Graph&, const Group&, const Candidate&, const Device&) {
        return Work{};
      };
  }
  return make_plan(net.graph, device, {FusionLevel::kFull, true}, registry);
}

TEST_F(GroupEngine, RowsOfTheCpuGiveTheSamePlan) {
  const Plan plan = rows_sample();
  ASSERT_EQ(plan.kernels.size(), 1U);
  ASSERT_EQ(plan.kernels[0].group.outputs.size(), 2U);
  EXPECT_EQ(print(reread(plan)), print(plan));
}

TEST_F(GroupEngine, RowsSuitAnyNumberOfWorkers) {
  const Plan plan = rows_sample();
  const KernelPlan& kernel = plan.kernels[0];
  const KernelFamily family = cpu::chain_rows().family;
  const auto bands = [&](int workers) {
    const Tiling tiling =
        family.tiling(plan.graph, kernel.group, kernel.candidate, cpu_device(workers));
    return (160 + tiling.band - 1) / tiling.band;
  };
  EXPECT_EQ(bands(1), 1);
  EXPECT_GE(bands(2), 2);
  EXPECT_GE(bands(16), 16);
  const auto rows = [&](int workers) {
    return family.candidates(plan.graph, kernel.group, cpu_device(workers)).size();
  };
  EXPECT_EQ(rows(1), rows(7));
}

TEST_F(GroupEngine, RefusesRowsThatAreNotTheGroups) {
  const auto refused = [&](const std::string& part, const std::function<void(Plan&)>& change) {
    expect_refused(part, rows_sample(), change);
  };
  refused("does not store",
          [](Plan& plan) { std::ranges::reverse(plan.kernels[0].group.outputs); });
  refused("does not store", [](Plan& plan) {
    Group& group = plan.kernels[0].group;
    group.outputs.push_back(group.outputs[1]);
  });
  refused("no such candidate",
          [](Plan& plan) { plan.kernels[0].candidate.parameters[0].value = 1000; });
  refused("does not read", [](Plan& plan) {
    std::swap(plan.kernels[0].group.members[0], plan.kernels[0].group.members[1]);
  });
  refused("in this layout", [](Plan& plan) {
    plan.placements[static_cast<std::size_t>(plan.kernels[0].group.outputs[1])].layout =
        Layout::kModel;
  });
}

}  // namespace
}  // namespace braze::test
