// Engine files of plans with groups of several members: what is written comes back, and a group
// that is not what its family runs is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.hpp"
#include "exec/engine_file.hpp"
#include "graph/print.hpp"
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
  return make_plan(net.graph, cuda_device(90), {FusionLevel::kFull, false}, cuda::registry());
}

class GroupEngine : public ::testing::Test {
 protected:
  Plan reread(const Plan& plan) const {
    const TemporaryFolder folder;
    write_engine(folder / "group.engine", plan);
    return read_engine(folder / "group.engine");
  }
  void expect_refused(const std::string& part, const std::function<void(KernelPlan&)>& change) {
    SCOPED_TRACE(part);
    Plan plan = sample();
    change(plan.kernels.back());
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

}  // namespace
}  // namespace braze::test
