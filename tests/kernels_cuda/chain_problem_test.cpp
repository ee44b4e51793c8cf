// What a chain of convolutions is as numbers, and what is none.
#include "kernels/cuda/chain_problem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels_cuda/chain_group.hpp"

namespace braze::cuda::testing {
namespace {

using test::Net;
using test::window2d;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Of = ChainSource::Of;

struct Chain {
  Plan plan;
  Group group;
  Support why;
  std::optional<ChainProblem> problem;

  Chain(const Net& net, const std::string& first, const std::string& last,
        DType dtype = DType::kFloat16)
      : plan(plan_of_parts(net.graph, dtype)), group(chain_group(plan, first, last)) {
    problem = read_chain(plan.graph, group, why);
  }
};

Window window(std::int64_t rows, std::int64_t columns, Ints strides, Ints dilations, Ints begin,
              Ints end) {
  return {{rows, columns},  std::move(strides), std::move(dilations),
          std::move(begin), std::move(end),     AutoPad::kNotSet};
}

TEST(ChainProblem, OfTwoConvolutionsAndAResidual) {
  Net net;
  const ValueId z = net.unary("s", UnaryFn::kSigmoid, net.input("z", {2, 40, 10, 16}));
  const ValueId in = net.unary("in", UnaryFn::kRelu, net.input("x", {2, 24, 20, 17}));
  const ValueId a = net.conv("a", in, 40, window(3, 5, {2, 1}, {1, 2}, {1, 3}, {0, 4}));
  const ValueId b = net.conv("b", net.unary("r", UnaryFn::kRelu, a), 40, window2d(1), 1, false);
  net.output(net.unary("end", UnaryFn::kRelu, net.add("sum", b, z)));
  const Chain chain(net, "a", "end");
  ASSERT_TRUE(chain.problem) << chain.why.reason;
  const ChainProblem& p = *chain.problem;
  EXPECT_EQ(p.dtype, DType::kFloat16);
  EXPECT_EQ(p.batch, 2);
  EXPECT_EQ(p.channels, 24);
  EXPECT_THAT(p.extent, ElementsAre(20, 17));
  ASSERT_EQ(p.stages.size(), 2U);
  const ChainStage &first = p.stages[0], &second = p.stages[1];
  EXPECT_EQ(first.kind, StageKind::kDense);
  EXPECT_EQ(first.reads, (ChainSource{Of::kInput, 0}));
  EXPECT_EQ(first.channels, 24);
  EXPECT_EQ(first.outputs, 40);
  EXPECT_THAT(first.kernel, ElementsAre(3, 5));
  EXPECT_THAT(first.stride, ElementsAre(2, 1));
  EXPECT_THAT(first.dilation, ElementsAre(1, 2));
  EXPECT_THAT(first.pad, ElementsAre(1, 3));
  EXPECT_THAT(first.out, ElementsAre(10, 16));
  EXPECT_EQ(first.epilogue.steps.size(), 1U);
  EXPECT_FALSE(first.stored);
  EXPECT_NE(first.bias, kNoValue);
  EXPECT_DOUBLE_EQ(first.flops(10 * 16), 2.0 * 10 * 16 * 40 * 24 * 15);
  EXPECT_EQ(second.reads, (ChainSource{Of::kStage, 0}));
  EXPECT_EQ(second.bias, kNoValue);
  ASSERT_EQ(second.operands.size(), 1U);
  EXPECT_EQ(second.operands[0].source.of, Of::kMemory);
  EXPECT_TRUE(second.stored);
}

TEST(ChainProblem, OfAnInvertedResidual) {
  Net net;
  const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {1, 16, 14, 14}));
  const ValueId e = net.clip("e6", net.conv("e", x, 96, window2d(1)), 0, 6);
  const ValueId d = net.clip("d6", net.conv("d", e, 96, window2d(3, 1), 96), 0, 6);
  const ValueId y = net.add("y", x, net.conv("p", d, 16, window2d(1)));
  net.output(net.unary("end", UnaryFn::kSigmoid, net.conv("next", y, 8, window2d(1))));
  const Chain chain(net, "e", "p", DType::kBFloat16);
  ASSERT_TRUE(chain.problem) << chain.why.reason;
  const ChainProblem& p = *chain.problem;
  EXPECT_EQ(p.dtype, DType::kBFloat16);
  ASSERT_EQ(p.stages.size(), 3U);
  EXPECT_EQ(p.stages[1].kind, StageKind::kDepthwise);
  EXPECT_EQ(p.stages[1].outputs, 96);
  EXPECT_DOUBLE_EQ(p.stages[1].flops(196), 2.0 * 196 * 96 * 9);
  ASSERT_EQ(p.stages[2].operands.size(), 1U);
  EXPECT_EQ(p.stages[2].operands[0].source, (ChainSource{Of::kInput, 0}));
  EXPECT_EQ(p.stages[2].operands[0].step, 0U);
  EXPECT_THAT(p.readers(0), ElementsAre(1));
  EXPECT_THAT(p.tiles.extents(4, 4)[0], ElementsAre(6, 6));
}

TEST(ChainProblem, OfPoolsAndASumInside) {
  Net net;
  const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {1, 8, 12, 12}));
  const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", x, 8, window2d(3, 1)));
  const ValueId b = net.conv("b", a, 8, window2d(3, 1));
  const ValueId sum = net.unary("rs", UnaryFn::kRelu, net.add("sum", b, a));
  Pool pool;
  pool.fn = PoolFn::kAverage;
  pool.window = window(2, 2, {2, 2}, {1, 1}, {0, 1}, {0, 1});
  pool.count_include_pad = true;
  const ValueId pooled = net.op("pool", pool, {sum});
  net.output(net.conv("c", pooled, 4, window2d(1)));
  net.output(sum);
  const Chain chain(net, "a", "c");
  ASSERT_TRUE(chain.problem) << chain.why.reason;
  const ChainProblem& p = *chain.problem;
  ASSERT_EQ(p.stages.size(), 4U);
  EXPECT_EQ(p.stages[1].operands[0].source, (ChainSource{Of::kStage, 0}));
  EXPECT_TRUE(p.stages[1].stored);
  EXPECT_EQ(p.stages[2].kind, StageKind::kAveragePool);
  EXPECT_EQ(p.stages[2].counted, (Region{Interval{0, 12}, Interval{-1, 13}}));
  EXPECT_THAT(p.readers(0), ElementsAre(1));
  EXPECT_EQ(chain.group.outputs.size(), 2U);
}

TEST(ChainProblem, APointwiseMemberIsItsFirstStep) {
  Net net;
  const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {1, 8, 9, 9}));
  const ValueId a = net.conv("a", x, 8, window2d(1));
  const ValueId b = net.conv("b", a, 8, window2d(3, 1));
  const ValueId c = net.conv("c", a, 8, window2d(1));
  net.output(c);
  const ValueId y = net.sub("y", x, net.unary("e", UnaryFn::kExp, b));
  net.output(net.conv("d", net.mul("z", y, c), 4, window2d(1)));
  Plan plan = plan_of_parts(net.graph, DType::kFloat32);
  // The sums' kernels as the planner makes them: whatever took z, y is a member or a step.
  Group group = chain_group(plan, "a", "d");
  Support why;
  const auto problem = read_chain(plan.graph, group, why);
  ASSERT_TRUE(problem) << why.reason;
  for (std::size_t i = 0; i < problem->stages.size(); ++i) {
    const ChainStage& stage = problem->stages[i];
    if (stage.kind != StageKind::kPointwise) continue;
    EXPECT_EQ(stage.epilogue.steps.front().node, group.members[i].anchor);
    EXPECT_EQ(member_of(group, stage).epilogue.steps.size(),
              group.members[i].epilogue.steps.size() + 1);
  }
}

void expect_rule(const Chain& chain, const std::string& rule, const std::string& reason) {
  EXPECT_FALSE(chain.problem);
  EXPECT_EQ(chain.why.rule, rule);
  EXPECT_THAT(chain.why.reason, HasSubstr(reason));
}

TEST(ChainProblem, OtherGroupsAreNone) {
  Net net;
  const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {1, 8, 9, 9}));
  const ValueId a = net.conv("a", x, 8, window2d(1));
  const ValueId r = net.transpose("t", a, {0, 1, 3, 2});
  net.output(net.conv("b", r, 8, window2d(1)));
  const Chain transposed(net, "a", "b");
  EXPECT_FALSE(transposed.problem);
  EXPECT_THAT(transposed.why.rule, IsEmpty());
  const Chain one(net, "x", "a");
  EXPECT_FALSE(one.problem);
  EXPECT_THAT(one.why.rule, IsEmpty());
}

TEST(ChainProblem, RefusalsSayWhatWasFound) {
  {
    Net net;
    const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {1, 8, 9, 9}));
    const ValueId a = net.conv("a", x, 8, window2d(3, 1), 4);
    net.output(net.conv("b", a, 8, window2d(1)));
    expect_rule({net, "a", "b"}, "groups", "'a' maps 8 channels to 8 in 4 groups");
  }
  {
    Net net;
    const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {1, 8, 9, 9}));
    const ValueId w = net.unary("w", UnaryFn::kRelu, net.input("weights", {8, 8, 1, 1}));
    const ValueId a = net.conv("a", x, 8, window2d(3, 1));
    net.output(net.op("b", Conv{window2d(1), 1}, {a, w}));
    expect_rule({net, "a", "b"}, "weights", "the filter of 'b' is not a constant");
  }
  {
    Net net;
    const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {1, 8, 9, 9}));
    const ValueId z = net.unary("z", UnaryFn::kSigmoid, net.input("other", {1, 8, 9, 9}));
    const ValueId a = net.conv("a", x, 8, window2d(3, 1));
    const ValueId b = net.add("sum", net.conv("b", z, 8, window2d(1)), a);
    net.output(b);
    expect_rule({net, "a", "b"}, "other-image", "'b' reads 'z'");
  }
  {
    Net net;
    const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {1, 8, 9, 9, 3}));
    Window w;
    w.kernel = {1, 1, 1}, w.strides = w.dilations = {1, 1, 1};
    w.pads_begin = w.pads_end = {0, 0, 0};
    const ValueId a = net.op("a", Conv{w, 1}, {x, net.random({8, 8, 1, 1, 1})});
    net.output(net.op("b", Conv{w, 1}, {a, net.random({8, 8, 1, 1, 1})}));
    expect_rule({net, "a", "b"}, "rank", "rank 5");
  }
  {
    Net net;
    const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", {2, 8, 9, 9}));
    const ValueId g = net.conv("g", x, 1, window2d(1));
    const ValueId a = net.conv("a", x, 8, window2d(1));
    net.output(net.mul("gated", a, g));
    expect_rule({net, "g", "gated"}, "broadcast", "which stays on chip");
  }
}

}  // namespace
}  // namespace braze::cuda::testing
