// Padding and pixel blocks into the window that reads them.
#include <gtest/gtest.h>

#include "passes/check.hpp"

namespace braze::test {
namespace {

TEST(FoldPad, ZerosAroundTheImageGoIntoTheConvolution) {
  Net net;
  const ValueId padded = net.pad2d("pad", net.input("x", {1, 3, 5, 4}), {0, 1, 2, 3});
  net.output(net.conv("conv", padded, 4, window2d(3, 1)));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), IsConv(IsInput("x")));
  EXPECT_EQ(op_of<Conv>(result(graph)).window.pads_begin, (Ints{1, 2}));
  EXPECT_EQ(op_of<Conv>(result(graph)).window.pads_end, (Ints{3, 4}));
  EXPECT_EQ(folded_into(graph, "pad"), "conv");
}

TEST(FoldPad, EveryReaderTakesIt) {
  Net net;
  const ValueId padded = net.pad2d("pad", net.input("x", {1, 3, 5, 4}), {1, 1, 1, 1});
  net.output(net.conv("conv1", padded, 4, window2d(3)));
  net.output(net.conv("conv2", padded, 4, window2d(1)));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

TEST(FoldPad, StaysForOtherReaders) {
  Net net;
  const ValueId padded = net.pad2d("pad", net.input("x", {1, 3, 5, 4}), {1, 1, 1, 1});
  net.output(net.conv("conv1", padded, 4, window2d(3)));
  net.output(padded);
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), IsConv(IsInput("x")));
  EXPECT_EQ(node_count(graph), 2U);
}

TEST(FoldPad, OtherPadsStay) {
  const auto stays = [](auto&& pad) {
    Net net;
    net.output(net.conv("conv", pad(net, net.input("x", {1, 3, 5, 4})), 4, window2d(3, 1)));
    EXPECT_EQ(node_count(simplified(net)), 2U);
  };
  stays([](Net& net, ValueId x) { return net.pad2d("value", x, {1, 1, 1, 1}, 1); });
  stays([](Net& net, ValueId x) { return net.pad2d("crop", x, {-1, 0, 0, 0}); });
  stays([](Net& net, ValueId x) { return net.pad2d("crop and pad", x, {-1, 1, 1, 1}); });
  stays([](Net& net, ValueId x) { return net.pad2d("edge", x, {1, 1, 1, 1}, 0, PadMode::kEdge); });
  stays([](Net& net, ValueId x) {
    return net.op("channels", Pad{PadMode::kConstant, {0, 1, 0, 0, 0, 0, 0, 0}, 0}, {x});
  });
}

TEST(FoldPad, TransposedConvolutionReadsItsPadding) {
  Net net;
  net.output(net.conv_transpose(
      "deconv", net.pad2d("pad", net.input("x", {1, 3, 5, 4}), {1, 1, 1, 1}), 4, window2d(3)));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

TEST(FoldPad, AveragePoolCountsTheZeros) {
  for (const bool counted : {false, true}) {
    Net net;
    const ValueId padded = net.pad2d("pad", net.input("x", {1, 3, 5, 4}), {1, 0, 1, 1});
    net.output(net.op("pool", Pool{PoolFn::kAverage, window2d(3, 0, 2), false, counted}, {padded}));
    const Graph graph = simplified(net);
    EXPECT_THAT(result(graph), Is(OpKind::kPool, IsInput("x")));
    EXPECT_TRUE(op_of<Pool>(result(graph)).count_include_pad);
  }
}

TEST(FoldPad, AveragePoolThatDoesNotCountItsOwnPaddingKeepsThePad) {
  Net net;
  const ValueId padded = net.pad2d("pad", net.input("x", {1, 3, 6, 6}), {1, 1, 1, 1});
  net.output(net.op("pool", Pool{PoolFn::kAverage, window2d(3, 1), false, false}, {padded}));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

TEST(FoldPad, MaxPoolTakesMinusInfinityOnly) {
  for (const double value : {0.0, -kInfinity}) {
    Net net;
    const ValueId padded = net.pad2d("pad", net.input("x", {1, 3, 6, 6}), {1, 1, 1, 1}, value);
    net.output(net.op("pool", Pool{PoolFn::kMax, window2d(3, 0, 2)}, {padded}));
    EXPECT_EQ(node_count(simplified(net)), value == 0 ? 2U : 1U);
  }
}

TEST(FoldPad, NotWhereAWindowWouldSeePaddingOnlyOrRoundUp) {
  for (const bool ceil_mode : {false, true}) {
    Net net;
    const std::int64_t pad = ceil_mode ? 1 : 3;
    const ValueId padded =
        net.pad2d("pad", net.input("x", {1, 3, 6, 6}), {pad, pad, pad, pad}, -kInfinity);
    net.output(net.op("pool", Pool{PoolFn::kMax, window2d(3, 0, 2), ceil_mode}, {padded}));
    Graph graph = net.graph;
    simplify(graph);
    EXPECT_EQ(node_count(graph), 2U);
  }
}

// A 3x3 filter on 2x2 blocks is a 6x6 filter with stride 2.
TEST(FoldSpaceToDepth, ConvolutionReadsThePixels) {
  for (const std::int64_t stride : {1, 2}) {
    Net net;
    const ValueId blocks = net.op("blocks", SpaceToDepth{2}, {net.input("x", {2, 3, 8, 12})});
    net.output(net.conv("conv", blocks, 5, window2d(3, 1, stride)));
    const Graph graph = simplified(net);
    EXPECT_THAT(result(graph), IsConv(IsInput("x")));
    EXPECT_EQ(op_of<Conv>(result(graph)).window.kernel, (Ints{6, 6}));
    EXPECT_EQ(op_of<Conv>(result(graph)).window.strides, (Ints{2 * stride, 2 * stride}));
  }
}

TEST(FoldSpaceToDepth, NotForDilatedOrGroupedFilters) {
  for (const bool dilated : {false, true}) {
    Net net;
    const ValueId blocks = net.op("blocks", SpaceToDepth{2}, {net.input("x", {2, 3, 8, 12})});
    Window window = window2d(3, 2);
    if (dilated) window.dilations = {2, 2};
    net.output(net.conv("conv", blocks, 12, window, dilated ? 1 : 12));
    EXPECT_EQ(node_count(simplified(net)), 2U);
  }
}

}  // namespace
}  // namespace braze::test
