// Activations and normalisations that a model spells with simpler operators.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "passes/check.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;
using Spelling = std::function<ValueId(Net&, ValueId)>;

const std::vector<double> kSpecial = {-20,   -3, -1.5, -0.0, 0,    0.25,      1,
                                      2.999, 3,  4,    90,   kNaN, kInfinity, -kInfinity};

/// `spelling` of the convolution of x is f(conv(x)), on ordinary numbers and on special ones.
void expect_unary(UnaryFn fn, const Spelling& spelling) {
  Net net;
  net.output(spelling(net, net.conv("conv", net.input("x", {1, 3, 5, 4}), 4, window2d(3))));
  const Graph graph = simplified(net);
  EXPECT_THAT(result(graph), IsUnary(fn, IsConv(IsInput("x"))));
  EXPECT_EQ(origins_of(result(graph)).size(), net.ids().size() - 1);  // all but the convolution

  Net special;
  const auto count = static_cast<std::int64_t>(kSpecial.size());
  special.output(spelling(special, special.input("x", {1, count})));
  Graph rewritten = special.graph;
  simplify(rewritten);
  EXPECT_EQ(node_count(rewritten), 1U);
  expect_same_results(special.graph, rewritten, values({1, count}, kSpecial));
}

/// `spelling` is not f: something of it stays as it was.
void expect_not(UnaryFn fn, const Spelling& spelling) {
  Net net;
  net.output(spelling(net, net.input("x", {1, 4, 5, 4})));
  const Graph graph = simplified(net);
  for (const NodeId node : graph.order()) {
    const auto* unary = graph.node(node).as<Unary>();
    EXPECT_FALSE(unary != nullptr && unary->fn == fn) << print(graph);
  }
}

ValueId sigmoid(Net& net, ValueId x) { return net.unary("sigmoid", UnaryFn::kSigmoid, x); }

TEST(Recompose, Silu) {
  expect_unary(UnaryFn::kSilu,
               [](Net& net, ValueId x) { return net.mul("mul", x, sigmoid(net, x)); });
  expect_unary(UnaryFn::kSilu,
               [](Net& net, ValueId x) { return net.mul("mul", sigmoid(net, x), x); });
}

TEST(Recompose, NotSilu) {
  expect_not(UnaryFn::kSilu, [](Net& net, ValueId x) {  // of another tensor
    return net.mul("mul", net.unary("tanh", UnaryFn::kTanh, x), sigmoid(net, x));
  });
  expect_not(UnaryFn::kSilu, [](Net& net, ValueId x) {  // the sigmoid is needed anyway
    const ValueId gate = sigmoid(net, x);
    net.output(gate);
    return net.mul("mul", x, gate);
  });
  expect_not(UnaryFn::kSilu, [](Net& net, ValueId x) {  // sigmoid of a multiple
    return net.mul("mul", x, sigmoid(net, net.mul("scaled", x, net.scalar(1.702))));
  });
}

// The outputs of a Split are different tensors of one node.
TEST(Recompose, NotSiluOfTheOtherHalf) {
  Net net;
  const ValueId x = net.input("x", {1, 4, 5, 4});
  const ValueId a = net.graph.add_value("a");
  const ValueId b = net.graph.add_value("b");
  set_types(net.graph, net.graph.add_node(Split{1, {2, 2}}, {x}, {a, b}, "split", {"split"}));
  net.output(net.mul("mul", a, sigmoid(net, b)));
  Graph graph = net.graph;
  simplify(graph);
  EXPECT_EQ(node_count(graph), 3U) << print(graph);
}

ValueId relu6_of_plus_three(Net& net, ValueId x) {
  return net.clip("clip", net.add("add", x, net.scalar(3)), 0, 6);
}

TEST(Recompose, HardSwish) {
  const double sixth = 1.0 / 6;
  expect_unary(UnaryFn::kHardSwish, [](Net& net, ValueId x) {  // x * (relu6(x + 3) / 6)
    return net.mul("mul", x, net.div("div", relu6_of_plus_three(net, x), net.scalar(6)));
  });
  expect_unary(UnaryFn::kHardSwish, [](Net& net, ValueId x) {  // x * relu6(x + 3) / 6
    return net.div("div", net.mul("mul", x, relu6_of_plus_three(net, x)),
                   net.constant({1, 1}, {6}));
  });
  expect_unary(UnaryFn::kHardSwish, [=](Net& net, ValueId x) {  // relu6(3 + x) * x * (1/6)
    return net.mul("scaled", net.scalar(sixth), net.mul("mul", relu6_of_plus_three(net, x), x));
  });
  expect_unary(UnaryFn::kHardSwish, [=](Net& net, ValueId x) {  // (x * (1/6)) * relu6(x + 3)
    return net.mul("mul", net.mul("scaled", x, net.scalar(sixth)), relu6_of_plus_three(net, x));
  });
  expect_unary(UnaryFn::kHardSwish, [=](Net& net, ValueId x) {  // x * hard_sigmoid(x; 1/6, 1/2)
    const auto alpha = static_cast<double>(static_cast<float>(sixth));
    return net.mul("mul", x, net.unary("gate", UnaryFn::kHardSigmoid, x, alpha, 0.5));
  });
  expect_unary(UnaryFn::kHardSwish, [](Net& net, ValueId x) {  // relu6 as min of max
    const ValueId low =
        net.binary("max", BinaryFn::kMax, net.add("add", x, net.scalar(3)), net.scalar(0));
    const ValueId gate = net.binary("min", BinaryFn::kMin, low, net.scalar(6));
    return net.div("div", net.mul("mul", gate, x), net.scalar(6));
  });
}

TEST(Recompose, NotHardSwish) {
  const auto variant = [](double shift, double bound, double divisor) {
    expect_not(UnaryFn::kHardSwish, [=](Net& net, ValueId x) {
      const ValueId clipped = net.clip("clip", net.add("add", x, net.scalar(shift)), 0, bound);
      return net.mul("mul", x, net.div("div", clipped, net.scalar(divisor)));
    });
  };
  variant(2, 6, 6);
  variant(3, 5, 6);
  variant(3, 6, 5);
  expect_not(UnaryFn::kHardSwish, [](Net& net, ValueId x) {  // default slope of HardSigmoid
    return net.mul("mul", x, net.unary("gate", UnaryFn::kHardSigmoid, x, 0.2, 0.5));
  });
  expect_not(UnaryFn::kHardSwish, [](Net& net, ValueId x) {  // a divisor per channel
    return net.div("div", net.mul("mul", x, relu6_of_plus_three(net, x)),
                   net.constant({4, 1, 1}, {6, 6, 6, 5}));
  });
}

TEST(Recompose, HardSigmoid) {
  expect_unary(UnaryFn::kHardSigmoid, [](Net& net, ValueId x) {
    return net.div("div", relu6_of_plus_three(net, x), net.scalar(6));
  });
  expect_unary(UnaryFn::kHardSigmoid, [](Net& net, ValueId x) {
    return net.mul("mul", relu6_of_plus_three(net, x), net.scalar(1.0 / 6));
  });
  expect_unary(UnaryFn::kHardSigmoid, [](Net& net, ValueId x) {
    return net.clip("clip", net.add("add", net.mul("mul", x, net.scalar(0.2)), net.scalar(0.5)), 0,
                    1);
  });
}

TEST(Recompose, NotHardSigmoid) {
  expect_not(UnaryFn::kHardSigmoid, [](Net& net, ValueId x) {
    return net.div("div", relu6_of_plus_three(net, x), net.scalar(5));
  });
  expect_not(UnaryFn::kHardSigmoid, [](Net& net, ValueId x) {
    return net.clip("clip", net.add("add", x, net.scalar(0.5)), 0, 1);
  });
  expect_not(UnaryFn::kHardSigmoid, [](Net& net, ValueId x) {
    const ValueId clipped = relu6_of_plus_three(net, x);
    net.output(clipped);
    return net.div("div", clipped, net.scalar(6));
  });
}

TEST(Recompose, Mish) {
  expect_unary(UnaryFn::kMish, [](Net& net, ValueId x) {
    return net.mul("mul", x,
                   net.unary("tanh", UnaryFn::kTanh, net.unary("softplus", UnaryFn::kSoftplus, x)));
  });
  expect_unary(UnaryFn::kMish, [](Net& net, ValueId x) {
    const ValueId sum = net.add("add", net.scalar(1), net.unary("exp", UnaryFn::kExp, x));
    return net.mul("mul", net.unary("tanh", UnaryFn::kTanh, net.unary("log", UnaryFn::kLog, sum)),
                   x);
  });
}

TEST(Recompose, NotMish) {
  expect_not(UnaryFn::kMish, [](Net& net, ValueId x) {
    const ValueId sum = net.add("add", net.scalar(2), net.unary("exp", UnaryFn::kExp, x));
    return net.mul("mul", net.unary("tanh", UnaryFn::kTanh, net.unary("log", UnaryFn::kLog, sum)),
                   x);
  });
}

// log(1 + exp(100)) is inf in float, softplus(100) is 100.
TEST(Recompose, SoftplusAloneStaysAsItIs) {
  Net net;
  const ValueId sum =
      net.add("add", net.unary("exp", UnaryFn::kExp, net.input("x", {1, 4})), net.scalar(1));
  net.output(net.unary("log", UnaryFn::kLog, sum));
  EXPECT_EQ(node_count(simplified(net)), 3U);
}

ValueId erf_gate(Net& net, ValueId x) {
  const ValueId erf =
      net.unary("erf", UnaryFn::kErf, net.div("scaled", x, net.scalar(std::sqrt(2.0))));
  return net.add("plus one", erf, net.scalar(1));
}

TEST(Recompose, Gelu) {
  expect_unary(UnaryFn::kGelu, [](Net& net, ValueId x) {  // (x * gate) * 0.5
    return net.mul("half", net.mul("mul", x, erf_gate(net, x)), net.scalar(0.5));
  });
  expect_unary(UnaryFn::kGelu, [](Net& net, ValueId x) {  // (0.5 * x) * gate
    return net.mul("mul", net.mul("half", net.scalar(0.5), x), erf_gate(net, x));
  });
  expect_unary(UnaryFn::kGelu, [](Net& net, ValueId x) {  // x * (gate / 2)
    return net.mul("mul", x, net.div("half", erf_gate(net, x), net.scalar(2)));
  });
  expect_unary(UnaryFn::kGelu, [](Net& net, ValueId x) {  // x * (0.5 * erf + 0.5)
    const ValueId erf =
        net.unary("erf", UnaryFn::kErf, net.mul("scaled", x, net.scalar(std::sqrt(0.5))));
    return net.mul("mul", x,
                   net.add("add", net.mul("half", erf, net.scalar(0.5)), net.scalar(0.5)));
  });
}

TEST(Recompose, GeluTanh) {
  const double scale = std::sqrt(2 / std::acos(-1.0));
  const auto gate = [](Net& net, ValueId argument) {
    return net.add("plus one", net.unary("tanh", UnaryFn::kTanh, argument), net.scalar(1));
  };
  expect_unary(UnaryFn::kGeluTanh, [=](Net& net, ValueId x) {
    const ValueId cube = net.binary("pow", BinaryFn::kPow, x, net.scalar(3));
    const ValueId sum = net.add("sum", x, net.mul("cubic", net.scalar(0.044715), cube));
    return net.mul("mul", net.mul("half", x, net.scalar(0.5)),
                   gate(net, net.mul("scaled", net.scalar(scale), sum)));
  });
  expect_unary(UnaryFn::kGeluTanh, [=](Net& net, ValueId x) {
    const ValueId square = net.mul("square", x, x);
    const ValueId sum =
        net.add("sum", net.mul("quadratic", square, net.scalar(0.044715)), net.scalar(1));
    const ValueId argument = net.mul("argument", net.mul("scaled", x, net.scalar(scale)), sum);
    return net.mul("half", net.scalar(0.5), net.mul("mul", x, gate(net, argument)));
  });
  expect_unary(UnaryFn::kGeluTanh, [=](Net& net, ValueId x) {
    const ValueId cube = net.mul("cube", x, net.mul("square", x, x));
    const ValueId sum = net.add("sum", net.mul("cubic", cube, net.scalar(0.044715)), x);
    return net.mul("half", net.mul("mul", x, gate(net, net.mul("scaled", sum, net.scalar(scale)))),
                   net.scalar(0.5));
  });
}

TEST(Recompose, NotGelu) {
  expect_not(UnaryFn::kGelu,
             [](Net& net, ValueId x) { return net.mul("mul", x, erf_gate(net, x)); });
  expect_not(UnaryFn::kGelu, [](Net& net, ValueId x) {  // erf(x), not of x / sqrt(2)
    const ValueId gate = net.add("plus one", net.unary("erf", UnaryFn::kErf, x), net.scalar(1));
    return net.mul("half", net.mul("mul", x, gate), net.scalar(0.5));
  });
  expect_not(UnaryFn::kGelu, [](Net& net, ValueId x) {  // 2 + erf
    const ValueId erf =
        net.unary("erf", UnaryFn::kErf, net.div("scaled", x, net.scalar(std::sqrt(2.0))));
    return net.mul("half", net.mul("mul", x, net.add("plus two", erf, net.scalar(2))),
                   net.scalar(0.5));
  });
}

struct NormSpelling {
  ValueId difference = kNoValue;
  ValueId variance = kNoValue;  // with epsilon
};
NormSpelling spell_norm(Net& net, ValueId x, Ints axes, bool by_power) {
  const Reduce mean{ReduceFn::kMean, std::move(axes)};
  const ValueId d = net.sub("d", x, net.op("mean", mean, {x}));
  const ValueId square =
      by_power ? net.binary("square", BinaryFn::kPow, d, net.scalar(2)) : net.mul("square", d, d);
  return {d, net.add("plus epsilon", net.op("variance", mean, {square}), net.scalar(1e-3))};
}

TEST(Recompose, InstanceNorm) {
  for (const bool by_power : {false, true}) {
    for (const bool by_reciprocal : {false, true}) {
      Net net;
      const auto [d, variance] = spell_norm(net, net.input("x", {2, 3, 4, 5}), {2, 3}, by_power);
      const ValueId root = net.unary("sqrt", UnaryFn::kSqrt, variance);
      ValueId y = by_reciprocal
                      ? net.mul("norm", net.unary("inverse", UnaryFn::kReciprocal, root), d)
                      : net.div("norm", d, root);
      y = net.mul("scale", y, net.random({1, 3, 1, 1}));
      net.output(net.add("bias", y, net.random({3, 1, 1})));
      const Graph graph = simplified(net);
      EXPECT_THAT(result(graph),
                  Is(OpKind::kInstanceNorm, IsInput("x"), IsConstant(), IsConstant()));
      EXPECT_NEAR(op_of<InstanceNorm>(result(graph)).epsilon, 1e-3, 1e-9);
    }
  }
}

TEST(Recompose, InstanceNormWithTheDifferenceTakenTwice) {
  Net net;
  const ValueId x = net.input("x", {2, 3, 4, 5});
  const auto [d, variance] = spell_norm(net, x, {2, 3}, true);
  const ValueId again =
      net.sub("again", x, net.op("mean again", Reduce{ReduceFn::kMean, {2, 3}}, {x}));
  net.output(net.div("norm", again, net.unary("sqrt", UnaryFn::kSqrt, variance)));
  EXPECT_THAT(result(simplified(net)),
              Is(OpKind::kInstanceNorm, IsInput("x"), IsConstant(), IsConstant()));
}

TEST(Recompose, NotInstanceNorm) {
  for (const Ints& axes : {Ints{1, 2, 3}, Ints{3}, Ints{0, 2, 3}}) {
    Net net;
    const auto [d, variance] = spell_norm(net, net.input("x", {2, 3, 4, 5}), axes, false);
    net.output(net.div("norm", d, net.unary("sqrt", UnaryFn::kSqrt, variance)));
    EXPECT_EQ(node_count(simplified(net)), 7U);
  }
  Net net;  // the difference is read elsewhere too
  const auto [d, variance] = spell_norm(net, net.input("x", {2, 3, 4, 5}), {2, 3}, false);
  net.output(net.div("norm", d, net.unary("sqrt", UnaryFn::kSqrt, variance)));
  net.output(d);
  EXPECT_EQ(node_count(simplified(net)), 7U);
}

TEST(Recompose, InstanceNormBetweenReshapes) {
  Net net;
  const ValueId flat = net.reshape("flat", net.input("x", {2, 3, 4, 5}), {2, 3, 20});
  const ValueId y = net.op("norm", InstanceNorm{1e-5}, {flat, net.random({3}), net.random({3})});
  net.output(net.reshape("back", y, {2, 3, 4, 5}));
  EXPECT_THAT(result(simplified(net)),
              Is(OpKind::kInstanceNorm, IsInput("x"), IsConstant(), IsConstant()));
}

TEST(Recompose, GroupNormStaysBetweenItsReshapes) {
  Net net;
  const ValueId groups = net.reshape("groups", net.input("x", {2, 6, 4, 5}), {2, 3, 40});
  const ValueId y = net.op("norm", InstanceNorm{1e-5}, {groups, net.random({3}), net.random({3})});
  net.output(net.reshape("back", y, {2, 6, 4, 5}));
  EXPECT_EQ(node_count(simplified(net)), 3U);
}

}  // namespace
}  // namespace braze::test
