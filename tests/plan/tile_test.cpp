// Halo algebra.
#include "plan/tile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/net.hpp"

namespace braze::test {
namespace {

using ::testing::HasSubstr;

/// Every node of a net as a member of its own; the last one is stored.
Group group_of(const Net& net) {
  Group group;
  group.inputs = net.graph.inputs;
  for (const NodeId id : net.graph.order())
    group.members.push_back({id, {}, net.graph.node(id).output()});
  group.outputs = {group.members.back().result};
  return group;
}

GroupTiles tiles_of(const Net& net) {
  std::string why;
  const auto tiles = GroupTiles::of(net.graph, group_of(net), &why);
  EXPECT_TRUE(tiles.has_value()) << why;
  return *tiles;
}

std::string refusal_of(const Net& net) {
  std::string why;
  EXPECT_FALSE(GroupTiles::of(net.graph, group_of(net), &why).has_value());
  return why;
}

Window uneven(Ints kernel, Ints strides, Ints dilations, Ints begin, Ints end) {
  return {kernel, strides, dilations, begin, end};
}

TEST(Tile, IntervalsOfAWindow) {
  const AxisRead same{.kernel = 3, .pad = 1};
  EXPECT_EQ(same.of({0, 4}), (Interval{-1, 5}));
  const AxisRead strided{.kernel = 3, .stride = 2, .dilation = 2, .pad = 1};
  EXPECT_EQ(strided.of({2, 4}), (Interval{3, 10}));  // 3 + {0, 2, 4} and 5 + {0, 2, 4}
  const AxisRead doubled{.repeat = 2};
  EXPECT_EQ(doubled.of({3, 4}), (Interval{1, 2}));
  EXPECT_EQ(doubled.of({1, 4}), (Interval{0, 2}));
  EXPECT_EQ(doubled.of({-3, -1}), (Interval{-2, 0}));
  EXPECT_EQ(same.of({2, 2}).size(), 0);
}

TEST(Tile, HullsAndClips) {
  EXPECT_EQ(hull({1, 3}, {5, 6}), (Interval{1, 6}));
  EXPECT_EQ(hull({2, 2}, {5, 6}), (Interval{5, 6}));
  EXPECT_EQ(hull({5, 6}, {9, 0}), (Interval{5, 6}));
  EXPECT_EQ(clipped({-2, 3}, 2), (Interval{0, 2}));
  EXPECT_EQ(clipped({4, 8}, 3), (Interval{}));
}

TEST(Tile, AChainGrowsByTheHaloOfEachMember) {
  Net net;
  ValueId x = net.conv("a", net.input("x", {1, 4, 20, 30}), 4, window2d(3, 1));
  x = net.conv("b", x, 4, window2d(5, 2));
  net.output(net.conv("c", x, 4, window2d(1)));
  const GroupTiles tiles = tiles_of(net);
  ASSERT_EQ(tiles.images().size(), 4U);
  EXPECT_FALSE(tiles.images()[0].made);
  EXPECT_TRUE(tiles.images()[3].made && tiles.images()[3].stored);
  const auto extents = tiles.extents(4, 8);
  EXPECT_EQ(extents[0], (std::array<std::int64_t, 2>{10, 14}));  // x
  EXPECT_EQ(extents[1], (std::array<std::int64_t, 2>{8, 12}));   // a
  EXPECT_EQ(extents[2], (std::array<std::int64_t, 2>{4, 8}));    // b
  const std::vector<Region> corner = tiles.needed({Interval{0, 4}, Interval{24, 30}});
  EXPECT_EQ(corner[1], (Region{Interval{0, 6}, Interval{22, 30}}));   // nothing beyond the image
  EXPECT_EQ(corner[0], (Region{Interval{-1, 7}, Interval{21, 31}}));  // the input has its padding
}

TEST(Tile, BranchesNeedWhatAllTheirReadersNeed) {
  Net net;
  const ValueId x = net.input("x", {1, 4, 20, 20});
  const ValueId a = net.conv("a", x, 4, window2d(1));
  const ValueId b = net.conv("b", a, 4, window2d(3, 1));
  net.output(net.add("sum", net.add("left", b, a), x));
  const GroupTiles tiles = tiles_of(net);
  const std::vector<Region> needed = tiles.needed({Interval{5, 7}, Interval{5, 6}});
  EXPECT_EQ(needed[1], (Region{Interval{4, 8}, Interval{4, 7}}));
  EXPECT_EQ(needed[0], needed[1]);
}

TEST(Tile, StridesDilationAndUnevenPads) {
  Net net;
  ValueId x = net.input("x", {2, 3, 17, 9});
  x = net.conv("a", x, 8, uneven({3, 1}, {2, 1}, {2, 1}, {3, 0}, {1, 0}));
  net.output(net.op("p", Pool{PoolFn::kMax, window2d(2, 0, 2)}, {x}));
  const GroupTiles tiles = tiles_of(net);
  const std::vector<Region> needed = tiles.needed({Interval{0, 2}, Interval{1, 3}});
  EXPECT_EQ(needed[1], (Region{Interval{0, 4}, Interval{2, 6}}));
  EXPECT_EQ(needed[0], (Region{Interval{-3, 8}, Interval{2, 6}}));
}

TEST(Tile, NearestResizeRepeatsPixels) {
  Net net;
  const ValueId x = net.conv("a", net.input("x", {1, 2, 4, 6}), 2, window2d(3, 1));
  Resize resize;
  resize.mode = ResizeMode::kNearest;
  resize.coordinate = CoordinateMode::kAsymmetric;
  resize.nearest = NearestMode::kFloor;
  resize.scales = {1, 1, 2, 3};
  resize.sizes = {1, 2, 8, 18};
  resize.roi = {0, 0, 0, 0, 1, 1, 1, 1};
  net.output(net.op("up", resize, {x}));
  const std::vector<Region> needed = tiles_of(net).needed({Interval{3, 5}, Interval{6, 9}});
  EXPECT_EQ(needed[1], (Region{Interval{1, 3}, Interval{2, 3}}));
}

TEST(Tile, ResizesOfOtherAxesOrThatInterpolateAreRefused) {
  Net channels;
  Resize resize;
  resize.scales = {1, 2, 2, 2};
  resize.roi = {0, 0, 0, 0, 1, 1, 1, 1};
  resize.sizes = {1, 4, 8, 12};
  channels.op("up", resize, {channels.input("x", {1, 2, 4, 6})});
  EXPECT_THAT(refusal_of(channels), HasSubstr("'up' repeats channels"));
  Net linear;
  linear.upsample("up", linear.input("x", {1, 2, 4, 6}), 2, 2, ResizeMode::kLinear);
  EXPECT_THAT(refusal_of(linear), HasSubstr("'up' needs more than a window"));
  Net uneven;
  resize.scales = {1, 1, 1.5, 2};
  resize.sizes = {1, 2, 6, 12};
  uneven.op("up", resize, {uneven.input("x", {1, 2, 4, 6})});
  EXPECT_THAT(refusal_of(uneven), HasSubstr("'up' does not repeat pixels"));
}

TEST(Tile, RowsOfAMatrixArePixels) {
  Net net;
  const ValueId x = net.input("x", {100, 24});
  const ValueId a = net.op("a", Gemm{}, {x, net.random({24, 40})});
  net.output(net.add("s", net.op("b", MatMul{}, {a, net.random({40, 24})}), x));
  const GroupTiles tiles = tiles_of(net);
  EXPECT_EQ(tiles.batch(), 1);
  EXPECT_EQ(tiles.images()[1].channels, 40);
  EXPECT_EQ(tiles.images()[1].pixel_bytes, 160);
  EXPECT_EQ(tiles.result().extent, (std::array<std::int64_t, 2>{1, 100}));
  const Region rows = {Interval{0, 1}, Interval{32, 64}};
  for (const Region& needed : tiles.needed(rows)) EXPECT_EQ(needed, rows);
  EXPECT_THAT(tiles.recomputed(1, 32), ::testing::ElementsAre(1.0, 1.0, 1.0));
}

TEST(Tile, WhatIsStoredIsOnTheWayToTheResult) {
  Net net;
  const ValueId x = net.conv("a", net.input("x", {1, 8, 6, 6}), 8, window2d(1));
  const std::vector<ValueId> parts = net.split("s", x, {4, 4});
  net.output(net.unary("y", UnaryFn::kSigmoid, parts[0]));
  Group group;
  group.inputs = net.graph.inputs;
  for (const ValueId id : {x, parts[0], parts[1]}) {
    const NodeId node = net.graph.producer(id);
    group.members.push_back({node, {}, id});
  }
  const ValueId y = net.graph.outputs[0].value;
  group.members.push_back({net.graph.producer(y), {}, y});
  std::string why;
  group.outputs = {y, x, parts[0]};
  EXPECT_TRUE(GroupTiles::of(net.graph, group, &why).has_value()) << why;
  group.outputs = {y, parts[1]};
  EXPECT_FALSE(GroupTiles::of(net.graph, group, &why).has_value());
}

TEST(Tile, ProductsThatAreNoConvolutionsAreRefused) {
  Net turned;
  turned.op("a", Gemm{.trans_a = true}, {turned.input("x", {8, 4}), turned.random({8, 4})});
  EXPECT_THAT(refusal_of(turned), HasSubstr("first matrix of 'a' is transposed"));
  Net batch;
  batch.op("a", MatMul{}, {batch.input("x", {2, 8, 4}), batch.random({4, 4})});
  EXPECT_THAT(refusal_of(batch), HasSubstr("the result of 'a' is of rank 3"));
}

TEST(Tile, RecomputationIsWhatNeighbouringTilesShare) {
  Net net;
  const ValueId x = net.conv("a", net.input("x", {1, 4, 8, 8}), 4, window2d(1));
  net.output(net.conv("b", x, 4, window2d(3, 1)));
  const GroupTiles tiles = tiles_of(net);
  // Rows of a: [0, 5) and [3, 8) of 8; columns: all.
  EXPECT_THAT(tiles.recomputed(4, 8), ::testing::ElementsAre(10.0 / 8, 1.0));
  EXPECT_THAT(tiles.recomputed(4, 4), ::testing::ElementsAre(100.0 / 64, 1.0));
  EXPECT_THAT(tiles.recomputed(8, 8), ::testing::ElementsAre(1.0, 1.0));
}

TEST(Tile, WhatNeedsMoreThanAWindowIsRefused) {
  Net mean;
  const ValueId x = mean.conv("a", mean.input("x", {1, 4, 8, 8}), 4, window2d(1));
  mean.output(mean.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {x}));
  EXPECT_THAT(refusal_of(mean), HasSubstr("'mean'"));

  Net flat;
  const ValueId y = flat.conv("a", flat.input("x", {1, 4, 8, 8}), 4, window2d(1));
  flat.output(flat.op("soft", Softmax{3}, {y}));
  EXPECT_THAT(refusal_of(flat), HasSubstr("'soft' needs more than a window"));

  Net row;  // 1-D
  row.output(row.op("r", Unary{UnaryFn::kRelu}, {row.input("x", {1, 4, 8})}));
  EXPECT_THAT(refusal_of(row), HasSubstr("rank 4"));
}

}  // namespace
}  // namespace braze::test
