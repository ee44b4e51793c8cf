// The graph itself: order, editing, printing, verification.
#include "graph/fields.hpp"
#include "graph/net.hpp"

namespace braze {
namespace {

using testing::counting;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::Net;

TEST(Graph, OrderPutsProducersFirst) {
  Net net;
  const ValueId x = net.input(counting({2}));
  const ValueId late = net.graph.add_value("late");
  net.graph.add_node(Unary{}, {late}, {net.graph.add_value("y")}, "second", {"second"});
  net.graph.add_node(Unary{}, {x}, {late}, "first", {"first"});
  EXPECT_THAT(net.graph.order(), ElementsAre(1, 0));
}

TEST(Graph, CyclesAreNamed) {
  Graph graph;
  const ValueId a = graph.add_value("a");
  const ValueId b = graph.add_value("b");
  graph.add_node(Unary{}, {a}, {b}, "one", {"one"});
  graph.add_node(Unary{}, {b}, {a}, "two", {"two"});
  EXPECT_EQ(error_of([&] { static_cast<void>(graph.order()); }).message,
            "node 'one' is part of a cycle");
}

TEST(Graph, DeadNodesAreRecorded) {
  Net net;
  const ValueId x = net.input(counting({2}));
  net.node(Unary{}, {net.node(Unary{}, {x})});
  net.output(net.node(Unary{}, {x}));
  net.resolve();
  EXPECT_EQ(net.graph.order().size(), 1U);
  ASSERT_EQ(net.graph.folded.size(), 2U);
  EXPECT_EQ(net.graph.folded[0].into, "unused");
  const Graph compact = net.graph.compacted();
  EXPECT_THAT(compact.order(), ElementsAre(0));
  EXPECT_EQ(compact.value_count(), 2);
  verify(compact, "compacted");
}

TEST(Print, OneLinePerNode) {
  Net net;
  const ValueId x = net.input(counting({1, 1, 4, 4}));
  Conv conv;
  conv.window.pads_begin = {1, 1};
  conv.window.pads_end = {0, 1};
  const ValueId y = net.node(conv, {x, net.constant(counting({2, 1, 3, 3})), kNoValue});
  net.output(net.node(Unary{UnaryFn::kClip, 0, 6}, {y}));
  net.graph.name = "g";
  net.resolve();
  EXPECT_EQ(print(net.graph),
            "graph g\n"
            "input x0 float[1,1,4,4]\n"
            "n0: Conv(x0, c1=float[2,1,3,3], _) window=3x3 pads=1,1:0,1 -> v2 float[1,2,3,4]\n"
            "n1: Unary(v2) fn=clip beta=6 -> v3 float[1,2,3,4]\n"
            "output v3\n");
}

TEST(Print, UnknownExtents) {
  Graph graph;
  const ValueId x = graph.add_value("x", DType::kInt64, {-1, -1, 3});
  graph.value(x).symbols = {"N", "", ""};
  graph.inputs = {x};
  EXPECT_THAT(print(graph), HasSubstr("input x int64[N,?,3]\n"));
}

TEST(Fields, ListEveryAttribute) {
  // A struct that grows without its list would be printed and stored without the new attribute.
  std::size_t bytes = 0;
  const Lrn lrn;
  for_each_field(lrn, [&](const char*, const auto& member) { bytes += sizeof(member); });
  EXPECT_EQ(bytes, sizeof(Lrn));
  bytes = 0;
  const Gemm gemm;
  for_each_field(gemm, [&](const char*, const auto& member) { bytes += sizeof(member); });
  EXPECT_EQ(bytes, 2 * sizeof(double) + 2 * sizeof(bool));
}

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    y_ = net_.node(Conv{},
                   {net_.input(counting({1, 1, 4, 4})), net_.constant(counting({2, 1, 3, 3}))});
    net_.output(net_.node(Unary{}, {y_}));
    net_.resolve();
  }
  /// The message of the failed verification; the pass is named and the error internal.
  std::string broken() {
    const Error error = error_of([&] { verify(net_.graph, "a_pass"); });
    EXPECT_EQ(error.code, ErrorCode::kInternal);
    EXPECT_THAT(error.message, HasSubstr("after a_pass"));
    return error.message;
  }
  Net net_;
  ValueId y_ = kNoValue;
};

TEST_F(VerifyTest, AcceptsWhatResolveMakes) {
  EXPECT_EQ(error_of([&] { verify(net_.graph, "resolve"); }).message, "");
}

TEST_F(VerifyTest, WrongShape) {
  net_.graph.value(y_).shape = {1, 2, 4, 4};
  EXPECT_THAT(broken(), HasSubstr("'v2' is float[1,2,4,4], expected float[1,2,2,2]"));
}

TEST_F(VerifyTest, WrongDType) {
  net_.graph.value(y_).dtype = DType::kFloat16;
  EXPECT_THAT(broken(), HasSubstr("node 'n0' (Conv)"));
}

TEST_F(VerifyTest, InputMadeByNothing) {
  net_.graph.node(1).inputs[0] = net_.graph.add_value("ghost", DType::kFloat32, {1, 2, 2, 2});
  net_.graph.touch();
  EXPECT_THAT(broken(), HasSubstr("input 'ghost' is made by nothing"));
}

TEST_F(VerifyTest, TwoProducers) {
  net_.graph.add_node(Unary{}, {net_.graph.inputs[0]}, {y_}, "again", {"again"});
  EXPECT_THAT(broken(), HasSubstr("'v2' is made twice"));
}

TEST_F(VerifyTest, UnresolvedOperator) {
  net_.graph.node(1).op = Flatten{};
  EXPECT_THAT(broken(), HasSubstr("is not resolved"));
}

TEST_F(VerifyTest, TooManyInputs) {
  net_.graph.node(1).inputs.push_back(y_);
  net_.graph.touch();
  EXPECT_THAT(broken(), HasSubstr("has 2 inputs, expected 1 to 1"));
}

TEST_F(VerifyTest, ConstantUnlikeItsValue) {
  net_.graph.value(net_.graph.node(0).inputs[1]).constant = counting({18});
  EXPECT_THAT(broken(), HasSubstr("constant 'c1'"));
}

TEST_F(VerifyTest, OutputMadeByNothing) {
  net_.graph.outputs[0].value = kNoValue;
  EXPECT_THAT(broken(), HasSubstr("graph output 'v3': is made by nothing"));
}

TEST_F(VerifyTest, IllegalAttributes) {
  net_.graph.node(0).as<Conv>()->group = 2;
  EXPECT_THAT(broken(), HasSubstr("with group 2"));
}

TEST_F(VerifyTest, AttributesOutOfRange) {
  net_.graph.node(0).as<Conv>()->window.strides = {0, 1};
  EXPECT_THAT(broken(), HasSubstr("node 'n0' (Conv): its window"));
}

}  // namespace
}  // namespace braze
