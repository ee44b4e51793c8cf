// Scale, shift and BatchNorm into the weights and biases around them.
#include <gtest/gtest.h>

#include "passes/check.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;

// batch_norm(conv(x)) -> conv(x)
TEST(FoldAffine, BatchNormGoesIntoTheConvolution) {
  Net net;
  net.output(
      net.batch_norm("bn", net.conv("conv", net.input("x", {2, 3, 6, 5}), 4, window2d(3, 1))));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), IsConv(IsInput("x")));
  EXPECT_THAT(origins_of(result(graph)), ElementsAre("conv"));
  EXPECT_EQ(folded_into(graph, "bn"), "conv");
}

// Channels of a grouped convolution are counted over all groups.
TEST(FoldAffine, GroupedAndDepthwise) {
  for (const std::int64_t group : {2, 4}) {
    Net net;
    net.output(net.batch_norm(
        "bn", net.conv("conv", net.input("x", {1, 4, 6, 5}), 8, window2d(3, 1), group, false)));
    const Graph graph = simplified(net);
    EXPECT_THAT(result(graph), IsConv(IsInput("x")));
  }
}

// The output channel of a transposed convolution is axis 1 of its weights, times the group.
TEST(FoldAffine, TransposedConvolution) {
  for (const std::int64_t group : {1, 2}) {
    Net net;
    const ValueId x = net.input("x", {1, 4, 4, 5});
    net.output(net.batch_norm("bn", net.conv_transpose("deconv", x, 6, window2d(3, 1, 2), group)));
    const Graph graph = simplified(net);
    EXPECT_THAT(result(graph),
                Is(OpKind::kConvTranspose, IsInput("x"), IsConstant(), IsConstant()));
  }
}

TEST(FoldAffine, EverySpellingOfScaleAndShift) {
  for (const BinaryFn fn : {BinaryFn::kAdd, BinaryFn::kSub, BinaryFn::kMul, BinaryFn::kDiv}) {
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{4, 1, 1}, Shape{1, 4, 1, 1}, Shape{1, 1, 1, 1}}) {
      for (const bool swapped : {false, true}) {
        if (fn == BinaryFn::kDiv && swapped) continue;
        Net net;
        const ValueId y = net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3));
        const ValueId c = net.random(shape, 0.5, 2);
        net.output(net.binary("op", fn, swapped ? c : y, swapped ? y : c));
        const Graph graph = simplified(net);
        EXPECT_THAT(result(graph), IsConv(IsInput("x")))
            << to_string(fn) << to_string(shape) << swapped;
      }
    }
  }
}

// [4] beside [1,4,5,4] varies along the width, though it has as many elements as there are
// channels.
TEST(FoldAffine, ConstantAlongTheWidthIsNoBias) {
  for (const Shape& shape :
       {Shape{4}, Shape{1, 1, 1, 4}, Shape{5, 1}, Shape{4, 5, 4}, Shape{2, 1, 1, 1}}) {
    Net net;
    const ValueId y = net.conv("conv", net.input("x", {2, 3, 5, 4}), 4, window2d(1));
    net.output(net.add("add", y, net.random(shape)));
    const Graph graph = simplified(net);
    EXPECT_THAT(result(graph), IsBinary(BinaryFn::kAdd, IsConv(IsInput("x")), IsConstant()))
        << to_string(shape);
  }
}

TEST(FoldAffine, ConstantThatWidensTheResultIsNoBias) {
  Net net;
  net.output(net.add("add", net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(1)),
                     net.random({2, 1, 4, 1, 1})));
  const Graph graph = simplified(net);
  EXPECT_EQ(node_count(graph), 2U);
}

TEST(FoldAffine, ChainOfMapsGoesIn) {
  Net net;
  ValueId y = net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3), 1, false);
  y = net.batch_norm("bn", y);
  y = net.mul("mul", y, net.random({4, 1, 1}));
  y = net.add("add", net.scalar(0.25), y);
  y = net.unary("neg", UnaryFn::kNeg, y);
  net.output(net.unary("relu", UnaryFn::kRelu, y));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), IsUnary(UnaryFn::kRelu, IsConv(IsInput("x"))));
}

TEST(FoldAffine, SharedWeightsAreCopied) {
  Net net;
  const ValueId x = net.input("x", {1, 3, 5, 4});
  const ValueId weights = net.random({4, 3, 3, 3});
  net.output(net.batch_norm("bn1", net.op("conv1", Conv{window2d(3)}, {x, weights})));
  net.output(net.batch_norm("bn2", net.op("conv2", Conv{window2d(3, 1)}, {x, weights})));
  net.output(net.op("conv3", Conv{window2d(3, 1)}, {x, weights}));
  const Graph graph = simplified(net);
  EXPECT_EQ(node_count(graph), 3U);
  EXPECT_THAT(result(graph, 2), Is(OpKind::kConv, IsInput("x"), IsConstant()));
}

TEST(FoldAffine, NotWhereTheConvolutionIsReadTwice) {
  Net net;
  const ValueId y = net.conv("conv", net.input("x", {1, 3, 5, 4}), 3, window2d(3, 1));
  net.output(net.add("sum", net.mul("mul", y, net.random({3, 1, 1})), y));
  const Graph graph = simplified(net);
  EXPECT_EQ(node_count(graph), 3U);
}

TEST(FoldAffine, NotWhereTheConvolutionIsAnOutput) {
  Net net;
  const ValueId y = net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3));
  net.output(y);
  net.output(net.add("add", y, net.random({4, 1, 1})));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph, 1), IsBinary(BinaryFn::kAdd, IsConv(IsInput("x")), IsConstant()));
}

TEST(FoldAffine, NotWhatIsNotFinite) {
  for (const double c : {kInfinity, -kInfinity, kNaN}) {
    for (const BinaryFn fn : {BinaryFn::kAdd, BinaryFn::kMul, BinaryFn::kDiv}) {
      Net net;
      const ValueId y = net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3));
      net.output(net.binary("op", fn, y, net.constant({4, 1, 1}, {1, 2, c, 4})));
      EXPECT_EQ(node_count(simplified(net)), 2U) << to_string(fn) << c;
    }
  }
  Net net;  // division by zero
  net.output(net.div("div", net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3)),
                     net.scalar(0)));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

TEST(FoldAffine, NotWhereWeightsWouldOverflow) {
  Net net;
  const ValueId y = net.op("conv", Conv{window2d(1)},
                           {net.input("x", {1, 1, 3, 3}), net.constant({1, 1, 1, 1}, {1e30})});
  net.output(net.mul("mul", y, net.scalar(1e30)));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

// relu(conv) * -1 is not relu(-conv).
TEST(FoldAffine, NothingMovesThroughANonLinearity) {
  Net net;
  const ValueId y = net.unary("relu", UnaryFn::kRelu,
                              net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3)));
  net.output(net.mul("mul", y, net.random({4, 1, 1}, -2, -1)));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), IsBinary(BinaryFn::kMul, IsUnary(UnaryFn::kRelu, IsConv(IsInput("x"))),
                                      IsConstant()));
}

TEST(FoldAffine, BatchNormBehindReluBecomesScaleAndShift) {
  Net net;
  const ValueId y = net.unary("relu", UnaryFn::kRelu,
                              net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3)));
  net.output(net.batch_norm("bn", y));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph),
              IsBinary(BinaryFn::kAdd,
                       IsBinary(BinaryFn::kMul, IsUnary(UnaryFn::kRelu, IsConv(IsInput("x"))),
                                IsConstant()),
                       IsConstant()));
  EXPECT_THAT(origins_of(result(graph)), ElementsAre("bn"));
}

TEST(FoldAffine, BatchNormWithParametersFromTheGraphStays) {
  Net net;
  const ValueId y = net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3));
  const ValueId scale = net.unary("abs", UnaryFn::kAbs, net.input("scale", {4}));
  net.output(net.op("bn", BatchNorm{1e-5},
                    {y, scale, net.random({4}), net.random({4}), net.random({4}, 1, 2)}));
  EXPECT_THAT(op_of<BatchNorm>(result(simplified(net))).epsilon, 1e-5);
}

TEST(FoldAffine, ShiftGoesIntoAConvolutionWithComputedWeights) {
  Net net;
  const ValueId x = net.input("x", {1, 3, 5, 4});
  const ValueId y = net.op("conv", Conv{window2d(3)}, {x, net.input("w", {4, 3, 3, 3})});
  net.output(net.mul("mul", net.add("add", y, net.random({4, 1, 1})), net.random({4, 1, 1})));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph),
              IsBinary(BinaryFn::kMul, Is(OpKind::kConv, IsInput("x"), IsInput("w"), IsConstant()),
                       IsConstant()));
}

TEST(FoldAffine, ComputedBiasStays) {
  Net net;
  const ValueId x = net.input("x", {1, 3, 5, 4});
  const ValueId y =
      net.op("conv", Conv{window2d(3)}, {x, net.random({4, 3, 3, 3}), net.input("b", {4})});
  net.output(net.mul("mul", y, net.random({4, 1, 1})));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

// matmul(x, w) + b -> gemm(x, w, b)
TEST(FoldAffine, MatMulWithBiasIsGemm) {
  Net net;
  const ValueId y = net.op("matmul", MatMul{}, {net.input("x", {3, 5}), net.random({5, 4})});
  net.output(net.batch_norm("bn", net.add("add", y, net.random({4}))));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), Is(OpKind::kGemm, IsInput("x"), IsConstant(), IsConstant()));
}

TEST(FoldAffine, GemmKeepsAlphaAndBeta) {
  for (const bool transposed : {false, true}) {
    Net net;
    const Gemm gemm{0.5, -2, false, transposed};
    const ValueId w = net.random(transposed ? Shape{4, 5} : Shape{5, 4});
    const ValueId x = net.batch_norm("before", net.input("x", {3, 5}));
    net.output(net.batch_norm("after", net.op("gemm", gemm, {x, w, net.random({1, 4})})));
    const Graph graph = simplified(net);
    EXPECT_THAT(result(graph), Is(OpKind::kGemm, IsInput("x"), IsConstant(), IsConstant()));
  }
}

TEST(FoldAffine, BiasAlongTheRowsOfGemmStays) {
  Net net;
  const ValueId y = net.op("gemm", Gemm{}, {net.input("x", {3, 5}), net.random({5, 3})});
  net.output(net.add("add", y, net.random({3, 1})));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

// conv(s x + t) without padding -> conv(x)
TEST(FoldAffineBefore, UnpaddedConvolutionTakesBatchNorm) {
  for (const std::int64_t group : {1, 2}) {
    Net net;
    net.output(net.conv("conv", net.batch_norm("bn", net.input("x", {1, 4, 5, 4})), 6, window2d(3),
                        group));
    const Graph graph = simplified(net);
    EXPECT_THAT(result(graph), IsConv(IsInput("x")));
    EXPECT_EQ(folded_into(graph, "bn"), "conv");
  }
}

// Padding is zero after the BatchNorm: there the shift is not added.
TEST(FoldAffineBefore, PaddedConvolutionLeavesTheShift) {
  Net net;
  net.output(
      net.conv("conv", net.batch_norm("bn", net.input("x", {1, 4, 5, 4})), 6, window2d(3, 1)));
  const Graph graph = simplified(net);
  const auto scaled = IsBinary(BinaryFn::kMul, IsInput("x"), IsConstant());
  EXPECT_THAT(result(graph), IsConv(IsBinary(BinaryFn::kAdd, scaled, IsConstant())));
}

TEST(FoldAffineBefore, ScalePassesThroughPadding) {
  Net net;
  const ValueId scaled = net.mul("mul", net.input("x", {1, 4, 5, 4}), net.random({4, 1, 1}));
  net.output(net.conv("conv", scaled, 6, window2d(3, 1)));
  const ValueId also = net.mul("mul2", net.input("x2", {1, 4, 5, 4}), net.random({4, 1, 1}));
  net.output(net.conv_transpose("deconv", also, 6, window2d(3, 1, 2), 2));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), IsConv(IsInput("x")));
  EXPECT_THAT(result(graph, 1),
              Is(OpKind::kConvTranspose, IsInput("x2"), IsConstant(), IsConstant()));
}

// At the border of a transposed convolution an output sees only some of the weights.
TEST(FoldAffineBefore, TransposedConvolutionLeavesTheShift) {
  Net net;
  const ValueId shifted = net.add("add", net.input("x", {1, 4, 5, 4}), net.random({4, 1, 1}));
  net.output(net.conv_transpose("deconv", shifted, 6, window2d(3, 0, 2)));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

TEST(FoldAffineBefore, NotWhereOthersReadTheMap) {
  Net net;
  const ValueId y = net.mul("mul", net.input("x", {1, 4, 5, 4}), net.random({4, 1, 1}));
  net.output(net.conv("conv", y, 4, window2d(3)));
  net.output(y);
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

TEST(MergeAffine, LongChainsBecomeOneMulAndOneAdd) {
  Net net;
  ValueId y = net.unary("relu", UnaryFn::kRelu, net.input("x", {1, 4, 5, 4}));
  y = net.add("add", y, net.random({4, 1, 1}));
  y = net.mul("mul", y, net.scalar(3));
  y = net.sub("sub", net.scalar(1), y);
  net.output(net.div("div", y, net.random({4, 1, 1}, 1, 2)));
  const Graph graph = simplified(net);
  const auto scaled = IsBinary(BinaryFn::kMul, IsUnary(UnaryFn::kRelu, IsInput("x")), IsConstant());
  EXPECT_THAT(result(graph), IsBinary(BinaryFn::kAdd, scaled, IsConstant()));
  EXPECT_THAT(origins_of(result(graph)), ElementsAre("add", "div", "mul", "sub"));
}

TEST(MergeAffine, TwoAdditionsAreOne) {
  Net net;
  ValueId y = net.unary("relu", UnaryFn::kRelu, net.input("x", {1, 4, 5, 4}));
  net.output(net.add("add2", net.add("add1", y, net.random({4, 1, 1})), net.scalar(2)));
  EXPECT_THAT(result(simplified(net)),
              IsBinary(BinaryFn::kAdd, IsUnary(UnaryFn::kRelu, IsInput("x")), IsConstant()));
}

TEST(MergeAffine, ScaleAndShiftAloneStayAsTheyAre) {
  Net net;
  const ValueId y = net.unary("relu", UnaryFn::kRelu, net.input("x", {1, 4, 5, 4}));
  net.output(net.mul("mul", net.add("add", y, net.random({4, 1, 1})), net.scalar(3)));
  EXPECT_THAT(origins_of(result(simplified(net))), ElementsAre("mul"));
}

TEST(MergeAffine, NotWhereTheMiddleIsReadElsewhere) {
  Net net;
  const ValueId y = net.unary("relu", UnaryFn::kRelu, net.input("x", {1, 4, 5, 4}));
  const ValueId middle = net.add("add1", y, net.random({4, 1, 1}));
  net.output(middle);
  net.output(net.add("add2", middle, net.scalar(2)));
  EXPECT_EQ(node_count(simplified(net)), 3U);
}

TEST(FoldAffine, ScaleAndShiftGoIntoInstanceNorm) {
  Net net;
  ValueId y = net.op("norm", InstanceNorm{1e-5},
                     {net.input("x", {2, 4, 5, 4}), net.random({4}), net.random({4})});
  y = net.add("add", net.mul("mul", y, net.random({4, 1, 1})), net.random({4, 1, 1}));
  net.output(y);
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), Is(OpKind::kInstanceNorm, IsInput("x"), IsConstant(), IsConstant()));
  EXPECT_EQ(folded_into(graph, "add"), "norm");
}

}  // namespace
}  // namespace braze::test
