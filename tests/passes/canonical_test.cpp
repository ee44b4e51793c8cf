// One spelling of each thing.
#include <gtest/gtest.h>

#include "passes/check.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;

/// last(tanh(x)), simplified.
template <class Last>
Graph after_tanh(Last&& last, Shape shape = {2, 3, 4, 5}) {
  Net net;
  net.output(last(net, net.unary("tanh", UnaryFn::kTanh, net.input("x", std::move(shape)))));
  return simplified(net);
}
const RefMatcher kTanh = IsUnary(UnaryFn::kTanh, IsInput("x"));

TEST(Canonical, ConstantsMoveRight) {
  for (const BinaryFn fn : {BinaryFn::kAdd, BinaryFn::kMul}) {
    const Graph graph = after_tanh(
        [fn](Net& net, ValueId x) { return net.binary("op", fn, net.random({4, 5}), x); });
    EXPECT_THAT(result(graph), IsBinary(fn, kTanh, IsConstant()));
  }
  for (const BinaryFn fn : {BinaryFn::kSub, BinaryFn::kDiv, BinaryFn::kPow}) {
    const Graph graph = after_tanh(
        [fn](Net& net, ValueId x) { return net.binary("op", fn, net.random({4, 5}, 1, 2), x); });
    EXPECT_THAT(result(graph), IsBinary(fn, IsConstant(), kTanh));
  }
}

TEST(Canonical, SubtractionOfConstantsIsAddition) {
  const Graph graph =
      after_tanh([](Net& net, ValueId x) { return net.sub("sub", x, net.random({4, 5})); });
  EXPECT_THAT(result(graph), IsBinary(BinaryFn::kAdd, kTanh, IsConstant()));
}

TEST(Canonical, DivisionByPowersOfTwoIsMultiplication) {
  const auto divided = [](std::vector<double> by) {
    return after_tanh(
        [&by](Net& net, ValueId x) { return net.div("div", x, net.constant({3, 1, 1}, by)); });
  };
  EXPECT_THAT(result(divided({2, -0.25, 1})), IsBinary(BinaryFn::kMul, kTanh, IsConstant()));
  EXPECT_THAT(result(divided({2, 3, 1})), IsBinary(BinaryFn::kDiv, kTanh, IsConstant()));
  EXPECT_THAT(result(divided({2, 0x1p-130, 1})), IsBinary(BinaryFn::kDiv, kTanh, IsConstant()));
}

TEST(Canonical, SquareIsAProduct) {
  const auto power = [](double exponent) {
    return after_tanh([=](Net& net, ValueId x) {
      return net.binary("pow", BinaryFn::kPow, x, net.scalar(exponent));
    });
  };
  EXPECT_THAT(result(power(2)), IsBinary(BinaryFn::kMul, kTanh, kTanh));
  EXPECT_THAT(result(power(3)), IsBinary(BinaryFn::kPow, kTanh, IsConstant()));
}

Graph min_max(double high, double low,
              std::vector<double> x = {-9, -1, -0.0, 0, 0.5, 7, kNaN, kInfinity}) {
  Net net;
  const auto count = static_cast<std::int64_t>(x.size());
  const ValueId y =
      net.binary("max", BinaryFn::kMax, net.input("x", {1, count}), net.constant({1, 1}, {low}));
  net.output(net.binary("min", BinaryFn::kMin, net.scalar(high), y));
  Graph graph = net.graph;
  simplify(graph);
  expect_same_results(net.graph, graph, values({1, count}, x));
  return graph;
}

TEST(Canonical, MinOfMaxIsClip) {
  const Graph graph = min_max(6, 0);
  ASSERT_THAT(result(graph), IsUnary(UnaryFn::kClip, IsInput("x")));
  EXPECT_EQ(op_of<Unary>(result(graph)).alpha, 0);
  EXPECT_EQ(op_of<Unary>(result(graph)).beta, 6);
  EXPECT_THAT(origins_of(result(graph)), ElementsAre("max", "min"));
}

TEST(Canonical, BoundsThatAreNoNumbersStay) {
  EXPECT_THAT(
      result(min_max(kNaN, kNaN)),
      IsBinary(BinaryFn::kMin, IsBinary(BinaryFn::kMax, IsInput("x"), IsConstant()), IsConstant()));
}

TEST(Canonical, ClipFromZeroIsRelu) {
  const Graph graph =
      after_tanh([](Net& net, ValueId x) { return net.clip("clip", x, 0, kInfinity); });
  EXPECT_THAT(result(graph), IsUnary(UnaryFn::kRelu, kTanh));
}

TEST(Canonical, ClipsMerge) {
  for (const auto& [low, high] : {std::pair{0.0, 6.0}, {-1.0, 0.5}, {2.0, 3.0}, {-5.0, -4.0}}) {
    Net net;
    const ValueId clipped = net.clip("first", net.input("x", {9}), -1, 1);
    net.output(net.clip("second", clipped, low, high));
    Graph graph = net.graph;
    simplify(graph);
    EXPECT_THAT(result(graph), IsUnary(UnaryFn::kClip, IsInput("x")));
    expect_same_results(net.graph, graph,
                        values({9}, {-9, -2, -0.5, -0.0, 0, 0.75, 2.5, kNaN, -kInfinity}));
  }
}

TEST(Canonical, EmptyRangesAndSharedClipsDoNotMerge) {
  Net net;
  const ValueId x = net.input("x", {9});
  const ValueId empty = net.clip("empty", x, 2, 1);
  net.output(net.clip("second", empty, 0, 6));
  const ValueId shared = net.clip("shared", x, -2, 2);
  net.output(net.unary("relu", UnaryFn::kRelu, shared));
  net.output(shared);
  EXPECT_EQ(node_count(simplified(net)), 4U);
}

TEST(Canonical, GatherOfEvenIndicesIsSlice) {
  const auto gathered = [](Shape indices, const std::vector<double>& at, std::int64_t axis) {
    return after_tanh(
        [&](Net& net, ValueId x) {
          return net.op("gather", Gather{axis}, {x, net.constant(indices, at, DType::kInt64)});
        },
        {2, 6, 4});
  };
  EXPECT_THAT(result(gathered({3}, {1, 3, 5}, 1)), Is(OpKind::kSlice, kTanh));
  EXPECT_THAT(result(gathered({2}, {-2, -1}, 2)), Is(OpKind::kSlice, kTanh));
  EXPECT_THAT(result(gathered({}, {4}, 1)), Is(OpKind::kReshape, Is(OpKind::kSlice, kTanh)));
  EXPECT_THAT(result(gathered({2}, {3, 1}, 1)), Is(OpKind::kGather, kTanh, IsConstant()));
  EXPECT_THAT(result(gathered({3}, {0, 1, 3}, 1)), Is(OpKind::kGather, kTanh, IsConstant()));
}

TEST(Canonical, SlicesMerge) {
  const Graph graph = after_tanh(
      [](Net& net, ValueId x) {
        return net.slice("c", net.slice("b", net.slice("a", x, 2, 1, 12, 2), 2, 1, 6, 2), 1, 1, 3);
      },
      {2, 4, 12});
  EXPECT_THAT(result(graph), Is(OpKind::kSlice, kTanh));
  EXPECT_THAT(origins_of(result(graph)), ElementsAre("a", "b", "c"));
}

TEST(Canonical, BackwardSlicesDoNotMerge) {
  const Graph graph = after_tanh(
      [](Net& net, ValueId x) { return net.slice("b", net.slice("a", x, 2, 11, -1, -1), 2, 1, 6); },
      {2, 4, 12});
  EXPECT_EQ(node_count(graph), 3U);
}

TEST(Canonical, ReshapesAndTransposesMerge) {
  const Graph reshaped = after_tanh(
      [](Net& net, ValueId x) { return net.reshape("b", net.reshape("a", x, {6, 20}), {5, 24}); });
  EXPECT_THAT(result(reshaped), Is(OpKind::kReshape, kTanh));
  const Graph transposed = after_tanh([](Net& net, ValueId x) {
    return net.transpose("b", net.transpose("a", x, {0, 2, 3, 1}), {3, 0, 1, 2});
  });
  EXPECT_THAT(result(transposed), Is(OpKind::kTranspose, kTanh));
  EXPECT_EQ(op_of<Transpose>(result(transposed)).perm, (Ints{1, 0, 2, 3}));
}

TEST(Canonical, TransposeThereAndBackIsNothing) {
  const Graph graph = after_tanh([](Net& net, ValueId x) {
    const ValueId there = net.transpose("there", x, {0, 2, 3, 1});
    return net.unary("exp", UnaryFn::kExp, net.transpose("back", there, {0, 3, 1, 2}));
  });
  EXPECT_THAT(result(graph), IsUnary(UnaryFn::kExp, kTanh));
}

TEST(Canonical, MovingAxesOfExtentOneIsReshape) {
  const auto transposed = [](Ints perm) {
    return after_tanh([&perm](Net& net, ValueId x) { return net.transpose("t", x, perm); },
                      {2, 1, 1, 5});
  };
  EXPECT_THAT(result(transposed({2, 0, 3, 1})), Is(OpKind::kReshape, kTanh));
  EXPECT_THAT(result(transposed({3, 1, 2, 0})), Is(OpKind::kTranspose, kTanh));
}

TEST(Canonical, PoolOverTheImageIsAMean) {
  const Graph mean = after_tanh([](Net& net, ValueId x) {
    return net.op("pool", Pool{PoolFn::kAverage, {{4, 5}, {4, 5}, {1, 1}, {0, 0}, {0, 0}, {}}},
                  {x});
  });
  ASSERT_THAT(result(mean), Is(OpKind::kReduce, kTanh));
  EXPECT_EQ(op_of<Reduce>(result(mean)).axes, (Ints{2, 3}));
  const Graph part = after_tanh([](Net& net, ValueId x) {
    return net.op("pool", Pool{PoolFn::kMax, {{4, 4}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {}}}, {x});
  });
  EXPECT_THAT(result(part), Is(OpKind::kPool, kTanh));
}

// Halves of the channels, taken from a [2, C/2, ...] view: slices along the channels.
TEST(Canonical, SliceOfAReshapedArrayMovesBeforeIt) {
  Net net;
  const ValueId view = net.reshape(
      "view", net.unary("tanh", UnaryFn::kTanh, net.input("x", {1, 8, 3, 5})), {2, 1, 4, 15});
  for (const std::int64_t half : {0, 1}) {
    const std::string name = half == 0 ? "low" : "high";
    const ValueId taken = net.op(
        name, Gather{0}, {view, net.constant({}, {static_cast<double>(half)}, DType::kInt64)});
    net.output(
        net.unary(name + " exp", UnaryFn::kExp, net.reshape(name + " half", taken, {1, 4, 3, 5})));
  }
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph, 0), IsUnary(UnaryFn::kExp, Is(OpKind::kSlice, kTanh)));
  EXPECT_THAT(result(graph, 1), IsUnary(UnaryFn::kExp, Is(OpKind::kSlice, kTanh)));
  EXPECT_EQ(folded_into(graph, "view"), "high");  // the Gather, of which a Slice is made
}

TEST(Canonical, SliceThroughTheMiddleOfRowsStays) {
  const Graph graph = after_tanh(
      [](Net& net, ValueId x) {
        return net.reshape("back", net.slice("slice", net.reshape("view", x, {2, 30}), 1, 3, 9),
                           {12});
      },
      {2, 6, 5});
  EXPECT_THAT(result(graph), Is(OpKind::kReshape, Is(OpKind::kSlice, Is(OpKind::kReshape, kTanh))));
}

}  // namespace
}  // namespace braze::test
