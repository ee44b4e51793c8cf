// The structure of models: header, names, inputs, order, and what may be wrong with them.
#include "model/read_onnx.hpp"

#include <fstream>

#include "model/onnx_model.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;

constexpr ErrorCode kInvalid = ErrorCode::kModelInvalid;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

OnnxModel relu(int opset = 17, int ir_version = 8) {
  OnnxModel model(opset, ir_version);
  model.input("x", {1, 2}).node("Relu", {"x"}, {"y"}).output("y");
  return model;
}

TEST(ReadOnnx, ReadsNodesValuesAndConstants) {
  OnnxModel model;
  model.input("x", {1, 3, 8, 8}).floats("w", {2, 3, 1, 1}, {1, 2, 3, 4, 5, 6});
  model.node("Conv", {"x", "w"}, {"c"}, {{"strides", {2, 2}}}, "first");
  model.node("Relu", {"c"}, {"y"}, {}, "second").output("y");
  const Graph graph = model.read();

  EXPECT_EQ(graph.name, "test");
  EXPECT_THAT(names_of(graph, graph.inputs), ElementsAre("x"));
  ASSERT_EQ(graph.outputs.size(), 1U);
  EXPECT_EQ(graph.outputs[0].name, "y");
  ASSERT_EQ(graph.node_count(), 2);
  const Node& conv = graph.node(0);
  ASSERT_NE(conv.as<Conv>(), nullptr);
  EXPECT_THAT(conv.as<Conv>()->window.strides, ElementsAre(2, 2));
  EXPECT_EQ(conv.id, "first");
  EXPECT_THAT(conv.origins, ElementsAre("first"));
  EXPECT_THAT(names_of(graph, conv.inputs), ElementsAre("x", "w"));
  const Value& w = graph.value(conv.inputs[1]);
  ASSERT_TRUE(w.is_constant());
  EXPECT_THAT(load<double>(*w.constant), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(to_string(graph.value(graph.inputs[0]).shape), "[1,3,8,8]");
}

TEST(ReadOnnx, IdIsTheNameIfItIsUniqueElseTheFirstOutput) {
  OnnxModel model;
  model.input("x", {1});
  model.node("Relu", {"x"}, {"a"}, {}, "same").node("Relu", {"a"}, {"b"}, {}, "same");
  model.node("Relu", {"b"}, {"c"}).node("Relu", {"c"}, {"y"}, {}, "own").output("y");
  const Graph graph = model.read();
  std::vector<std::string> ids;
  for (const NodeId id : graph.order()) ids.push_back(graph.node(id).id);
  EXPECT_THAT(ids, ElementsAre("a", "b", "c", "own"));
}

TEST(ReadOnnx, SymbolsOfDimensionsWithoutNumber) {
  OnnxModel model;
  model.input("x", {std::string("batch"), 3, std::string("?"), std::string("")});
  model.input("z", {-1, 2}).node("Relu", {"x"}, {"y"}).output("y");
  const Graph graph = model.read();
  const Value& x = graph.value(graph.inputs[0]);
  EXPECT_THAT(x.shape, ElementsAre(-1, 3, -1, -1));
  EXPECT_THAT(x.symbols, ElementsAre("batch", "", "x.2", "x.3"));
  EXPECT_THAT(graph.value(graph.inputs[1]).symbols, ElementsAre("z.0", ""));
}

TEST(ReadOnnx, InputWithoutAShapeHasNoRank) {
  OnnxModel model = relu();
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_FALSE(model.read().value(0).known_rank);
}

TEST(ReadOnnx, WhatAModelSaysOfItself) {
  OnnxModel model;
  model.input("x", {std::string("batch"), 3, std::string("?")}).input("b", {2});
  model.floats("b", {2}, {1, 2}).node("Relu", {"x"}, {"y"}).output("y");
  auto* entry = model.proto.add_metadata_props();
  entry->set_key("character");
  entry->set_value("a\nb");
  onnx::TypeProto::Tensor& type =
      *model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT16);
  type.mutable_shape()->add_dim()->set_dim_param("batch");
  type.mutable_shape()->add_dim();
  type.mutable_shape()->add_dim()->set_dim_value(4);
  const std::string bytes = model.proto.SerializeAsString();
  const ModelInfo info = read_model_info(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(info.name, "test");
  EXPECT_EQ(info.metadata.at("character"), "a\nb");
  ASSERT_EQ(info.inputs.size(), 1U);
  EXPECT_EQ(info.inputs[0].name, "x");
  EXPECT_EQ(info.inputs[0].dtype, DType::kFloat32);
  EXPECT_THAT(info.inputs[0].shape, ElementsAre(-1, 3, -1));
  EXPECT_THAT(info.inputs[0].symbols, ElementsAre("batch", "", "x.2"));
  ASSERT_EQ(info.outputs.size(), 1U);
  EXPECT_EQ(info.outputs[0].dtype, DType::kFloat16);
  EXPECT_TRUE(info.outputs[0].known_rank);
  EXPECT_THAT(info.outputs[0].shape, ElementsAre(-1, -1, 4));
  EXPECT_THAT(info.outputs[0].symbols, ElementsAre("batch", "", ""));
}

TEST(ReadOnnx, InitializersThatAreInputsAreConstants) {
  for (const int ir_version : {3, 4, 8}) {
    OnnxModel model(9, ir_version);
    model.input("x", {1, 2}).input("b", {2}).floats("b", {2}, {1, 2});
    model.node("Add", {"x", "b"}, {"y"}).output("y");
    const Graph graph = model.read();
    EXPECT_THAT(names_of(graph, graph.inputs), ElementsAre("x"));
    EXPECT_TRUE(graph.value(graph.node(0).inputs[1]).is_constant());
  }
}

TEST(ReadOnnx, ConstantsBecomeNoNodes) {
  const Tensor value = make_tensor(DType::kFloat16, {2}, std::vector<double>{1, -0.5});
  const std::pair<Attr, std::string> cases[] = {
      {Attr("value", value), "float16[2]"},
      {Attr("value_float", 1.5), "float[]"},
      {Attr("value_floats", std::vector<double>{1, 2, 3}), "float[3]"},
      {Attr("value_int", 7), "int64[]"},
      {Attr("value_ints", {1, 2}), "int64[2]"},
  };
  for (const auto& [attribute, type] : cases) {
    OnnxModel model(13);
    model.node("Constant", {}, {"c"}, {attribute}, "k").node("Identity", {"c"}, {"y"}).output("y");
    const Graph graph = model.read();
    ASSERT_EQ(graph.node_count(), 1);
    const Value& c = graph.value(graph.node(0).inputs[0]);
    ASSERT_TRUE(c.is_constant());
    EXPECT_EQ(to_string(c.dtype) + to_string(c.shape), type);
    EXPECT_EQ(to_string(c.constant->dtype()) + to_string(c.constant->shape()), type);
    ASSERT_EQ(graph.folded.size(), 1U);
    EXPECT_EQ(graph.folded[0].node, "k");
    EXPECT_EQ(graph.folded[0].into, "constant");
  }
}

TEST(ReadOnnx, ConstantWithoutExactlyOneValue) {
  OnnxModel none;
  none.node("Constant", {}, {"y"}).output("y");
  expect_read_error(kInvalid, {"'y' (Constant)", "0 attributes"}, none);
  OnnxModel two;
  two.node("Constant", {}, {"y"}, {{"value_int", 1}, {"value_float", 1.0}}).output("y");
  expect_read_error(kInvalid, {"'y' (Constant)", "2 attributes"}, two);
  OnnxModel text;
  text.node("Constant", {}, {"y"}, {{"value_string", "a"}}).output("y");
  expect_read_error(kUnsupported, {"'y' (Constant)", "value_string"}, text);
}

TEST(ReadOnnx, NodesInAnyOrder) {
  OnnxModel model;
  model.input("x", {1});
  model.node("Exp", {"a"}, {"y"}).node("Log", {"x"}, {"a"}).output("y");
  const Graph graph = model.read();
  ASSERT_EQ(graph.node_count(), 2);
  EXPECT_EQ(graph.node(0).as<Unary>()->fn, UnaryFn::kLog);
  EXPECT_EQ(graph.node(1).as<Unary>()->fn, UnaryFn::kExp);
}

TEST(ReadOnnx, AbsentOptionalInputs) {
  OnnxModel model(13);
  model.input("x", {1}).floats("high", {}, {6});
  model.node("Clip", {"x", "", "high"}, {"a"}).node("Clip", {"a", "", ""}, {"y"}).output("y");
  const Graph graph = model.read();
  EXPECT_THAT(names_of(graph, graph.node(0).inputs), ElementsAre("x", "", "high"));
  EXPECT_THAT(names_of(graph, graph.node(1).inputs), ElementsAre("a"));
}

TEST(ReadOnnx, VersionsThatAreRefused) {
  expect_read_error(kUnsupported, {"IR version 2", "3 and up"}, relu(7, 2));
  expect_read_error(kUnsupported, {"opset 6", "7 to 23"}, relu(6));
  expect_read_error(kUnsupported, {"opset 24", "7 to 23"}, relu(24));
  OnnxModel none = relu();
  none.proto.clear_opset_import();
  expect_read_error(kInvalid, {"no opset"}, none);
  OnnxModel two = relu();
  two.proto.add_opset_import()->set_version(18);
  expect_read_error(kInvalid, {"opset 17", "opset 18"}, two);
  OnnxModel bare = relu();
  bare.proto.clear_ir_version();
  expect_read_error(kInvalid, {"IR version"}, bare);
  OnnxModel empty;
  empty.proto.clear_graph();
  expect_read_error(kInvalid, {"no graph"}, empty);
  expect_error(kInvalid, {"not an ONNX model"},
               [] { read_onnx(std::span<const std::byte>(), ""); });
}

TEST(ReadOnnx, OtherDomainsMayBeImported) {
  OnnxModel model = relu();
  auto& import = *model.proto.add_opset_import();
  import.set_domain("ai.onnx.ml");
  import.set_version(3);
  EXPECT_EQ(model.read().node_count(), 1);
}

TEST(ReadOnnx, UnsupportedOperatorsAreToldAllAtOnce) {
  OnnxModel model;
  model.input("x", {1});
  model.node("NonZero", {"x"}, {"a"}, {}, "odd").node("Relu", {"x"}, {"b"});
  model.node("FusedConv", {"b"}, {"y"}, {}, "", "com.microsoft")
      .node("If", {"b"}, {"c"})
      .output("y");
  expect_read_error(
      kUnsupported,
      {"3 nodes", "node 'odd' (NonZero): operator NonZero of domain ai.onnx",
       "node 'y' (FusedConv): operator FusedConv of domain com.microsoft", "node 'c' (If)"},
      model);
}

TEST(ReadOnnx, UnsupportedAttributesAreToldAllAtOnce) {
  OnnxModel model(16);
  model.input("x", {1}).input("q", {1}, onnx::TensorProto::UINT8);
  model.node("Cast", {"x"}, {"a"}, {{"to", 8}})
      .node("Cast", {"x"}, {"b"}, {{"to", 14}})
      .output("b");
  expect_read_error(kUnsupported, {"2 nodes", "'a' (Cast)", "string", "'b' (Cast)", "complex64"},
                    model);
}

TEST(ReadOnnx, FunctionsOfTheModelAreRefusedByTheirNodes) {
  OnnxModel model;
  model.proto.add_functions()->set_name("MyNorm");
  model.input("x", {1}).node("MyNorm", {"x"}, {"y"}, {}, "n", "my.domain").output("y");
  expect_read_error(kUnsupported, {"node 'n' (MyNorm)", "my.domain"}, model);
}

TEST(ReadOnnx, OperatorsOutsideOfTheirOpsets) {
  expect_read_error(kInvalid, {"(Mish)", "from opset 18", "opset 17"}, one_node(17, "Mish", 1));
  expect_read_error(kInvalid, {"(Upsample)", "up to opset 9", "opset 10"},
                    one_node(10, "Upsample", 2));
}

TEST(ReadOnnx, WrongNumbersOfInputsAndOutputs) {
  expect_read_error(kInvalid, {"'y' (Conv)", "1 inputs", "2 to 3"}, one_node(17, "Conv", 1));
  expect_read_error(kInvalid, {"'y' (Add)", "3 inputs", "expected 2"}, one_node(17, "Add", 3));
  OnnxModel gap;
  gap.input("x", {1}).node("Add", {"", "x"}, {"y"}).output("y");
  expect_read_error(kInvalid, {"'y' (Add)", "input 0 is absent"}, gap);
  OnnxModel many;
  many.input("x", {1}).node("Relu", {"x"}, {"y", "z"}).output("y");
  expect_read_error(kInvalid, {"'y' (Relu)", "2 outputs"}, many);
  OnnxModel none;
  none.input("x", {1}).node("Relu", {"x"}, {}, {}, "r").output("x");
  expect_read_error(kInvalid, {"'r' (Relu)", "0 outputs"}, none);
}

TEST(ReadOnnx, BrokenReferences) {
  OnnxModel missing;
  missing.input("x", {1}).node("Add", {"x", "nowhere"}, {"y"}).output("y");
  expect_read_error(kInvalid, {"node 'y' (Add)", "'nowhere'"}, missing);
  OnnxModel output = relu();
  output.output("z");
  expect_read_error(kInvalid, {"output 'z'", "no node"}, output);
  OnnxModel twice = relu();
  twice.output("y");
  expect_read_error(kInvalid, {"output 'y'", "twice"}, twice);
  OnnxModel no_outputs = relu();
  no_outputs.graph().clear_output();
  expect_read_error(kInvalid, {"no outputs"}, no_outputs);
}

TEST(ReadOnnx, ValuesThatAreDefinedTwice) {
  OnnxModel nodes = relu();
  nodes.node("Exp", {"x"}, {"y"}, {}, "second");
  expect_read_error(kInvalid, {"node 'second' (Exp)", "'y'", "twice"}, nodes);
  OnnxModel input = relu();
  input.node("Exp", {"y"}, {"x"});
  expect_read_error(kInvalid, {"'x' (Exp)", "twice"}, input);
  OnnxModel inputs = relu();
  inputs.input("x", {1});
  expect_read_error(kInvalid, {"input 'x'", "twice"}, inputs);
  OnnxModel constants = relu();
  constants.ints("k", {1}).ints("k", {2});
  expect_read_error(kInvalid, {"initializer 'k'", "twice"}, constants);
}

TEST(ReadOnnx, CyclesNameANode) {
  OnnxModel model;
  model.input("x", {1});
  model.node("Add", {"x", "b"}, {"a"}).node("Relu", {"a"}, {"b"}).output("b");
  expect_read_error(kInvalid, {"node 'a' (Add)", "cycle"}, model);
}

TEST(ReadOnnx, InputsThatAreNoTensorsOrHaveNoSuchDtype) {
  OnnxModel sequence = relu();
  sequence.graph().mutable_input(0)->mutable_type()->mutable_sequence_type();
  expect_read_error(kUnsupported, {"input 'x'", "no tensor"}, sequence);
  const std::pair<int, const char*> types[] = {{onnx::TensorProto::STRING, "string"},
                                               {onnx::TensorProto::COMPLEX64, "complex64"},
                                               {22, "int4"}};
  for (const auto& [type, name] : types) {
    OnnxModel model;
    model.input("x", {1}, type).node("Identity", {"x"}, {"y"}).output("y");
    expect_read_error(kUnsupported, {"input 'x'", name}, model);
  }
  OnnxModel unknown;
  unknown.input("x", {1}, 99).node("Identity", {"x"}, {"y"}).output("y");
  expect_read_error(kInvalid, {"input 'x'", "99"}, unknown);
}

TEST(ReadOnnx, ImpossibleShapesOfInputs) {
  OnnxModel negative;
  negative.input("x", {-2}).node("Relu", {"x"}, {"y"}).output("y");
  expect_read_error(kInvalid, {"input 'x'", "axis 0", "-2"}, negative);
  OnnxModel huge;
  huge.input("x", {1 << 30, 1 << 30, 1 << 30}).node("Relu", {"x"}, {"y"}).output("y");
  expect_read_error(kInvalid, {"input 'x'", "2^63"}, huge);
}

TEST(ReadOnnx, WrongAttributes) {
  expect_read_error(kInvalid, {"'y' (Relu)", "'alpha'", "not one that the operator has"},
                    one_node(17, "Relu", 1, {{"alpha", 0.5}}));
  expect_read_error(kInvalid, {"'y' (LeakyRelu)", "'alpha' is an integer", "expected a float"},
                    one_node(17, "LeakyRelu", 1, {{"alpha", 1}}));
  expect_read_error(kInvalid, {"'y' (Concat)", "'axis' is absent", "expected an integer"},
                    one_node(17, "Concat", 2));
  expect_read_error(kInvalid, {"'y' (LeakyRelu)", "'alpha'", "twice"},
                    one_node(17, "LeakyRelu", 1, {{"alpha", 1.0}, {"alpha", 1.0}}));
  expect_read_error(kInvalid, {"'auto_pad' is SAME", "SAME_UPPER"},
                    one_node(17, "MaxPool", 1, {{"kernel_shape", {2, 2}}, {"auto_pad", "SAME"}}));
  OnnxModel reference = one_node(17, "LeakyRelu", 1, {{"alpha", 1.0}});
  reference.graph().mutable_node(0)->mutable_attribute(0)->set_ref_attr_name("a");
  expect_read_error(kInvalid, {"'alpha'", "reference"}, reference);
}

TEST(ReadOnnx, FilesThatAreNotThereOrAreNoModels) {
  expect_error(kInvalid, {"/nonexistent.onnx", "No such file"},
               [] { read_onnx("/nonexistent.onnx"); });
  const TemporaryFolder folder;
  const std::string file = folder / "no_model.onnx";
  std::ofstream(file) << "This is no model at all.";
  expect_error(kInvalid, {file, "protobuf"}, [&file] { read_onnx(file); });
}

TEST(ReadOnnx, FilesBeyondWhatProtobufHolds) {
  const TemporaryFolder folder;
  const std::string file = folder / "huge.onnx";
  std::ofstream(file) << "x";
  std::filesystem::resize_file(file, (std::uintmax_t{1} << 31) + 5);  // a hole: takes no room
  expect_error(kInvalid, {file, "2147483653 bytes", "2 GB", "external data"},
               [&file] { read_onnx(file); });
}

TEST(ReadOnnx, SparseInitializersAreRefused) {
  OnnxModel model = relu();
  model.graph().add_sparse_initializer();
  expect_read_error(kUnsupported, {"sparse"}, model);
}

}  // namespace
}  // namespace braze::test
