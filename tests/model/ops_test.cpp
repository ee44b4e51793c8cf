// What each operator becomes, and how that changed from opset to opset.
#include <limits>

#include "model/onnx_model.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ErrorCode kInvalid = ErrorCode::kModelInvalid;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

/// The kinds of the graph's nodes, in order.
std::vector<std::string> kinds(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.order()) names.emplace_back(to_string(graph.node(id).kind()));
  return names;
}

Unary read_unary(int opset, const std::string& op, const std::vector<Attr>& attributes = {}) {
  return only_op<Unary>(one_node(opset, op, 1, attributes).read());
}

TEST(ReadUnary, PlainOnes) {
  const std::pair<const char*, UnaryFn> cases[] = {
      {"Relu", UnaryFn::kRelu},
      {"Sigmoid", UnaryFn::kSigmoid},
      {"HardSwish", UnaryFn::kHardSwish},
      {"Mish", UnaryFn::kMish},
      {"Tanh", UnaryFn::kTanh},
      {"Softplus", UnaryFn::kSoftplus},
      {"Softsign", UnaryFn::kSoftsign},
      {"Erf", UnaryFn::kErf},
      {"Exp", UnaryFn::kExp},
      {"Log", UnaryFn::kLog},
      {"Sqrt", UnaryFn::kSqrt},
      {"Abs", UnaryFn::kAbs},
      {"Neg", UnaryFn::kNeg},
      {"Reciprocal", UnaryFn::kReciprocal},
      {"Floor", UnaryFn::kFloor},
      {"Ceil", UnaryFn::kCeil},
      {"Round", UnaryFn::kRound},
      {"Sign", UnaryFn::kSign},
      {"Sin", UnaryFn::kSin},
      {"Cos", UnaryFn::kCos},
      {"Not", UnaryFn::kNot},
      {"IsNaN", UnaryFn::kIsNaN},
  };
  for (const auto& [name, fn] : cases) EXPECT_EQ(read_unary(20, name).fn, fn) << name;
}

TEST(ReadUnary, Parameters) {
  EXPECT_EQ(read_unary(7, "LeakyRelu").alpha, 0.01F);
  EXPECT_EQ(read_unary(7, "LeakyRelu", {{"alpha", 0.25}}).alpha, 0.25);
  EXPECT_EQ(read_unary(7, "Elu").alpha, 1);
  EXPECT_EQ(read_unary(7, "Selu").alpha, 1.67326319217681884765625);
  EXPECT_EQ(read_unary(7, "Selu").beta, 1.05070102214813232421875);
  EXPECT_EQ(read_unary(7, "HardSigmoid").alpha, 0.2F);
  EXPECT_EQ(read_unary(7, "HardSigmoid").beta, 0.5);
  EXPECT_EQ(read_unary(12, "Celu", {{"alpha", 2.0}}).alpha, 2);
  EXPECT_EQ(read_unary(10, "ThresholdedRelu").alpha, 1);
  EXPECT_EQ(read_unary(20, "Gelu").fn, UnaryFn::kGelu);
  EXPECT_EQ(read_unary(20, "Gelu", {{"approximate", "tanh"}}).fn, UnaryFn::kGeluTanh);
}

TEST(ReadClip, BoundsAreAttributesBeforeOpset11) {
  const Unary clip = read_unary(10, "Clip", {{"min", 0.0}, {"max", 6.0}});
  EXPECT_EQ(clip.fn, UnaryFn::kClip);
  EXPECT_EQ(clip.alpha, 0);
  EXPECT_EQ(clip.beta, 6);
  const Unary low = read_unary(7, "Clip", {{"min", -1.0}});
  EXPECT_EQ(low.alpha, -1);
  EXPECT_EQ(low.beta, std::numeric_limits<double>::infinity());
  only_op<Clip>(one_node(11, "Clip", 3).read());
  expect_read_error(kInvalid, {"(Clip)", "'min'"}, one_node(11, "Clip", 1, {{"min", 0.0}}));
  expect_read_error(kInvalid, {"(Clip)", "3 inputs"}, one_node(10, "Clip", 3));
}

TEST(ReadCast, DtypesOfResults) {
  OnnxModel model(19);
  model.input("x", {1}).node("Cast", {"x"}, {"h"}, {{"to", 10}, {"saturate", 1}});
  model.node("CastLike", {"x", "h"}, {"l"}).node("Less", {"x", "x"}, {"b"});
  model.node("Where", {"b", "l", "h"}, {"w"}).node("Shape", {"w"}, {"y"}).output("y").output("w");
  const Graph graph = model.read();
  const auto dtype = [&graph](int node) { return graph.value(graph.node(node).outputs[0]).dtype; };
  EXPECT_EQ(dtype(0), DType::kFloat16);
  EXPECT_EQ(graph.node(1).as<Cast>()->to, DType::kFloat16);
  EXPECT_EQ(dtype(2), DType::kBool);
  EXPECT_EQ(dtype(3), DType::kFloat16);
  EXPECT_EQ(dtype(4), DType::kInt64);
}

TEST(ReadDropout, IsIdentityWithAMaskOfOnes) {
  only_op<Identity>(one_node(7, "Dropout", 1, {{"ratio", 0.5}}).read());
  OnnxModel mask(13);
  mask.input("x", {2, 3}).node("Dropout", {"x"}, {"y", "m"}).output("y").output("m");
  EXPECT_THAT(kinds(mask.read()), ElementsAre("ShapeOf", "ConstantOfShape", "Identity"));
  OnnxModel old(7);
  old.input("x", {2, 3}).node("Dropout", {"x"}, {"y", "m"}).output("y").output("m");
  expect_read_error(kUnsupported, {"'y' (Dropout)", "mask"}, old);
  OnnxModel training(13);
  training.input("x", {2}).floats("r", {}, {0.5});
  training.constant("t", make_tensor(DType::kBool, {}, Ints{1}));
  training.node("Dropout", {"x", "r", "t"}, {"y"}).output("y");
  expect_read_error(kUnsupported, {"'y' (Dropout)", "training_mode"}, training);
}

TEST(ReadBinary, PlainOnes) {
  const std::pair<const char*, BinaryFn> cases[] = {
      {"Add", BinaryFn::kAdd},     {"Sub", BinaryFn::kSub},
      {"Mul", BinaryFn::kMul},     {"Div", BinaryFn::kDiv},
      {"Pow", BinaryFn::kPow},     {"PRelu", BinaryFn::kPRelu},
      {"Equal", BinaryFn::kEqual}, {"Less", BinaryFn::kLess},
      {"And", BinaryFn::kAnd},     {"LessOrEqual", BinaryFn::kLessOrEqual},
      {"Or", BinaryFn::kOr},       {"Greater", BinaryFn::kGreater},
      {"Xor", BinaryFn::kXor},     {"GreaterOrEqual", BinaryFn::kGreaterOrEqual},
      {"Mod", BinaryFn::kMod},
  };
  for (const auto& [name, fn] : cases) {
    EXPECT_EQ(only_op<Binary>(one_node(17, name, 2).read()).fn, fn) << name;
  }
  EXPECT_EQ(only_op<Binary>(one_node(13, "Mod", 2, {{"fmod", 1}}).read()).fn, BinaryFn::kFMod);
}

TEST(ReadVariadic, ChainsShareOneOrigin) {
  const Graph graph = one_node(13, "Sum", 3).read();
  ASSERT_EQ(graph.node_count(), 2);
  for (const NodeId id : graph.order()) {
    EXPECT_EQ(graph.node(id).as<Binary>()->fn, BinaryFn::kAdd);
    EXPECT_THAT(graph.node(id).origins, ElementsAre("y"));
  }
  EXPECT_EQ(graph.node(1).id, "y");
  EXPECT_NE(graph.node(0).id, "y");
  only_op<Identity>(one_node(13, "Max", 1).read());
  EXPECT_EQ(only_op<Binary>(one_node(13, "Min", 2).read()).fn, BinaryFn::kMin);
}

TEST(ReadVariadic, MeanMultipliesByOneOverTheNumber) {
  OnnxModel model(13);
  model.input("a", {2}, onnx::TensorProto::FLOAT16).input("b", {2}, onnx::TensorProto::FLOAT16);
  model.node("Relu", {"a"}, {"r"}).node("Mean", {"r", "b"}, {"y"}).output("y");
  const Graph graph = model.read();
  EXPECT_THAT(kinds(graph), ElementsAre("Unary", "Binary", "Binary"));
  const Node& last = graph.node(2);
  EXPECT_EQ(last.as<Binary>()->fn, BinaryFn::kMul);
  const Tensor& factor = *graph.value(last.inputs[1]).constant;
  EXPECT_EQ(factor.dtype(), DType::kFloat16);
  EXPECT_THAT(load<double>(factor), ElementsAre(0.5));
}

TEST(ReadConv, Window) {
  const Conv conv = only_op<Conv>(one_node(17, "Conv", 3,
                                           {{"kernel_shape", {3, 5}},
                                            {"strides", {1, 2}},
                                            {"dilations", {2, 1}},
                                            {"pads", {1, 2, 3, 4}},
                                            {"group", 4}})
                                      .read());
  EXPECT_THAT(conv.window.kernel, ElementsAre(3, 5));
  EXPECT_THAT(conv.window.strides, ElementsAre(1, 2));
  EXPECT_THAT(conv.window.dilations, ElementsAre(2, 1));
  EXPECT_THAT(conv.window.pads_begin, ElementsAre(1, 2));
  EXPECT_THAT(conv.window.pads_end, ElementsAre(3, 4));
  EXPECT_EQ(conv.group, 4);
  const std::pair<const char*, AutoPad> modes[] = {{"NOTSET", AutoPad::kNotSet},
                                                   {"VALID", AutoPad::kValid},
                                                   {"SAME_UPPER", AutoPad::kSameUpper},
                                                   {"SAME_LOWER", AutoPad::kSameLower}};
  for (const auto& [name, mode] : modes) {
    const Graph graph = one_node(17, "Conv", 2, {{"auto_pad", name}}).read();
    EXPECT_EQ(only_op<Conv>(graph).window.auto_pad, mode);
  }
}

TEST(ReadConv, ImpossibleNumbers) {
  expect_read_error(kInvalid, {"(Conv)", "'pads' is [1,2,3]"},
                    one_node(17, "Conv", 2, {{"pads", {1, 2, 3}}}));
  expect_read_error(kInvalid, {"(Conv)", "'strides' is [0,1]"},
                    one_node(17, "Conv", 2, {{"strides", {0, 1}}}));
  expect_read_error(kInvalid, {"(Conv)", "group is 0"}, one_node(17, "Conv", 2, {{"group", 0}}));
  OnnxModel huge = one_node(17, "Conv", 2, {{"dilations", {1, 1}}});
  huge.graph().mutable_node(0)->mutable_attribute(0)->set_ints(0, INT64_MAX);
  expect_read_error(kInvalid, {"(Conv)", "'dilations'"}, huge);
}

TEST(ReadConv, TransposedAndQuantized) {
  const ConvTranspose op = only_op<ConvTranspose>(
      one_node(17, "ConvTranspose", 2, {{"output_padding", {1, 0}}, {"output_shape", {9, 9}}})
          .read());
  EXPECT_THAT(op.output_padding, ElementsAre(1, 0));
  EXPECT_THAT(op.output_shape, ElementsAre(9, 9));
  EXPECT_EQ(only_op<QLinearConv>(one_node(17, "QLinearConv", 9, {{"group", 2}}).read()).group, 2);
}

TEST(ReadQuantize, AxesAndDtypes) {
  EXPECT_EQ(only_op<Quantize>(one_node(13, "QuantizeLinear", 2, {{"axis", 0}}).read()).axis, 0);
  EXPECT_EQ(only_op<Dequantize>(one_node(10, "DequantizeLinear", 2).read()).axis, 1);
  EXPECT_EQ(only_op<Quantize>(one_node(21, "QuantizeLinear", 2, {{"output_dtype", 3}}).read()).to,
            DType::kInt8);
  expect_read_error(kUnsupported, {"(QuantizeLinear)", "'block_size' is 16"},
                    one_node(21, "QuantizeLinear", 2, {{"block_size", 16}}));
}

TEST(ReadGemm, Attributes) {
  const Gemm gemm =
      only_op<Gemm>(one_node(13, "Gemm", 3, {{"alpha", 0.5}, {"beta", 2.0}, {"transB", 1}}).read());
  EXPECT_EQ(gemm.alpha, 0.5);
  EXPECT_EQ(gemm.beta, 2);
  EXPECT_FALSE(gemm.trans_a);
  EXPECT_TRUE(gemm.trans_b);
}

TEST(ReadBatchNorm, OnlyWithGivenStatistics) {
  EXPECT_EQ(
      only_op<BatchNorm>(one_node(15, "BatchNormalization", 5, {{"momentum", 0.5}}).read()).epsilon,
      1e-5F);
  only_op<BatchNorm>(one_node(7, "BatchNormalization", 5, {{"spatial", 1}}).read());
  expect_read_error(kUnsupported, {"'y' (BatchNormalization)", "'spatial' is 0"},
                    one_node(8, "BatchNormalization", 5, {{"spatial", 0}}));
  expect_read_error(kInvalid, {"'y' (BatchNormalization)", "'spatial'"},
                    one_node(9, "BatchNormalization", 5, {{"spatial", 1}}));
  expect_read_error(kUnsupported, {"'y' (BatchNormalization)", "'training_mode' is 1"},
                    one_node(14, "BatchNormalization", 5, {{"training_mode", 1}}));
  OnnxModel outputs = one_node(9, "BatchNormalization", 5);
  outputs.graph().mutable_node(0)->add_output("mean");
  expect_read_error(kUnsupported, {"'y' (BatchNormalization)", "output 1"}, outputs);
}

TEST(ReadNormalize, LrnAndInstanceNorm) {
  const Lrn lrn = only_op<Lrn>(one_node(13, "LRN", 1, {{"size", 5}, {"bias", 2.0}}).read());
  EXPECT_EQ(lrn.size, 5);
  EXPECT_EQ(lrn.bias, 2);
  EXPECT_EQ(lrn.beta, 0.75);
  expect_read_error(kInvalid, {"(LRN)", "'size' is absent"}, one_node(13, "LRN", 1));
  EXPECT_EQ(
      only_op<InstanceNorm>(one_node(6 + 1, "InstanceNormalization", 3, {{"epsilon", 0.5}}).read())
          .epsilon,
      0.5);
}

TEST(ReadSoftmax, FlattensBeforeOpset13) {
  const Softmax old = only_op<Softmax>(one_node(12, "Softmax", 1).read());
  EXPECT_TRUE(old.flatten);
  EXPECT_EQ(old.axis, 1);
  const Softmax now = only_op<Softmax>(one_node(13, "LogSoftmax", 1).read());
  EXPECT_FALSE(now.flatten);
  EXPECT_EQ(now.axis, -1);
  EXPECT_TRUE(now.log);
}

TEST(ReadPool, Attributes) {
  OnnxModel model(12);
  model.input("x", {1, 4, 6, 6});
  model.node("MaxPool", {"x"}, {"y", "i"},
             {{"kernel_shape", {2, 2}}, {"ceil_mode", 1}, {"storage_order", 1}});
  model.output("y").output("i");
  const Graph graph = model.read();
  const Pool max = only_op<Pool>(graph);
  EXPECT_EQ(max.fn, PoolFn::kMax);
  EXPECT_TRUE(max.ceil_mode);
  EXPECT_TRUE(max.column_major_indices);
  EXPECT_EQ(graph.value(graph.outputs[1].value).dtype, DType::kInt64);
  const Pool average = only_op<Pool>(
      one_node(19, "AveragePool", 1, {{"kernel_shape", {3, 3}}, {"count_include_pad", 1}}).read());
  EXPECT_EQ(average.fn, PoolFn::kAverage);
  EXPECT_TRUE(average.count_include_pad);
  expect_read_error(kInvalid, {"(MaxPool)", "'kernel_shape' is absent"},
                    one_node(12, "MaxPool", 1));
}

TEST(ReadPool, GlobalOnesAreReductions) {
  for (const auto& [name, fn] : {std::pair{"GlobalAveragePool", ReduceFn::kMean},
                                 std::pair{"GlobalMaxPool", ReduceFn::kMax}}) {
    const Reduce reduce = only_op<Reduce>(one_node(7, name, 1).read());
    EXPECT_EQ(reduce.fn, fn);
    EXPECT_TRUE(reduce.spatial);
    EXPECT_TRUE(reduce.keepdims);
  }
}

TEST(ReadReduce, AxesAreAnAttributeThenAnInput) {
  const Reduce mean =
      only_op<Reduce>(one_node(13, "ReduceMean", 1, {{"axes", {2, 3}}, {"keepdims", 0}}).read());
  EXPECT_THAT(mean.axes, ElementsAre(2, 3));
  EXPECT_FALSE(mean.keepdims);
  EXPECT_THAT(only_op<Reduce>(one_node(12, "ReduceSum", 1, {{"axes", {1}}}).read()).axes,
              ElementsAre(1));
  const Graph later = one_node(13, "ReduceSum", 2, {{"noop_with_empty_axes", 1}}).read();
  EXPECT_TRUE(only_op<Reduce>(later).noop_with_empty_axes);
  EXPECT_EQ(later.node(0).inputs.size(), 2U);
  only_op<Reduce>(one_node(18, "ReduceL2", 2).read());
  expect_read_error(kInvalid, {"(ReduceMax)", "'axes'"},
                    one_node(18, "ReduceMax", 1, {{"axes", {1}}}));
  expect_read_error(kInvalid, {"(ReduceMax)", "2 inputs"}, one_node(13, "ReduceMax", 2));
}

TEST(ReadArg, MaxAndMin) {
  const ArgReduce op =
      only_op<ArgReduce>(one_node(13, "ArgMin", 1, {{"axis", 2}, {"select_last_index", 1}}).read());
  EXPECT_FALSE(op.max);
  EXPECT_EQ(op.axis, 2);
  EXPECT_TRUE(op.select_last);
  EXPECT_TRUE(only_op<ArgReduce>(one_node(13, "ArgMax", 1).read()).max);
}

TEST(ReadSplit, SizesAreAnAttributeThenAnInput) {
  OnnxModel old(11);
  old.input("x", {1, 4}).node("Split", {"x"}, {"a", "b"}, {{"axis", 1}, {"split", {1, 3}}});
  old.output("a").output("b");
  EXPECT_THAT(only_op<Split>(old.read()).sizes, ElementsAre(1, 3));
  OnnxModel later(18);
  later.input("x", {1, 4}).node("Split", {"x"}, {"a", "b"}, {{"num_outputs", 3}});
  later.output("a").output("b");
  expect_read_error(kInvalid, {"(Split)", "num_outputs is 3", "2 outputs"}, later);
}

TEST(ReadSlice, BoundsAreAttributesThenInputs) {
  const Slice old = only_op<Slice>(
      one_node(9, "Slice", 1, {{"starts", {1}}, {"ends", {3}}, {"axes", {2}}}).read());
  EXPECT_THAT(old.starts, ElementsAre(1));
  EXPECT_THAT(old.ends, ElementsAre(3));
  EXPECT_THAT(old.axes, ElementsAre(2));
  const Graph later = one_node(10, "Slice", 5).read();
  EXPECT_THAT(only_op<Slice>(later).starts, IsEmpty());
  EXPECT_EQ(later.node(0).inputs.size(), 5U);
  expect_read_error(kInvalid, {"(Slice)", "2 inputs"}, one_node(13, "Slice", 2));
}

TEST(ReadPad, PadsAreAnAttributeThenAnInput) {
  const Pad old = only_op<Pad>(
      one_node(10, "Pad", 1, {{"pads", {0, 1, 0, 1}}, {"mode", "reflect"}, {"value", 2.0}}).read());
  EXPECT_THAT(old.pads, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(old.mode, PadMode::kReflect);
  EXPECT_EQ(old.value, 2);
  EXPECT_EQ(only_op<Pad>(one_node(19, "Pad", 4, {{"mode", "wrap"}}).read()).mode, PadMode::kWrap);
  expect_read_error(kInvalid, {"(Pad)", "4 inputs"}, one_node(13, "Pad", 4));
}

TEST(ReadReshape, AxesOfSqueezeAndUnsqueeze) {
  EXPECT_THAT(only_op<Squeeze>(one_node(11, "Squeeze", 1, {{"axes", {0}}}).read()).axes,
              ElementsAre(0));
  EXPECT_THAT(only_op<Unsqueeze>(one_node(12, "Unsqueeze", 1, {{"axes", {0, 5}}}).read()).axes,
              ElementsAre(0, 5));
  EXPECT_EQ(one_node(13, "Squeeze", 2).read().node(0).inputs.size(), 2U);
  expect_read_error(kInvalid, {"(Squeeze)", "2 inputs"}, one_node(11, "Squeeze", 2));
  expect_read_error(kInvalid, {"(Unsqueeze)", "1 inputs"}, one_node(13, "Unsqueeze", 1));
  expect_read_error(kInvalid, {"(Unsqueeze)", "'axes'"}, one_node(11, "Unsqueeze", 1));
}

TEST(ReadReshape, TheOthers) {
  EXPECT_TRUE(only_op<Reshape>(one_node(14, "Reshape", 2, {{"allowzero", 1}}).read()).allow_zero);
  EXPECT_EQ(only_op<Flatten>(one_node(9, "Flatten", 1).read()).axis, 1);
  EXPECT_THAT(only_op<Transpose>(one_node(9, "Transpose", 1, {{"perm", {1, 0}}}).read()).perm,
              ElementsAre(1, 0));
  const ShapeOf shape = only_op<ShapeOf>(one_node(15, "Shape", 1, {{"start", -2}}).read());
  EXPECT_EQ(shape.start, -2);
  EXPECT_EQ(shape.end, INT64_MAX);
  const Graph fill = one_node(9, "ConstantOfShape", 1).read();
  EXPECT_EQ(only_op<ConstantOfShape>(fill).value.dtype(), DType::kFloat32);
  const Tensor two = make_tensor(DType::kInt64, {2}, Ints{1, 2});
  expect_read_error(kInvalid, {"(ConstantOfShape)", "'value'", "[2]"},
                    one_node(9, "ConstantOfShape", 1, {{"value", two}}));
  only_op<Range>(one_node(11, "Range", 3).read());
  only_op<SizeOf>(one_node(7, "Size", 1).read());
  EXPECT_EQ(only_op<Gather>(one_node(11, "Gather", 2, {{"axis", -1}}).read()).axis, -1);
  only_op<Expand>(one_node(8, "Expand", 2).read());
  only_op<Tile>(one_node(7, "Tile", 2).read());
}

TEST(ReadResize, UpsampleIsAsymmetricAndFloors) {
  const Graph seven =
      one_node(7, "Upsample", 1, {{"scales", std::vector<double>{1, 1, 2, 2}}}).read();
  const Resize& resize = only_op<Resize>(seven);
  EXPECT_EQ(resize.mode, ResizeMode::kNearest);
  EXPECT_EQ(resize.coordinate, CoordinateMode::kAsymmetric);
  EXPECT_EQ(resize.nearest, NearestMode::kFloor);
  EXPECT_THAT(resize.scales, ElementsAre(1, 1, 2, 2));
  const Graph nine = one_node(9, "Upsample", 2, {{"mode", "linear"}}).read();
  EXPECT_EQ(only_op<Resize>(nine).mode, ResizeMode::kLinear);
  EXPECT_THAT(names_of(nine, nine.node(0).inputs), ElementsAre("x0", "", "x1"));
}

OnnxModel resize_10(const std::vector<double>& scales, const char* mode = "nearest") {
  OnnxModel model(10);
  model.input("x", {1, 1, 4, 4}).floats("s", {4}, scales);
  model.node("Resize", {"x", "s"}, {"y"}, {{"mode", mode}}).output("y");
  return model;
}

TEST(ReadResize, Opset10TakesTheElementAboveWhereItShrinks) {
  EXPECT_EQ(only_op<Resize>(resize_10({1, 1, 2, 2}).read()).nearest, NearestMode::kFloor);
  EXPECT_EQ(only_op<Resize>(resize_10({1, 1, .5, .5}).read()).nearest, NearestMode::kCeil);
  only_op<Resize>(resize_10({1, 1, .5, 2}, "linear").read());
  const Graph both = resize_10({1, 1, .5, 2}).read();
  EXPECT_THAT(kinds(both), ElementsAre("Binary", "Binary", "Resize", "Resize"));
  EXPECT_EQ(both.node(2).as<Resize>()->nearest, NearestMode::kFloor);
  EXPECT_EQ(both.node(3).as<Resize>()->nearest, NearestMode::kCeil);
}

TEST(ReadResize, Attributes) {
  const Resize plain = only_op<Resize>(one_node(13, "Resize", 3).read());
  EXPECT_EQ(plain.coordinate, CoordinateMode::kHalfPixel);
  EXPECT_EQ(plain.nearest, NearestMode::kRoundPreferFloor);
  EXPECT_EQ(plain.cubic_a, -0.75);
  const Resize full =
      only_op<Resize>(one_node(19, "Resize", 4,
                               {{"mode", "cubic"},
                                {"coordinate_transformation_mode", "half_pixel_symmetric"},
                                {"keep_aspect_ratio_policy", "not_larger"},
                                {"axes", {2, 3}},
                                {"antialias", 1},
                                {"exclude_outside", 1}})
                          .read());
  EXPECT_EQ(full.mode, ResizeMode::kCubic);
  EXPECT_EQ(full.coordinate, CoordinateMode::kHalfPixelSymmetric);
  EXPECT_EQ(full.aspect, AspectPolicy::kNotLarger);
  EXPECT_THAT(full.axes, ElementsAre(2, 3));
  EXPECT_TRUE(full.antialias);
  EXPECT_TRUE(full.exclude_outside);
}

TEST(ReadDepth, Blocks) {
  EXPECT_FALSE(only_op<DepthToSpace>(one_node(7, "DepthToSpace", 1, {{"blocksize", 2}}).read())
                   .column_row_depth);
  EXPECT_TRUE(only_op<DepthToSpace>(
                  one_node(11, "DepthToSpace", 1, {{"blocksize", 2}, {"mode", "CRD"}}).read())
                  .column_row_depth);
  EXPECT_EQ(only_op<SpaceToDepth>(one_node(13, "SpaceToDepth", 1, {{"blocksize", 3}}).read()).block,
            3);
  expect_read_error(kInvalid, {"(SpaceToDepth)", "blocksize is 0"},
                    one_node(13, "SpaceToDepth", 1, {{"blocksize", 0}}));
}

}  // namespace
}  // namespace braze::test
