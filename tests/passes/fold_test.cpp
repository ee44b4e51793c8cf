// What costs nothing at run time: constants, identities, branches, common nodes.
#include <gtest/gtest.h>

#include <cmath>

#include "passes/check.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;

/// relu(node(relu(x))): is the node in the middle gone?
template <class Middle>
bool is_dropped(Middle&& middle, Shape shape = {2, 3, 4, 5}) {
  Net net;
  const ValueId y =
      middle(net, net.unary("tanh", UnaryFn::kTanh, net.input("x", std::move(shape))));
  net.output(net.unary("sigmoid", UnaryFn::kSigmoid, y));
  const Graph graph = simplified(net);
  return node_count(graph) == 2 && folded_into(graph, "middle") == "view";
}

TEST(FoldIdentity, NodesThatReturnTheirInput) {
  EXPECT_TRUE(is_dropped([](Net& net, ValueId x) { return net.op("middle", Identity{}, {x}); }));
  EXPECT_TRUE(
      is_dropped([](Net& net, ValueId x) { return net.op("middle", Cast{DType::kFloat32}, {x}); }));
  EXPECT_TRUE(
      is_dropped([](Net& net, ValueId x) { return net.reshape("middle", x, {2, 3, 4, 5}); }));
  EXPECT_TRUE(
      is_dropped([](Net& net, ValueId x) { return net.transpose("middle", x, {0, 1, 2, 3}); }));
  EXPECT_TRUE(is_dropped([](Net& net, ValueId x) { return net.slice("middle", x, 1, 0, 3); }));
  EXPECT_TRUE(is_dropped([](Net& net, ValueId x) { return net.pad2d("middle", x, {0, 0, 0, 0}); }));
  EXPECT_TRUE(is_dropped([](Net& net, ValueId x) { return net.op("middle", Concat{1}, {x}); }));
  EXPECT_TRUE(
      is_dropped([](Net& net, ValueId x) { return net.op("middle", Expand{{2, 3, 4, 5}}, {x}); }));
  EXPECT_TRUE(
      is_dropped([](Net& net, ValueId x) { return net.op("middle", Tile{{1, 1, 1, 1}}, {x}); }));
  EXPECT_TRUE(
      is_dropped([](Net& net, ValueId x) { return net.clip("middle", x, -kInfinity, kInfinity); }));
  EXPECT_TRUE(is_dropped([](Net& net, ValueId x) {
    return net.op("middle", Pool{PoolFn::kAverage, window2d(1)}, {x});
  }));
  EXPECT_TRUE(
      is_dropped([](Net& net, ValueId x) { return net.op("middle", DepthToSpace{1}, {x}); }));
  EXPECT_TRUE(
      is_dropped([](Net& net, ValueId x) { return net.op("middle", ChannelShuffle{3}, {x}); }));
  EXPECT_TRUE(is_dropped(
      [](Net& net, ValueId x) { return net.op("middle", Reduce{ReduceFn::kMean, {2, 3}}, {x}); },
      {2, 3, 1, 1}));
}

TEST(FoldIdentity, NeutralConstants) {
  const auto with = [](BinaryFn fn, double c) {
    return is_dropped([=](Net& net, ValueId x) {
      return net.binary("middle", fn, x, net.constant({3, 1, 1}, {c, c, c}));
    });
  };
  EXPECT_TRUE(with(BinaryFn::kMul, 1));
  EXPECT_TRUE(with(BinaryFn::kDiv, 1));
  EXPECT_TRUE(with(BinaryFn::kPow, 1));
  EXPECT_TRUE(with(BinaryFn::kSub, 0));
  EXPECT_TRUE(with(BinaryFn::kAdd, -0.0));
  EXPECT_FALSE(with(BinaryFn::kAdd, 0));  // -0 + 0 is 0
  EXPECT_FALSE(with(BinaryFn::kSub, -0.0));
  EXPECT_FALSE(with(BinaryFn::kMul, 0));
}

TEST(FoldIdentity, NotWhatWidensOrMoves) {
  EXPECT_FALSE(is_dropped([](Net& net, ValueId x) {
    return net.mul("middle", x, net.constant({2, 1, 1, 1, 1}, {1, 1}));
  }));
  EXPECT_FALSE(is_dropped(
      [](Net& net, ValueId x) { return net.transpose("middle", x, {0, 1, 3, 2}); }, {2, 3, 4, 4}));
  EXPECT_FALSE(is_dropped(
      [](Net& net, ValueId x) { return net.op("middle", Reduce{ReduceFn::kL1, {2, 3}}, {x}); },
      {2, 3, 1, 1}));
}

TEST(FoldIdentity, ResizeToTheSameSize) {
  const auto resize = [](CoordinateMode mode, double scale) {
    return [=](Net& net, ValueId x) {
      Resize resize;
      resize.coordinate = mode;
      resize.scales = {1, 1, scale, 1};
      resize.sizes = net.shape(x);
      resize.roi = {0, 0, 0, 0, 1, 1, 1, 1};
      return net.op("middle", resize, {x});
    };
  };
  EXPECT_TRUE(is_dropped(resize(CoordinateMode::kHalfPixel, 1)));
  EXPECT_TRUE(is_dropped(resize(CoordinateMode::kAlignCorners, 1)));
  EXPECT_FALSE(is_dropped(resize(CoordinateMode::kTfHalfPixelForNn, 1)));
  EXPECT_FALSE(is_dropped(resize(CoordinateMode::kHalfPixel, 1.1)));
}

TEST(FoldIdentity, GraphOutputsStayValuesOfTheirOwn) {
  Net net;
  const ValueId x = net.input("x", {2, 3});
  const ValueId y = net.unary("relu", UnaryFn::kRelu, x);
  net.output(net.op("copy of x", Identity{}, {x}));
  net.output(y);
  net.output(net.op("copy of y", Identity{}, {y}));
  net.output(net.op("renamed", Identity{}, {net.unary("tanh", UnaryFn::kTanh, y)}));
  const Graph graph = simplified(net);
  EXPECT_EQ(node_count(graph), 4U);
  EXPECT_EQ(graph.outputs[3].name, "renamed");
}

TEST(FoldConstants, WhatDependsOnConstantsOnly) {
  Net net;
  const ValueId x = net.input("x", {1, 2, 4, 4});
  const ValueId w =
      net.mul("w", net.random({3, 2, 3, 3}), net.add("s", net.scalar(2), net.scalar(1)));
  net.output(net.op("conv", Conv{window2d(3)}, {x, w}));
  net.output(net.unary("constant", UnaryFn::kExp, net.scalar(1)));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), Is(OpKind::kConv, IsInput("x"), IsConstant()));
  EXPECT_THAT(result(graph, 1), IsConstant());
  EXPECT_EQ(folded_into(graph, "s"), "constant");
}

TEST(SelectBranch, ConstantConditions) {
  Net net;
  const ValueId a = net.unary("a", UnaryFn::kRelu, net.input("x", {2, 3}));
  const ValueId b = net.unary("b", UnaryFn::kTanh, net.input("y", {3}));
  net.output(
      net.unary("first", UnaryFn::kExp,
                net.op("where1", Where{}, {net.constant({3}, {1, 1, 1}, DType::kBool), a, b})));
  net.output(net.unary("second", UnaryFn::kExp,
                       net.op("where2", Where{}, {net.constant({}, {0}, DType::kBool), a, b})));
  net.output(
      net.unary("third", UnaryFn::kExp,
                net.op("where3", Where{}, {net.constant({3}, {1, 0, 1}, DType::kBool), a, b})));
  const Graph graph = simplified(net);
  const auto first = IsUnary(UnaryFn::kRelu, IsInput("x"));
  const auto second = IsUnary(UnaryFn::kTanh, IsInput("y"));
  EXPECT_THAT(result(graph), IsUnary(UnaryFn::kExp, first));
  EXPECT_THAT(result(graph, 1), IsUnary(UnaryFn::kExp, Is(OpKind::kExpand, second)));
  EXPECT_THAT(result(graph, 2),
              IsUnary(UnaryFn::kExp, Is(OpKind::kWhere, IsConstant(), first, second)));
}

TEST(DropExpand, BeforeABinaryThatBroadcasts) {
  Net net;
  const ValueId x = net.input("x", {2, 3, 4, 5});
  const ValueId wide = net.op("expand", Expand{{2, 3, 4, 5}}, {net.input("y", {3, 1, 5})});
  net.output(net.mul("mul", x, wide));
  net.output(net.sub("sub", wide, x));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), IsBinary(BinaryFn::kMul, IsInput("x"), IsInput("y")));
  EXPECT_THAT(result(graph, 1), IsBinary(BinaryFn::kSub, IsInput("y"), IsInput("x")));
}

TEST(DropExpand, NotWhereTheResultNeedsIt) {
  Net net;
  const ValueId wide = net.op("expand", Expand{{2, 3, 4, 5}}, {net.input("y", {3, 1, 5})});
  net.output(net.mul("mul", net.input("x", {1, 3, 4, 5}), wide));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

TEST(MergeCommon, EqualNodesAndConstants) {
  Net net;
  const ValueId x = net.input("x", {2, 3, 4, 5});
  const ValueId a = net.add("a", x, net.scalar(2));
  const ValueId b = net.add("b", x, net.scalar(2));
  const ValueId c = net.add("c", x, net.scalar(3));
  net.output(net.mul("ab", a, net.unary("tanh", UnaryFn::kTanh, b)));
  net.output(net.mul("ac", a, net.unary("exp", UnaryFn::kExp, c)));
  const Graph graph = simplified(net);
  EXPECT_EQ(node_count(graph), 6U);
  EXPECT_THAT(origins_of({&graph, graph.node(graph.producer(result(graph).id)).input(0)}),
              ElementsAre("a", "b"));
}

TEST(MergeCommon, DifferentAttributesDiffer) {
  Net net;
  const ValueId x = net.input("x", {2, 3, 4, 5});
  const ValueId a = net.unary("a", UnaryFn::kLeakyRelu, x, 0.1);
  const ValueId b = net.unary("b", UnaryFn::kLeakyRelu, x, 0.2);
  net.output(net.mul("ab", net.unary("tanh", UnaryFn::kTanh, a), b));
  EXPECT_EQ(node_count(simplified(net)), 4U);
}

TEST(MergeCommon, EachGraphOutputStays) {
  Net net;
  const ValueId x = net.input("x", {2, 3});
  net.output(net.unary("a", UnaryFn::kTanh, x));
  net.output(net.unary("b", UnaryFn::kTanh, x));
  EXPECT_EQ(node_count(simplified(net)), 2U);
}

}  // namespace
}  // namespace braze::test
