#include "model/bind_dims.hpp"

#include "model/onnx_model.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;

const std::string kBatch = "batch";

Graph images() {
  OnnxModel model;
  model.input("x", {kBatch, 3, std::string("height"), std::string("")});
  model.input("z", {kBatch, std::string("height")}).node("Relu", {"x"}, {"y"}).output("y");
  return model.read();
}

Shape shape_of(const Graph& graph, std::size_t input) {
  return graph.value(graph.inputs[input]).shape;
}

TEST(BindDims, BatchIsOneAndSymbolsAreBoundEverywhere) {
  Graph graph = images();
  bind_dims(graph, {{"height", 8}, {"x.3", 9}});
  EXPECT_THAT(shape_of(graph, 0), ElementsAre(1, 3, 8, 9));
  EXPECT_THAT(shape_of(graph, 1), ElementsAre(1, 8));
  EXPECT_THAT(graph.value(graph.inputs[0]).symbols, ElementsAre("", "", "", ""));
}

TEST(BindDims, ByPlaceBindsTheSymbol) {
  Graph graph = images();
  bind_dims(graph, {{"x.0", 4}, {"z.1", 8}, {"x.3", 9}});
  EXPECT_THAT(shape_of(graph, 0), ElementsAre(4, 3, 8, 9));
  EXPECT_THAT(shape_of(graph, 1), ElementsAre(4, 8));
  Graph other = images();
  expect_error(ErrorCode::kUsage, {"z.1=7", "height is 8"},
               [&] { bind_dims(other, {{"height", 8}, {"z.1", 7}, {"x.3", 9}}); });
}

TEST(BindDims, UnboundOnesAreNamed) {
  Graph graph = images();
  expect_error(ErrorCode::kUsage,
               {"axis 2 of input 'x'", "--dim height=VALUE", "axis 3 of input 'x'",
                "--dim x.3=VALUE", "axis 1 of input 'z'"},
               [&] { bind_dims(graph, {}); });
}

TEST(BindDims, NamesThatAreNone) {
  Graph graph = images();
  expect_error(ErrorCode::kUsage, {"width=3", "batch", "height", "x.3"},
               [&] { bind_dims(graph, {{"width", 3}}); });
  expect_error(ErrorCode::kUsage, {"x.1=4", "3", "cannot be changed"},
               [&] { bind_dims(graph, {{"x.1", 4}}); });
  expect_error(ErrorCode::kUsage, {"height=0", "1 or more"},
               [&] { bind_dims(graph, {{"height", 0}}); });
  OnnxModel fixed;
  fixed.input("x", {1}).node("Relu", {"x"}, {"y"}).output("y");
  Graph none = fixed.read();
  bind_dims(none, {});
  expect_error(ErrorCode::kUsage, {"N=2", "none to bind"}, [&] { bind_dims(none, {{"N", 2}}); });
}

TEST(BindDims, InputWithoutARank) {
  OnnxModel model;
  model.input("x", {1}).node("Relu", {"x"}, {"y"}).output("y");
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  Graph graph = model.read();
  expect_error(ErrorCode::kUnsupported, {"input 'x'", "no shape"}, [&] { bind_dims(graph, {}); });
}

}  // namespace
}  // namespace braze::test
