// Channels and pixels that a model moves with Reshape and Transpose, Gather, or Slice and Concat.
#include <gtest/gtest.h>

#include <numeric>

#include "passes/check.hpp"
#include "passes/shuffle.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;

/// Reshape, Transpose, Reshape.
Graph moved(const Shape& x, const Shape& split, const Ints& perm, const Shape& y) {
  Net net;
  const ValueId parts = net.reshape("split", net.input("x", x), split);
  net.output(net.reshape("join", net.transpose("permute", parts, perm), y));
  return simplified(net);
}

TEST(Shortest, JoinsNeighboursAndDropsOnes) {
  EXPECT_EQ(shortest({2, 3, 4, 5}, {0, 2, 3, 1}), (Transposition{{2, 3, 20}, {0, 2, 1}}));
  EXPECT_EQ(shortest({1, 3, 1, 5}, {3, 2, 1, 0}), (Transposition{{3, 5}, {1, 0}}));
  EXPECT_EQ(shortest({2, 1, 3}, {0, 2, 1}), (Transposition{{6}, {0}}));
  EXPECT_EQ(shortest({1, 1}, {1, 0}), (Transposition{{}, {}}));
}

TEST(PixelShuffle, DepthToSpace) {
  for (const std::int64_t n : {1, 2}) {
    const Graph graph =
        moved({n, 18, 4, 5}, {n, 2, 3, 3, 4, 5}, {0, 1, 4, 2, 5, 3}, {n, 2, 12, 15});
    ASSERT_THAT(result(graph), Is(OpKind::kDepthToSpace, IsInput("x")));
    EXPECT_EQ(op_of<DepthToSpace>(result(graph)).block, 3);
    EXPECT_TRUE(op_of<DepthToSpace>(result(graph)).column_row_depth);
    EXPECT_THAT(origins_of(result(graph)), ElementsAre("join", "permute", "split"));
  }
  const Graph graph = moved({2, 18, 4, 5}, {2, 3, 3, 2, 4, 5}, {0, 3, 4, 1, 5, 2}, {2, 2, 12, 15});
  ASSERT_THAT(result(graph), Is(OpKind::kDepthToSpace, IsInput("x")));
  EXPECT_FALSE(op_of<DepthToSpace>(result(graph)).column_row_depth);
}

// A batch of one is often dropped from the Reshape.
TEST(PixelShuffle, GroupedAxes) {
  const Graph graph = moved({1, 9, 4, 5}, {3, 3, 4, 5}, {2, 0, 3, 1}, {1, 1, 12, 15});
  EXPECT_THAT(result(graph), Is(OpKind::kDepthToSpace, IsInput("x")));
}

TEST(PixelShuffle, OtherOrdersStay) {
  const Graph graph = moved({1, 9, 4, 5}, {3, 3, 4, 5}, {2, 1, 3, 0}, {1, 1, 12, 15});
  EXPECT_THAT(result(graph),
              Is(OpKind::kReshape, Is(OpKind::kTranspose, Is(OpKind::kReshape, IsInput("x")))));
}

TEST(PixelShuffle, SpaceToDepth) {
  const Shape split = {2, 3, 4, 2, 5, 2};
  const Graph blocks_first = moved({2, 3, 8, 10}, split, {0, 3, 5, 1, 2, 4}, {2, 12, 4, 5});
  EXPECT_THAT(result(blocks_first), Is(OpKind::kSpaceToDepth, IsInput("x")));
  const Graph blocks_last = moved({2, 3, 8, 10}, split, {0, 1, 3, 5, 2, 4}, {2, 12, 4, 5});
  EXPECT_THAT(result(blocks_last),
              Is(OpKind::kChannelShuffle, Is(OpKind::kSpaceToDepth, IsInput("x"))));
  EXPECT_THAT(origins_of(result(blocks_last)), ElementsAre("join", "permute", "split"));
}

TEST(ChannelShuffle, ReshapedAndTransposed) {
  for (const std::int64_t n : {1, 2}) {
    const Graph graph = moved({n, 6, 4, 5}, {n, 2, 3, 4, 5}, {0, 2, 1, 3, 4}, {n, 6, 4, 5});
    ASSERT_THAT(result(graph), Is(OpKind::kChannelShuffle, IsInput("x")));
    EXPECT_EQ(op_of<ChannelShuffle>(result(graph)).groups, 2);
  }
}

TEST(ChannelShuffle, NotAcrossTheBatchOrTheImage) {
  EXPECT_EQ(node_count(moved({2, 6, 4, 5}, {2, 2, 3, 4, 5}, {1, 0, 2, 3, 4}, {2, 6, 4, 5})), 3U);
  EXPECT_EQ(node_count(moved({1, 6, 4, 5}, {1, 6, 2, 2, 5}, {0, 1, 3, 2, 4}, {1, 6, 4, 5})), 3U);
  EXPECT_EQ(node_count(moved({1, 6, 4, 4}, {1, 12, 8}, {0, 2, 1}, {1, 6, 4, 4})), 3U);
}

TEST(ChannelShuffle, PartsThatAreReadElsewhereAreAViewOfIt) {
  Net net;
  const ValueId parts = net.reshape("split", net.input("x", {1, 6, 4, 5}), {1, 2, 3, 4, 5});
  const ValueId permuted = net.transpose("permute", parts, {0, 2, 1, 3, 4});
  net.output(net.reshape("join", permuted, {1, 6, 4, 5}));
  net.output(permuted);
  EXPECT_EQ(node_count(simplified(net)), 2U);  // the shuffle, and the permuted parts as its reshape
}

TEST(ChannelShuffle, GatheredChannels) {
  const auto gathered = [](const std::vector<double>& channels, std::int64_t axis) {
    Net net;
    const auto count = static_cast<std::int64_t>(channels.size());
    net.output(
        net.op("gather", Gather{axis},
               {net.input("x", {2, 6, 6, 5}), net.constant({count}, channels, DType::kInt64)}));
    return simplified(net);
  };
  const Graph graph = gathered({0, 3, 1, 4, 2, 5}, 1);
  ASSERT_THAT(result(graph), Is(OpKind::kChannelShuffle, IsInput("x")));
  EXPECT_EQ(op_of<ChannelShuffle>(result(graph)).groups, 2);
  EXPECT_THAT(result(gathered({0, 3, 1, 4, 5, 2}, 1)),
              Is(OpKind::kGather, IsInput("x"), IsConstant()));
  EXPECT_THAT(result(gathered({0, 3, 1, 4}, 1)), Is(OpKind::kGather, IsInput("x"), IsConstant()));
  EXPECT_THAT(result(gathered({0, 3, 1, 4, 2, 5}, 2)),
              Is(OpKind::kGather, IsInput("x"), IsConstant()));
}

// ShuffleNet: the halves of shuffled channels, taken from a [2, N, C/2, H, W] view.
TEST(ChannelShuffle, HalvesOfShuffledChannels) {
  Net net;
  const ValueId parts = net.reshape("split", net.input("x", {1, 8, 3, 5}), {4, 2, 15});
  const ValueId view =
      net.reshape("view", net.transpose("permute", parts, {1, 0, 2}), {2, 1, 4, 3, 5});
  for (const std::int64_t half : {0, 1}) {
    const std::string id = half == 0 ? "low" : "high";
    const ValueId index = net.constant({}, {static_cast<double>(half)}, DType::kInt64);
    net.output(net.unary(id + " relu", UnaryFn::kRelu, net.op(id, Gather{0}, {view, index})));
  }
  const Graph graph = simplified(net);
  const auto half = Is(OpKind::kSlice, Is(OpKind::kChannelShuffle, IsInput("x")));
  EXPECT_THAT(result(graph, 0), IsUnary(UnaryFn::kRelu, half));
  EXPECT_THAT(result(graph, 1), IsUnary(UnaryFn::kRelu, half));
}

/// The pixels of x at rows i, i + 2, ... and columns j, j + 2, ..., as exporters slice them: one
/// axis after the other.
ValueId phase(Net& net, ValueId x, std::int64_t i, std::int64_t j) {
  const std::string id = std::to_string(i) + std::to_string(j);
  const Shape shape = net.shape(x);
  return net.slice("columns" + id, net.slice("rows" + id, x, 2, i, shape[2], 2), 3, j, shape[3], 2);
}

TEST(Focus, InOrderIsSpaceToDepth) {
  Net net;
  const ValueId x = net.input("x", {2, 3, 6, 8});
  net.output(
      net.op("focus", Concat{1},
             {phase(net, x, 0, 0), phase(net, x, 0, 1), phase(net, x, 1, 0), phase(net, x, 1, 1)}));
  EXPECT_THAT(result(simplified(net)), Is(OpKind::kSpaceToDepth, IsInput("x")));
}

// As YOLOX orders them; the convolution then reads the pixels themselves.
TEST(Focus, OtherOrdersReorderTheWeights) {
  Net net;
  const ValueId x = net.input("x", {2, 3, 6, 8});
  const std::vector<ValueId> parts = {phase(net, x, 0, 0), phase(net, x, 1, 0), phase(net, x, 0, 1),
                                      phase(net, x, 1, 1)};
  net.output(net.conv("conv", net.op("focus", Concat{1}, parts), 5, window2d(3, 1)));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), IsConv(IsInput("x")));
  EXPECT_EQ(folded_into(graph, "rows10"), "conv");
}

TEST(Focus, OtherReadersAndRepeatedPhasesKeepTheSlices) {
  Net net;
  const ValueId x = net.input("x", {2, 3, 6, 8});
  const std::vector<ValueId> parts = {phase(net, x, 0, 0), phase(net, x, 1, 0), phase(net, x, 0, 1),
                                      phase(net, x, 1, 1)};
  net.output(net.op("focus", Concat{1}, parts));
  EXPECT_THAT(op_of<Concat>(result(simplified(net))).axis, 1);

  Net twice;
  const ValueId y = twice.input("x", {2, 3, 6, 8});
  const ValueId same = phase(twice, y, 0, 0);
  twice.output(
      twice.op("focus", Concat{1}, {same, same, phase(twice, y, 0, 1), phase(twice, y, 1, 1)}));
  EXPECT_THAT(op_of<Concat>(result(simplified(twice))).axis, 1);
}

}  // namespace
}  // namespace braze::test
