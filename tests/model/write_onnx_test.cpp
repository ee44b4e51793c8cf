// A graph that is written and read again computes the same, bit for bit.
#include "model/write_onnx.hpp"

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "graph/interpret.hpp"
#include "graph/shape.hpp"
#include "model/onnx_model.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;

/// Inputs with a sign change and no two equal elements: -2, ..., 3.
std::vector<Tensor> inputs_of(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    const auto count = static_cast<std::size_t>(element_count(value.shape));
    std::vector<double> elements(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double t = static_cast<double>((i * 7) % count) / static_cast<double>(count);
      elements[i] = is_float(value.dtype) ? 5 * t - 2 : std::floor(50 * t);
    }
    inputs.push_back(make_tensor(value.dtype, value.shape, elements));
  }
  return inputs;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

Graph read_again(const Graph& graph) {
  const std::string bytes = write_onnx(graph);
  Graph again = read_onnx(std::as_bytes(std::span(bytes)), "");
  resolve_graph(again);
  return again;
}

void expect_same(const Graph& graph) {
  const Graph again = read_again(graph);
  ASSERT_EQ(names_of(again, again.inputs), names_of(graph, graph.inputs));
  const std::vector<Tensor> inputs = inputs_of(graph);
  const std::vector<Tensor> expected = interpret(graph, inputs);
  const std::vector<Tensor> found = interpret(again, inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(again.outputs[i].name, graph.outputs[i].name);
    EXPECT_TRUE(same_bits(found[i], expected[i])) << print(graph) << print(again);
  }
}

Graph resolved(const OnnxModel& model) {
  Graph graph = model.read();
  resolve_graph(graph);
  return graph;
}

struct Case {
  std::string name;
  OnnxModel model;
};

/// One node with inputs of shape [1,4,6,6] and outputs y, z, ...
Case plain(const std::string& op, int inputs = 1, const std::vector<Attr>& attributes = {},
           int opset = 20) {
  return {op, one_node(opset, op, inputs, attributes)};
}

/// The same with constants behind one input x.
Case with(const std::string& op, const std::vector<Tensor>& constants,
          const std::vector<Attr>& attributes = {}, int type = onnx::TensorProto::FLOAT) {
  OnnxModel model(17);
  model.input("x", {1, 4, 6, 6}, type).output("y");
  std::vector<std::string> names = {"x"};
  for (const Tensor& constant : constants) {
    names.push_back(constant.defined() ? "c" + std::to_string(names.size()) : "");
    if (constant.defined()) model.constant(names.back(), constant);
  }
  model.node(op, names, {"y"}, attributes, "n");
  return {op, model};
}

Tensor ints(const Ints& values) { return make_tensor(DType::kInt64, {std::ssize(values)}, values); }

Tensor floats(const Shape& shape, double first = 0.5) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = first + 0.25 * static_cast<double>(i % 9);
  return make_tensor(DType::kFloat32, shape, values);
}

Tensor scalar(DType dtype, double value) {
  return make_tensor(dtype, {}, std::vector<double>{value});
}

std::vector<Case> elementwise() {
  std::vector<Case> cases;
  for (const char* op : {"Relu",        "Sigmoid", "HardSwish",  "Tanh",  "Softplus",
                         "Softsign",    "Erf",     "Exp",        "Log",   "Sqrt",
                         "Abs",         "Neg",     "Reciprocal", "Floor", "Ceil",
                         "Round",       "Sign",    "Sin",        "Cos",   "IsNaN",
                         "LeakyRelu",   "Elu",     "Selu",       "Celu",  "ThresholdedRelu",
                         "HardSigmoid", "Identity"}) {
    cases.push_back(plain(op));
  }
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "PRelu", "Equal", "Less",
                         "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    cases.push_back(plain(op, 2));
  }
  cases.push_back(plain("Mod", 2, {{"fmod", 1}}));
  cases.push_back(
      with("Mod", {make_tensor(DType::kInt32, {}, Ints{7})}, {}, onnx::TensorProto::INT32));
  for (const char* op : {"And", "Or", "Xor"}) {
    cases.push_back(with(op, {scalar(DType::kBool, 1)}, {}, onnx::TensorProto::BOOL));
  }
  cases.push_back(with("Not", {}, {}, onnx::TensorProto::BOOL));
  cases.push_back(with("Where", {floats({6}), floats({1, 4, 1, 1})}, {}, onnx::TensorProto::BOOL));
  cases.push_back(plain("Cast", 1, {{"to", 10}}));
  const Tensor zero = scalar(DType::kFloat32, 0);
  cases.push_back(with("Clip", {zero, scalar(DType::kFloat32, 2)}));
  cases.push_back(with("Clip", {Tensor(), scalar(DType::kFloat32, 2)}));
  cases.push_back(with("Clip", {zero}));
  return cases;
}

std::vector<Case> numeric() {
  const Attr pads("pads", {1, 0, 2, 1});
  const Attr strides("strides", {2, 1});
  const Attr dilations("dilations", {1, 2});
  const Attr kernel("kernel_shape", {2, 2});
  const auto quantized = [](double value) { return scalar(DType::kUInt8, value); };
  const Tensor scale = scalar(DType::kFloat32, 0.25);
  const Tensor w8 = make_tensor(DType::kInt8, {2, 4, 1, 1}, Ints{1, -2, 3, -4, 5, -6, 7, -8});
  std::vector<Case> cases = {
      with("Conv", {floats({2, 2, 3, 3}), floats({2})}, {pads, strides, dilations, {"group", 2}}),
      with("Conv", {floats({3, 4, 1, 1})}),
      with("ConvTranspose", {floats({4, 2, 3, 3}), floats({4})},
           {pads, strides, {"group", 2}, {"output_padding", {1, 0}}}),
      with("QLinearConv",
           {scale, quantized(3), w8, make_tensor(DType::kFloat32, {2}, std::vector<double>{1, 2}),
            make_tensor(DType::kInt8, {2}, Ints{0, 1}), scale, quantized(7),
            make_tensor(DType::kInt32, {2}, Ints{10, -10})},
           {pads}, onnx::TensorProto::UINT8),
      with("QuantizeLinear", {floats({4}), make_tensor(DType::kInt8, {4}, Ints{0, 1, 2, 3})},
           {{"axis", 1}}),
      with("QuantizeLinear", {scale}),
      with("DequantizeLinear", {scale, quantized(2)}, {}, onnx::TensorProto::UINT8),
      with("MatMul", {floats({6, 3})}),
      with("BatchNormalization", {floats({4}), floats({4}), floats({4}), floats({4})},
           {{"epsilon", 0.125}}),
      with("InstanceNormalization", {floats({4}), floats({4})}),
      with("LRN", {}, {{"size", 3}, {"alpha", 0.5}, {"beta", 0.25}, {"bias", 2.0}}),
      with("Softmax", {}, {{"axis", 1}}),
      with("LogSoftmax", {}),
      with("MaxPool", {}, {kernel, pads, strides, dilations}),
      with("MaxPool", {}, {kernel, {"strides", {3, 3}}, {"ceil_mode", 1}}),
      with("AveragePool", {}, {kernel, pads, {"count_include_pad", 1}}),
      with("AveragePool", {}, {kernel, pads}),
      with("GlobalAveragePool", {}),
      with("ReduceSum", {ints({1, -1})}, {{"keepdims", 0}}),
      with("ReduceSum", {}, {{"noop_with_empty_axes", 1}}),
      with("ArgMax", {}, {{"axis", 2}, {"keepdims", 0}}),
      with("ArgMin", {}, {{"axis", 1}, {"select_last_index", 1}}),
  };
  for (const char* op : {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                         "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"}) {
    cases.push_back(with(op, {}, {{"axes", {1, 3}}}));
  }
  OnnxModel gemm(17);
  gemm.input("a", {3, 2}).input("b", {4, 3}).floats("c", {4}, {1, 2, 3, 4}).output("y");
  gemm.node("Gemm", {"a", "b", "c"}, {"y"},
            {{"transA", 1}, {"transB", 1}, {"alpha", 0.5}, {"beta", 2.0}});
  cases.push_back({"Gemm", gemm});
  OnnxModel pool(17);
  pool.input("x", {1, 1, 4, 4}).output("y").output("i");
  pool.node("MaxPool", {"x"}, {"y", "i"}, {kernel, {"storage_order", 1}});
  cases.push_back({"MaxPool with indices", pool});
  return cases;
}

std::vector<Case> movement() {
  OnnxModel split(17);
  split.input("x", {1, 4, 2}).ints("sizes", {1, 3}).output("a").output("b");
  split.node("Split", {"x", "sizes"}, {"a", "b"}, {{"axis", 1}});
  OnnxModel shared(17);
  shared.input("x", {2}).node("Relu", {"x"}, {"y"}).node("Identity", {"y"}, {"z"});
  shared.floats("c", {1}, {1}).output("y").output("x").output("c").output("z");
  std::vector<Case> cases = {
      {"Split", split},
      {"outputs that are no node's own", shared},
      with("Concat", {floats({1, 2, 6, 6})}, {{"axis", 1}}),
      with("Slice", {ints({1, -1}), ints({3, INT64_MIN}), ints({1, 3}), ints({1, -2})}),
      with("Slice", {ints({0}), ints({INT64_MAX})}),
      with("Pad", {ints({0, 1, 0, -1, 0, 0, 2, 0}), scalar(DType::kFloat32, 3)}),
      with("Pad", {ints({0, 0, 1, 2, 0, 0, 2, 1})}, {{"mode", "reflect"}}),
      with("Pad", {ints({0, 0, 1, 2, 0, 0, 2, 1})}, {{"mode", "edge"}}),
      with("Reshape", {ints({0, -1})}),
      with("Flatten", {}, {{"axis", 2}}),
      with("Squeeze", {ints({0})}),
      with("Unsqueeze", {ints({1})}),
      with("Transpose", {}, {{"perm", {0, 3, 1, 2}}}),
      with("Transpose", {}),
      with("Gather", {make_tensor(DType::kInt64, {2, 2}, Ints{1, 0, -1, 2})}, {{"axis", 1}}),
      with("Expand", {ints({2, 1, 1, 1, 1})}),
      with("Tile", {ints({1, 2, 1, 3})}),
      with("DepthToSpace", {}, {{"blocksize", 2}}),
      with("DepthToSpace", {}, {{"blocksize", 2}, {"mode", "CRD"}}),
      with("SpaceToDepth", {}, {{"blocksize", 3}}),
  };
  const Attr crop("coordinate_transformation_mode", "tf_crop_and_resize");
  const Tensor scales = make_tensor(DType::kFloat32, {4}, std::vector<double>{1, 1, 1.7, 0.6});
  const Tensor roi =
      make_tensor(DType::kFloat32, {8}, std::vector<double>{0, 0, 0.5, 0.25, 1, 1, 1.5, 0.75});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    cases.push_back(with("Resize", {Tensor(), scales}, {{"mode", mode}}));
    cases.push_back(with("Resize", {Tensor(), Tensor(), ints({1, 4, 9, 5})}, {{"mode", mode}}));
    cases.push_back(with("Resize", {roi, Tensor(), ints({1, 4, 5, 7})},
                         {{"mode", mode}, {"extrapolation_value", 9.0}, crop}));
  }
  for (const char* coordinate : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                                 "tf_half_pixel_for_nn"}) {
    cases.push_back(with(
        "Resize", {Tensor(), scales},
        {{"coordinate_transformation_mode", coordinate}, {"nearest_mode", "round_prefer_ceil"}}));
  }
  return cases;
}

void expect_all_same(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    ASSERT_NO_THROW(expect_same(resolved(each.model))) << each.name;
  }
}

TEST(WriteOnnx, Elementwise) { expect_all_same(elementwise()); }
TEST(WriteOnnx, Numeric) { expect_all_same(numeric()); }
TEST(WriteOnnx, Movement) { expect_all_same(movement()); }

TEST(WriteOnnx, TheCasesHaveEveryResolvedOperator) {
  std::set<OpKind> kinds = {
      OpKind::kChannelShuffle,  // below
      OpKind::kClip,           OpKind::kFlatten, OpKind::kSqueeze,         OpKind::kUnsqueeze,
      OpKind::kShapeOf,        OpKind::kSizeOf,  OpKind::kConstantOfShape, OpKind::kRange};
  for (const auto& cases : {elementwise(), numeric(), movement()}) {
    for (const Case& each : cases) {
      const Graph graph = resolved(each.model);
      for (const NodeId id : graph.order()) kinds.insert(graph.node(id).kind());
    }
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Attributes>);
}

/// A graph of one node on x, made here: for operators that are recomposed, never read.
Graph graph_of(Attributes op, const Shape& shape) {
  Graph graph;
  const ValueId x = graph.add_value("x", DType::kFloat32, shape);
  const ValueId y = graph.add_value("y", DType::kFloat32, shape);
  graph.inputs = {x};
  graph.outputs = {{"y", y}};
  set_types(graph, graph.add_node(std::move(op), {x}, {y}, "n", {"n"}));
  return graph;
}

TEST(WriteOnnx, RecomposedOperatorsAreSpelledOut) {
  expect_same(graph_of(ChannelShuffle{2}, {2, 6, 2, 3}));
  expect_same(graph_of(ChannelShuffle{3}, {1, 6}));
  // Each part rounds to float: a few times 2^-24 of at most 3.
  for (const UnaryFn fn : {UnaryFn::kSilu, UnaryFn::kMish, UnaryFn::kGelu, UnaryFn::kGeluTanh}) {
    const Graph graph = graph_of(Unary{fn, 0, 0}, {4, 5});
    const std::vector<Tensor> inputs = inputs_of(graph);
    const std::vector<double> expected = load<double>(interpret(graph, inputs)[0]);
    const std::vector<double> found = load<double>(interpret(read_again(graph), inputs)[0]);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-6) << to_string(fn);
    }
  }
}

TEST(WriteOnnx, NamesStayAndStayApart) {
  Graph graph;
  const ValueId x = graph.add_value("x", DType::kFloat32, {2});
  const ValueId a = graph.add_value("same", DType::kFloat32, {2});
  const ValueId b = graph.add_value("same", DType::kFloat32, {2});
  const ValueId y = graph.add_value("", DType::kFloat32, {2});
  graph.inputs = {x};
  graph.outputs = {{"out", y}};
  graph.add_node(Unary{UnaryFn::kExp, 0, 0}, {x}, {a}, "first", {"first"});
  graph.add_node(Unary{UnaryFn::kNeg, 0, 0}, {a}, {b}, "second", {"second"});
  graph.add_node(Binary{BinaryFn::kAdd}, {a, b}, {y}, "third", {"third"});
  expect_same(graph);
  const Graph again = read_again(graph);
  std::vector<std::string> ids;
  for (const NodeId id : again.order()) ids.push_back(again.node(id).id);
  EXPECT_THAT(ids, ElementsAre("first", "second", "third"));
}

TEST(WriteOnnx, SymbolicDimensions) {
  OnnxModel model;
  model.input("x", {std::string("N"), 2}).node("Relu", {"x"}, {"y"}).output("y");
  const std::string bytes = write_onnx(model.read());
  const Graph again = read_onnx(std::as_bytes(std::span(bytes)), "");
  EXPECT_THAT(again.value(again.inputs[0]).symbols, ElementsAre("N", ""));
}

TEST(WriteOnnx, WhatOpset17CannotSay) {
  const auto expect_refused = [](const Case& each, const std::string& what) {
    const Graph graph = resolved(each.model);
    expect_error(ErrorCode::kUnsupported, {what, "opset 17"}, [&graph] { write_onnx(graph); });
  };
  expect_refused(plain("AveragePool", 1, {{"kernel_shape", {2, 2}}, {"dilations", {2, 2}}}),
                 "dilations");
  OnnxModel wrap(19);
  wrap.input("x", {4}).ints("p", {1, 1}).output("y");
  wrap.node("Pad", {"x", "p"}, {"y"}, {{"mode", "wrap"}});
  expect_refused({"Pad", wrap}, "wrap");
  OnnxModel resize(19);
  resize.input("x", {1, 1, 4, 4}).ints("s", {1, 1, 2, 2}).output("y");
  resize.node("Resize", {"x", "", "", "s"}, {"y"}, {{"mode", "linear"}, {"antialias", 1}});
  expect_refused({"Resize", resize}, "antialias");
}

TEST(WriteOnnx, ToAFile) {
  const TemporaryFolder folder;
  const std::string file = folder / "written.onnx";
  write_onnx(resolved(plain("Relu").model), file);
  EXPECT_EQ(read_onnx(file).node_count(), 1);
}

}  // namespace
}  // namespace braze::test
