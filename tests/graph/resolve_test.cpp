// Shapes, and the spelling of parameters: what resolve() leaves of a node.
#include "graph/net.hpp"
#include "graph/resize.hpp"

namespace braze {
namespace {

using testing::counting;
using ::testing::ElementsAre;
using testing::error_of;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::Net;

/// The resolved node of one operator applied to inputs of these shapes.
template <class Op>
struct Resolved {
  Op op;
  Shape shape;
};

template <class Op>
Resolved<Op> resolve_one(Attributes read, const std::vector<Shape>& shapes,
                         const std::vector<Tensor>& parameters = {}, std::size_t outputs = 1) {
  Net net;
  std::vector<ValueId> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(net.input(Tensor::make(DType::kFloat32, shape)));
  for (const Tensor& parameter : parameters) {
    inputs.push_back(parameter.defined() ? net.constant(parameter) : kNoValue);
  }
  const auto made = net.nodes(std::move(read), inputs, outputs);
  for (const ValueId value : made) net.output(value);
  net.resolve();
  const Node& node = net.graph.node(0);
  const Op* op = node.as<Op>();
  EXPECT_NE(op, nullptr) << print(net.graph);
  return {op == nullptr ? Op{} : *op, net.graph.value(made[0]).shape};
}

Window window(Ints kernel, Ints strides = {}, Ints dilations = {},
              AutoPad auto_pad = AutoPad::kNotSet) {
  return {std::move(kernel), std::move(strides), std::move(dilations), {}, {}, auto_pad};
}

TEST(ResolveConv, FillsTheWindow) {
  const auto conv = resolve_one<Conv>(Conv{}, {{2, 4, 9, 8}, {6, 4, 3, 2}});
  EXPECT_EQ(conv.shape, (Shape{2, 6, 7, 7}));
  EXPECT_THAT(conv.op.window.kernel, ElementsAre(3, 2));
  EXPECT_THAT(conv.op.window.strides, ElementsAre(1, 1));
  EXPECT_THAT(conv.op.window.pads_end, ElementsAre(0, 0));
}

TEST(ResolveConv, SamePadsWithStrideAndDilation) {
  // 7 inputs, stride 2: 4 outputs. The window covers 5: (4 - 1) * 2 + 5 - 7 = 4 elements of
  // padding. 8 inputs: 4 outputs, 3 elements of padding, the odd one at the end (upper) or at the
  // begin (lower).
  const auto upper = resolve_one<Conv>(Conv{window({}, {2, 2}, {2, 2}, AutoPad::kSameUpper)},
                                       {{1, 1, 7, 8}, {1, 1, 3, 3}});
  EXPECT_EQ(upper.shape, (Shape{1, 1, 4, 4}));
  EXPECT_THAT(upper.op.window.pads_begin, ElementsAre(2, 1));
  EXPECT_THAT(upper.op.window.pads_end, ElementsAre(2, 2));
  const auto lower = resolve_one<Conv>(Conv{window({}, {2, 2}, {2, 2}, AutoPad::kSameLower)},
                                       {{1, 1, 7, 8}, {1, 1, 3, 3}});
  EXPECT_THAT(lower.op.window.pads_begin, ElementsAre(2, 2));
  EXPECT_THAT(lower.op.window.pads_end, ElementsAre(2, 1));
  EXPECT_EQ(lower.op.window.auto_pad, AutoPad::kNotSet);
}

TEST(ResolveConv, SameNeverPadsLessThanNothing) {
  const auto conv =
      resolve_one<Conv>(Conv{window({}, {3}, {}, AutoPad::kSameUpper)}, {{1, 1, 9}, {1, 1, 1}});
  EXPECT_EQ(conv.shape, (Shape{1, 1, 3}));
  EXPECT_THAT(conv.op.window.pads_end, ElementsAre(0));
}

TEST(ResolveConv, RefusesWeightsThatDoNotFit) {
  const auto refused = [](const std::vector<Shape>& shapes, std::int64_t group) {
    return error_of([&] { resolve_one<Conv>(Conv{{}, group}, shapes); });
  };
  const Error channels = refused({{1, 4, 5, 5}, {6, 3, 3, 3}}, 1);
  EXPECT_EQ(channels.code, ErrorCode::kModelInvalid);
  EXPECT_THAT(channels.message, HasSubstr("node 'n0' (Conv)"));
  EXPECT_THAT(channels.message, HasSubstr("[6,3,3,3]"));
  EXPECT_EQ(refused({{1, 4, 5, 5}, {5, 2, 3, 3}}, 2).code, ErrorCode::kModelInvalid);
  EXPECT_EQ(refused({{1, 4, 5, 5}, {6, 4, 3}}, 1).code, ErrorCode::kModelInvalid);
  EXPECT_THAT(refused({{1, 4, 2, 5}, {6, 4, 3, 3}}, 1).message, HasSubstr("only 2"));
}

TEST(ResolveConvTranspose, OutputShapeBecomesPads) {
  // stride 3: (4 - 1) * 3 + 3 = 12 outputs without padding; 9 of them are wanted on one axis, 14 on
  // the other.
  ConvTranspose op;
  op.window.strides = {3, 3};
  op.output_shape = {9, 14};
  const auto resolved = resolve_one<ConvTranspose>(op, {{1, 2, 4, 4}, {2, 5, 3, 3}});
  EXPECT_EQ(resolved.shape, (Shape{1, 5, 9, 14}));
  EXPECT_THAT(resolved.op.window.pads_begin, ElementsAre(2, 0));  // the odd element at the begin
  EXPECT_THAT(resolved.op.window.pads_end, ElementsAre(1, 0));
  EXPECT_THAT(resolved.op.output_padding, ElementsAre(0, 2));
  EXPECT_TRUE(resolved.op.output_shape.empty());
}

TEST(ResolveConvTranspose, SameMeansInputTimesStride) {
  ConvTranspose op;
  op.window = window({}, {2}, {}, AutoPad::kSameUpper);
  const auto resolved = resolve_one<ConvTranspose>(op, {{1, 1, 5}, {1, 1, 3}});
  EXPECT_EQ(resolved.shape, (Shape{1, 1, 10}));
  EXPECT_THAT(resolved.op.window.pads_begin, ElementsAre(0));
  EXPECT_THAT(resolved.op.window.pads_end, ElementsAre(1));
}

TEST(ResolvePool, CeilModeNeedsAStartOnTheInput) {
  Pool pool{PoolFn::kMax, window({2}, {2})};
  EXPECT_EQ(resolve_one<Pool>(pool, {{1, 1, 5}}).shape, (Shape{1, 1, 2}));
  pool.ceil_mode = true;
  EXPECT_EQ(resolve_one<Pool>(pool, {{1, 1, 5}}).shape, (Shape{1, 1, 3}));
  pool.window = window({1}, {2});
  EXPECT_EQ(resolve_one<Pool>(pool, {{1, 1, 2}}).shape, (Shape{1, 1, 1}));
  pool.window = {{3}, {3}, {}, {1}, {1}};
  EXPECT_EQ(resolve_one<Pool>(pool, {{1, 1, 5}}).shape,
            (Shape{1, 1, 2}));  // a third one would start on the end's padding
}

TEST(ResolveReshape, ZeroCopiesAndMinusOneTakesTheRest) {
  EXPECT_EQ(resolve_one<Reshape>(Reshape{}, {{2, 3, 4}}, {ints({0, -1})}).shape, (Shape{2, 12}));
  EXPECT_EQ(resolve_one<Reshape>(Reshape{}, {{0, 3, 4}}, {ints({0, 0, 6})}).shape,
            (Shape{0, 3, 6}));
  EXPECT_EQ(resolve_one<Reshape>(Reshape{{}, true}, {{0, 3, 4}}, {ints({5, 0, 4})}).shape,
            (Shape{5, 0, 4}));
}

TEST(ResolveReshape, Contradictions) {
  const auto refused = [](Shape x, const Ints& dims, bool allow_zero) {
    return error_of(
        [&] { resolve_one<Reshape>(Reshape{{}, allow_zero}, {std::move(x)}, {ints(dims)}); });
  };
  EXPECT_EQ(refused({2, 3}, {4, -1}, false).code, ErrorCode::kModelInvalid);
  EXPECT_EQ(refused({2, 3}, {-1, -1}, false).code, ErrorCode::kModelInvalid);
  EXPECT_EQ(refused({2, 3}, {2, 3, 0}, false).code, ErrorCode::kModelInvalid);
  EXPECT_EQ(refused({2, 3}, {0, 6}, true).code, ErrorCode::kModelInvalid);
  EXPECT_EQ(refused({0, 3}, {0, -1}, true).code, ErrorCode::kModelInvalid);
  EXPECT_EQ(refused({2, 3}, {INT64_MAX, INT64_MAX, -1}, false).code, ErrorCode::kModelInvalid);
}

TEST(ResolveReshape, NeedsAConstantShape) {
  Net net;
  const ValueId x = net.input(counting({2, 3}));
  const ValueId shape = net.input(ints({3, 2}));
  net.output(net.node(Reshape{}, {x, shape}));
  const Error error = error_of([&] { net.resolve(); });
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_EQ(error.message,
            "node 'n0' (Reshape): the shape of 'v2' depends on the values of input 'x1', which are "
            "not constant");
}

TEST(ResolveSlice, ClampsAndFillsEveryAxis) {
  const auto slice = resolve_one<Slice>(
      Slice{}, {{10, 5, 7}},
      {ints({-3, 100}), ints({INT64_MAX, INT64_MIN}), ints({-1, 0}), ints({1, -3})});
  EXPECT_EQ(slice.shape, (Shape{4, 5, 3}));
  EXPECT_THAT(slice.op.starts, ElementsAre(9, 0, 4));
  EXPECT_THAT(slice.op.ends, ElementsAre(-1, 5, 7));
  EXPECT_THAT(slice.op.steps, ElementsAre(-3, 1, 1));
}

TEST(ResolveSlice, EmptyResults) {
  EXPECT_EQ(resolve_one<Slice>(Slice{{5}, {2}, {}, {}}, {{10}}).shape, (Shape{0}));
  EXPECT_EQ(resolve_one<Slice>(Slice{{0}, {9}, {}, {-1}}, {{0}}).shape, (Shape{0}));
  EXPECT_EQ(error_of([] { resolve_one<Slice>(Slice{{0}, {9}, {}, {0}}, {{3}}); }).code,
            ErrorCode::kModelInvalid);
}

TEST(ResolveSplit, UnevenPartsFromTheOutputs) {
  EXPECT_THAT(resolve_one<Split>(Split{}, {{7}}, {}, 3).op.sizes, ElementsAre(3, 3, 1));
  EXPECT_THAT(resolve_one<Split>(Split{-1, {}}, {{2, 4}}, {ints({1, 3})}, 2).op.sizes,
              ElementsAre(1, 3));
  EXPECT_EQ(error_of([] { resolve_one<Split>(Split{}, {{5}}, {ints({1, 3})}, 2); }).code,
            ErrorCode::kModelInvalid);
}

TEST(ResolveReduce, EmptyAxesMeanAllOrNone) {
  EXPECT_EQ(resolve_one<Reduce>(Reduce{}, {{2, 3}}).shape, (Shape{1, 1}));
  EXPECT_EQ(resolve_one<Reduce>(Reduce{ReduceFn::kSum, {}, true, true}, {{2, 3}}).shape,
            (Shape{2, 3}));
  EXPECT_THAT(
      resolve_one<Reduce>(Reduce{ReduceFn::kSum, {}, false}, {{2, 3, 4}}, {ints({-1, 0})}).op.axes,
      ElementsAre(0, 2));
  const auto spatial =
      resolve_one<Reduce>(Reduce{ReduceFn::kMean, {}, true, false, true}, {{2, 3, 4, 5}});
  EXPECT_EQ(spatial.shape, (Shape{2, 3, 1, 1}));
  EXPECT_THAT(spatial.op.axes, ElementsAre(2, 3));
}

TEST(ResolveAxes, SpelledAsReshape) {
  EXPECT_EQ(resolve_one<Reshape>(Flatten{-1}, {{2, 3, 4}}).shape, (Shape{6, 4}));
  EXPECT_EQ(resolve_one<Reshape>(Flatten{0}, {{2, 3}}).shape, (Shape{1, 6}));
  EXPECT_EQ(resolve_one<Reshape>(Squeeze{}, {{1, 3, 1}}).shape, (Shape{3}));
  EXPECT_EQ(resolve_one<Reshape>(Squeeze{}, {{1, 3, 1}}, {ints({-1})}).shape, (Shape{1, 3}));
  EXPECT_EQ(resolve_one<Reshape>(Unsqueeze{{-1, 0}}, {{3}}).shape, (Shape{1, 3, 1}));
  EXPECT_EQ(error_of([] { resolve_one<Reshape>(Squeeze{{1}}, {{1, 3}}); }).code,
            ErrorCode::kModelInvalid);
  EXPECT_EQ(error_of([] { resolve_one<Reshape>(Unsqueeze{{0, 0}}, {{3}}); }).code,
            ErrorCode::kModelInvalid);
}

TEST(ResolveClip, ConstantBoundsMakeOneUnary) {
  const auto clip = resolve_one<Unary>(Clip{}, {{4}}, {Tensor(), floats({}, {6})});
  EXPECT_EQ(clip.op.fn, UnaryFn::kClip);
  EXPECT_EQ(clip.op.alpha, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(clip.op.beta, 6);
  resolve_one<Identity>(Clip{}, {{4}});
}

TEST(ResolveClip, OtherBoundsMakeMaxAndMin) {
  Net net;
  const ValueId x = net.input(floats({3}, {-5, 0.5, 5}));
  const ValueId low = net.input(floats({}, {-1}));
  net.output(net.node(Clip{}, {x, low, net.constant(floats({}, {1}))}));
  EXPECT_THAT(testing::values(net.run()[0]), ElementsAre(-1, 0.5, 1));
  EXPECT_EQ(net.graph.order().size(), 2U);
  EXPECT_EQ(net.graph.node(0).as<Binary>()->fn, BinaryFn::kMin);
  EXPECT_EQ(net.graph.node(1).as<Binary>()->fn, BinaryFn::kMax);
  EXPECT_EQ(net.graph.node(1).id, "n0/2");
  EXPECT_THAT(net.graph.node(1).origins, ElementsAre("n0"));
}

TEST(ResolveSoftmax, FlattenIsSpelledOut) {
  Net net;
  const ValueId x = net.input(floats({2, 2, 2}, {0, 0, 0, 0, 1, 1, 1, 1}));
  net.output(net.node(Softmax{1, false, true}, {x}));
  const Tensor y = net.run()[0];
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
  EXPECT_THAT(testing::values(y), ::testing::Each(0.25));
  EXPECT_EQ(net.graph.order().size(), 3U);
}

TEST(ResolvePow, MixedTypesAreCast) {
  const Tensor base = make_tensor(DType::kInt32, {2}, Ints{4, 9});
  EXPECT_THAT(testing::values(testing::run(Binary{BinaryFn::kPow}, {base, floats({}, {0.5})}, 2)),
              ElementsAre(2, 3));
  EXPECT_THAT(testing::values(
                  testing::run(Binary{BinaryFn::kPow}, {floats({2}, {3, 0.5}), ints({2, -1})}, 2)),
              ElementsAre(9, 2));
}

TEST(ResolveResize, SizesAndScalesOfEveryAxis) {
  Resize by_scale;
  by_scale.scales = {1, 1, 0.7F, 2.5};
  EXPECT_EQ(resolve_one<Resize>(by_scale, {{1, 3, 10, 3}}).shape, (Shape{1, 3, 7, 7}));
  Resize by_size;
  by_size.axes = {-1, 2};
  by_size.sizes = {6, 20};
  const auto resized = resolve_one<Resize>(by_size, {{1, 3, 10, 3}});
  EXPECT_EQ(resized.shape, (Shape{1, 3, 20, 6}));
  EXPECT_THAT(resized.op.scales, ElementsAre(1, 1, 2, 2));
  by_size.aspect = AspectPolicy::kNotLarger;
  by_size.sizes = {9, 20};
  EXPECT_EQ(resolve_one<Resize>(by_size, {{1, 3, 10, 3}}).shape, (Shape{1, 3, 20, 6}));
  by_size.aspect = AspectPolicy::kNotSmaller;
  EXPECT_EQ(resolve_one<Resize>(by_size, {{1, 3, 10, 3}}).shape, (Shape{1, 3, 30, 9}));
}

TEST(ResolveGraph, ShapeArithmeticBecomesConstant) {
  Net net;
  const ValueId x = net.input(counting({2, 3, 4}));
  const ValueId shape = net.node(ShapeOf{}, {x});
  const ValueId batch = net.node(Gather{0}, {shape, net.constant(ints({0}))});
  const ValueId target = net.node(Concat{0}, {batch, net.constant(ints({-1}))});
  net.output(net.node(Reshape{}, {x, target}));
  EXPECT_EQ(net.run()[0].shape(), (Shape{2, 12}));
  EXPECT_EQ(net.graph.order().size(), 1U);
  ASSERT_EQ(net.graph.folded.size(), 3U);
  EXPECT_EQ(net.graph.folded[1].node, "n1");
  EXPECT_EQ(net.graph.folded[1].into, "constant");
}

TEST(ResolveGraph, LargeExpansionsStay) {
  Net net;
  const ValueId one = net.constant(floats({1}, {1}));
  const ValueId large = net.node(Expand{{std::int64_t{1} << 25}}, {one});
  const ValueId small = net.node(Expand{{4}}, {one});
  net.output(large);
  net.output(small);
  net.resolve();
  EXPECT_EQ(net.graph.order().size(), 1U);
  EXPECT_TRUE(net.graph.value(small).is_constant());
}

TEST(ResolveGraph, WantsConcreteInputs) {
  Net net;
  const ValueId x = net.input(counting({2, 3}));
  net.graph.value(x).shape = {-1, 3};
  net.graph.value(x).symbols = {"batch", ""};
  const Error error = error_of([&] { net.resolve(); });
  EXPECT_EQ(error.code, ErrorCode::kUsage);
  EXPECT_THAT(error.message, HasSubstr("'batch'"));
}

TEST(ResolveGraph, ChecksWhatNodesTake) {
  EXPECT_THAT(error_of([] { resolve_one<Conv>(Conv{}, {{1, 1, 3, 3}}); }).message,
              HasSubstr("has 1 inputs"));
  EXPECT_THAT(error_of([] { testing::run(Unary{UnaryFn::kSigmoid}, {ints({1})}); }).message,
              HasSubstr("int64"));
  EXPECT_THAT(error_of([] { testing::run(Binary{}, {ints({1}), floats({1}, {1})}); }).message,
              HasSubstr("float"));
  EXPECT_THAT(
      error_of([] { testing::run(Concat{1}, {counting({2, 2}), counting({3, 2})}); }).message,
      HasSubstr("only axis 1 may differ"));
  EXPECT_EQ(error_of([] { testing::run(MatMul{}, {counting({2, 3}), counting({2, 3})}); }).code,
            ErrorCode::kModelInvalid);
  EXPECT_EQ(error_of([] { testing::run(Transpose{{0, 0}}, {counting({2, 3})}); }).code,
            ErrorCode::kModelInvalid);
}

TEST(BroadcastShape, FollowsNumpy) {
  EXPECT_EQ(broadcast_shape({3, 1}, {2, 1, 4}, "x"), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shape({}, {2}, "x"), (Shape{2}));
  EXPECT_EQ(broadcast_shape({1}, {0}, "x"), (Shape{0}));
  EXPECT_EQ(error_of([] { broadcast_shape({2}, {3}, "node 'a'"); }).message,
            "node 'a': shapes [2] and [3] do not broadcast");
}

}  // namespace
}  // namespace braze
