// 16-bit networks computed in float32.
#include <gtest/gtest.h>

#include "graph/verify.hpp"
#include "passes/check.hpp"
#include "passes/promote_half.hpp"

namespace braze::test {
namespace {

/// conv -> clip, all in `dtype`, with the intermediate as a second output.
Net half_net(DType dtype) {
  Net net;
  const ValueId x = net.input("x", {1, 3, 5, 4}, dtype);
  const ValueId y = net.op("conv", Conv{window2d(3)}, {x, net.random({4, 3, 3, 3}, -1, 1, dtype)});
  net.output(net.clip("clip", y, 0, 1));
  net.output(y);
  return net;
}

TEST(PromoteHalf, InnerValuesAreFloat32AndTheBorderKeepsItsDtype) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    Net net = half_net(dtype);
    EXPECT_GT(promote_half(net.graph), 0);
    verify(net.graph, "promote_half");
    const auto conv = Is(OpKind::kConv, Is(OpKind::kCast, IsInput("x")), IsConstant());
    EXPECT_THAT(result(net.graph), Is(OpKind::kCast, IsUnary(UnaryFn::kClip, conv)));
    EXPECT_THAT(result(net.graph, 1), Is(OpKind::kCast, conv));
    EXPECT_EQ(net.graph.value(net.graph.inputs[0]).dtype, dtype);
    for (const GraphOutput& output : net.graph.outputs)
      EXPECT_EQ(net.graph.value(output.value).dtype, dtype);
    EXPECT_EQ(promote_half(net.graph), 0);  // once is enough
  }
}

TEST(PromoteHalf, WithTheBordersNothingIs16BitsAndNothingIsCast) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    Net net = half_net(dtype);
    EXPECT_GT(promote_half_and_borders(net.graph), 0);
    verify(net.graph, "promote_half_and_borders");
    const auto conv = Is(OpKind::kConv, IsInput("x"), IsConstant());
    EXPECT_THAT(result(net.graph), IsUnary(UnaryFn::kClip, conv));
    for (ValueId id = 0; id < net.graph.value_count(); ++id)
      EXPECT_EQ(net.graph.value(id).dtype, DType::kFloat32) << net.graph.value(id).name;
  }
}

TEST(PromoteHalf, ResultsAgreeWithinTheRoundingOfTheHalfType) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    Net net = half_net(dtype);
    Graph graph = net.graph;
    promote_half(graph);
    expect_same_results(net.graph, graph, net.inputs());
  }
}

TEST(PromoteHalf, NothingTo16BitsInside) {
  Net net;
  const ValueId half = net.op("to half", Cast{DType::kFloat16}, {net.input("x", {2, 3})});
  const ValueId y = net.unary("tanh", UnaryFn::kTanh, half);
  net.output(net.op("to float", Cast{DType::kFloat32}, {y}));
  PassOptions options;
  options.promote_half = true;
  const Graph graph = simplified(net, options);
  EXPECT_THAT(result(graph), IsUnary(UnaryFn::kTanh, IsInput("x")));
}

TEST(PromoteHalf, InputsThatAreOutputsStay) {
  Net net;
  const ValueId x = net.input("x", {2, 3}, DType::kFloat16);
  net.output(x);
  net.output(net.unary("relu", UnaryFn::kRelu, x));
  promote_half(net.graph);
  verify(net.graph, "promote_half");
  EXPECT_THAT(result(net.graph), IsInput("x"));
  EXPECT_THAT(result(net.graph, 1),
              Is(OpKind::kCast, IsUnary(UnaryFn::kRelu, Is(OpKind::kCast, IsInput("x")))));
}

// Activations are recognised by constants as 16 bits hold them, and BatchNorm is folded with 24
// bits.
TEST(PromoteHalf, RunsBetweenRecompositionAndFolding) {
  Net net;
  const DType half = DType::kFloat16;
  const ValueId x = net.input("x", {1, 3, 5, 4}, half);
  ValueId y = net.op("conv", Conv{window2d(3)}, {x, net.random({4, 3, 3, 3}, -1, 1, half)});
  y = net.mul("scale", y, net.random({4, 1, 1}, 0.5, 2, half));
  const ValueId gate = net.clip("clip", net.add("add", y, net.scalar(3, half)), 0, 6);
  net.output(net.mul("sixth", net.mul("mul", y, gate), net.scalar(1.0 / 6, half)));
  PassOptions options;
  options.promote_half = true;
  const Graph graph = simplified(net, options);
  const auto conv = Is(OpKind::kConv, Is(OpKind::kCast, IsInput("x")), IsConstant());
  EXPECT_THAT(result(graph), Is(OpKind::kCast, IsUnary(UnaryFn::kHardSwish, conv)));
}

}  // namespace
}  // namespace braze::test
