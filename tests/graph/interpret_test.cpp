// The reference against values computed by hand.
#include "graph/net.hpp"

namespace braze {
namespace {

using testing::counting;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::error_of;
using testing::Floats;
using testing::floats;
using testing::ints;
using ::testing::IsNan;
using testing::Net;
using ::testing::Pointwise;
using testing::run;
using testing::values;

const double kNan = std::nan("");

MATCHER(Near, "") {
  if (std::get<0>(arg) == std::get<1>(arg)) return true;
  return std::fabs(std::get<0>(arg) - std::get<1>(arg)) <= 1e-6 * (1 + std::fabs(std::get<1>(arg)));
}

void expect_values(const Tensor& tensor, const Shape& shape, const Floats& expected) {
  EXPECT_EQ(tensor.shape(), shape);
  EXPECT_THAT(values(tensor), Pointwise(Near(), expected));
}

Window window(Ints kernel, Ints strides = {}, Ints begin = {}, Ints end = {}) {
  return {std::move(kernel), std::move(strides), {}, std::move(begin), std::move(end)};
}

TEST(InterpretUnary, NanStaysNan) {
  for (const UnaryFn fn :
       {UnaryFn::kRelu, UnaryFn::kClip, UnaryFn::kHardSigmoid, UnaryFn::kHardSwish,
        UnaryFn::kLeakyRelu, UnaryFn::kMish, UnaryFn::kElu, UnaryFn::kSign}) {
    EXPECT_TRUE(std::isnan(evaluate(Unary{fn, 0, 1}, kNan))) << to_string(fn);
  }
  EXPECT_THAT(values(run(Unary{UnaryFn::kIsNaN}, {floats({2}, {kNan, 1})})), ElementsAre(1, 0));
}

TEST(InterpretUnary, Values) {
  EXPECT_DOUBLE_EQ(evaluate(Unary{UnaryFn::kHardSwish}, 1), 1 * (1.0 / 6 + 0.5));
  EXPECT_DOUBLE_EQ(evaluate(Unary{UnaryFn::kHardSigmoid, 0.2, 0.5}, -1), 0.3);
  EXPECT_DOUBLE_EQ(evaluate(Unary{UnaryFn::kClip, 2, 1}, 5), 1);  // the upper bound wins
  EXPECT_DOUBLE_EQ(evaluate(Unary{UnaryFn::kSilu}, 2), 2 / (1 + std::exp(-2.0)));
  EXPECT_NEAR(evaluate(Unary{UnaryFn::kMish}, 1), 0.86509838826731, 1e-12);
  EXPECT_NEAR(evaluate(Unary{UnaryFn::kGelu}, 1), 0.84134474606854, 1e-12);
  EXPECT_NEAR(evaluate(Unary{UnaryFn::kGeluTanh}, 1), 0.84119199060827, 1e-12);
  EXPECT_DOUBLE_EQ(evaluate(Unary{UnaryFn::kSoftplus}, 1000), 1000);
  EXPECT_DOUBLE_EQ(evaluate(Unary{UnaryFn::kRound}, 2.5), 2);
  EXPECT_DOUBLE_EQ(evaluate(Unary{UnaryFn::kThresholdedRelu, 1}, 1), 0);
  EXPECT_DOUBLE_EQ(evaluate(Unary{UnaryFn::kSelu, 2, 3}, -1), 3 * 2 * std::expm1(-1.0));
}

TEST(InterpretUnary, IntegersWrap) {
  const Tensor x = make_tensor(DType::kInt8, {3}, Ints{-128, -3, 5});
  EXPECT_THAT(values(run(Unary{UnaryFn::kAbs}, {x})), ElementsAre(-128, 3, 5));
  EXPECT_THAT(values(run(Unary{UnaryFn::kNeg}, {x})), ElementsAre(-128, 3, -5));
  EXPECT_THAT(values(run(Unary{UnaryFn::kRelu}, {x})), ElementsAre(0, 0, 5));
  EXPECT_THAT(values(run(Unary{UnaryFn::kClip, -4, INFINITY}, {x})), ElementsAre(-4, -3, 5));
}

TEST(InterpretBinary, BroadcastsBothWays) {
  expect_values(run(Binary{BinaryFn::kSub}, {counting({2, 1}), counting({3})}, 2), {2, 3},
                {0, -1, -2, 1, 0, -1});
}

TEST(InterpretBinary, SignsOfModulo) {
  const Tensor a = make_tensor(DType::kInt32, {4}, Ints{-7, 7, -7, 7});
  const Tensor b = make_tensor(DType::kInt32, {4}, Ints{3, -3, -3, 0});
  EXPECT_THAT(values(run(Binary{BinaryFn::kMod}, {a, b}, 2)), ElementsAre(2, -2, -1, 0));
  EXPECT_THAT(values(run(Binary{BinaryFn::kFMod}, {a, b}, 2)), ElementsAre(-1, 1, -1, 0));
  EXPECT_THAT(values(run(Binary{BinaryFn::kDiv}, {a, b}, 2)), ElementsAre(-2, -2, 2, 0));
  EXPECT_DOUBLE_EQ(evaluate(BinaryFn::kFMod, -7.5, 2), -1.5);
  EXPECT_DOUBLE_EQ(evaluate(BinaryFn::kMod, -7.5, 2), 0.5);
}

TEST(InterpretBinary, NanWinsMaxAndMin) {
  for (const BinaryFn fn : {BinaryFn::kMax, BinaryFn::kMin}) {
    EXPECT_TRUE(std::isnan(evaluate(fn, kNan, 1)));
    EXPECT_TRUE(std::isnan(evaluate(fn, 1, kNan)));
  }
  EXPECT_EQ(evaluate(BinaryFn::kMax, 1, 2), 2);
  EXPECT_EQ(evaluate(BinaryFn::kMin, 1, 2), 1);
}

TEST(InterpretBinary, IntegerPowersAndOverflow) {
  const Tensor a = make_tensor(DType::kInt32, {4}, Ints{3, -1, 2, 65536});
  const Tensor b = make_tensor(DType::kInt32, {4}, Ints{4, -3, -1, 2});
  EXPECT_THAT(values(run(Binary{BinaryFn::kPow}, {a, b}, 2)), ElementsAre(81, -1, 0, 0));
  const Tensor most = make_tensor(DType::kInt64, {1}, Ints{INT64_MAX});
  EXPECT_EQ(load<std::int64_t>(run(Binary{BinaryFn::kAdd}, {most, ints({1})}, 2))[0], INT64_MIN);
  const Tensor big = make_tensor(DType::kUInt64, {1}, std::vector<std::uint64_t>{UINT64_MAX});
  const Tensor one = make_tensor(DType::kUInt64, {1}, std::vector<std::uint64_t>{1});
  EXPECT_EQ(values(run(Binary{BinaryFn::kGreater}, {big, one}, 2))[0], 1);
}

TEST(InterpretWhere, BroadcastsThree) {
  const Tensor condition = make_tensor(DType::kBool, {2, 1}, Ints{1, 0});
  expect_values(run(Where{}, {condition, counting({3}), floats({}, {9})}, 3), {2, 3},
                {0, 1, 2, 9, 9, 9});
}

TEST(InterpretConv, PaddedStridedWithBias) {
  // x 0..8 as 3x3, a 2x2 window of ones, stride 2, one row and column of padding before.
  const Conv conv{window({}, {2, 2}, {1, 1}, {0, 0})};
  expect_values(
      run(conv, {counting({1, 1, 3, 3}), floats({1, 1, 2, 2}, {1, 1, 1, 1}), floats({1}, {10})}),
      {1, 1, 2, 2}, {10, 13, 19, 34});
}

TEST(InterpretConv, GroupsAndDilation) {
  Conv conv;
  conv.group = 2;
  conv.window.dilations = {2};
  // Each group has one channel and two filters.
  const Tensor w = floats({4, 1, 2}, {1, 0, 0, 1, 1, 1, 1, -1});
  expect_values(run(conv, {counting({1, 2, 4}), w}), {1, 4, 2}, {0, 1, 2, 3, 10, 12, -2, -2});
}

TEST(InterpretConv, ThreeSpatialAxes) {
  const Tensor w = floats({1, 1, 2, 2, 2}, Floats(8, 1));
  expect_values(run(Conv{}, {counting({1, 1, 2, 2, 3}), w}), {1, 1, 1, 1, 2},
                {0 + 1 + 3 + 4 + 6 + 7 + 9 + 10, 48});
}

TEST(InterpretConv, NegativePadsCrop) {
  const Conv conv{window({}, {}, {-1}, {0})};
  expect_values(run(conv, {counting({1, 1, 4}), floats({1, 1, 2}, {1, 10})}), {1, 1, 2}, {21, 32});
}

TEST(InterpretConv, HalfIsRoundedOnce) {
  // 2048 + 1 + 1 is exact in double; rounding each sum to half would give 2048.
  const Tensor x = make_tensor(DType::kFloat16, {1, 3, 1}, Floats{2048, 1, 1});
  const Tensor w = make_tensor(DType::kFloat16, {1, 3, 1}, Floats{1, 1, 1});
  EXPECT_EQ(values(run(Conv{}, {x, w}))[0], 2050);
}

TEST(InterpretConvTranspose, SpreadsEachElement) {
  ConvTranspose op;
  op.window.strides = {2};
  op.output_padding = {1};
  expect_values(run(op, {floats({1, 1, 2}, {1, 2}), floats({1, 2, 3}, {1, 10, 100, 1, 0, 0})}),
                {1, 2, 6}, {1, 10, 102, 20, 200, 0, 1, 0, 2, 0, 0, 0});
}

TEST(InterpretConvTranspose, GroupsAndPads) {
  ConvTranspose op;
  op.group = 2;
  op.window.pads_begin = {1};
  op.window.pads_end = {0};
  expect_values(run(op, {floats({1, 2, 2}, {1, 2, 3, 4}), floats({2, 1, 2}, {1, 1, 1, 10}),
                         floats({2}, {0, 1})}),
                {1, 2, 2}, {3, 2, 35, 41});
}

TEST(InterpretQLinearConv, PerChannelZeroPoints) {
  const Tensor x = make_tensor(DType::kUInt8, {1, 1, 2}, Ints{130, 126});
  const Tensor w = make_tensor(DType::kInt8, {2, 1, 1}, Ints{3, -5});
  const auto byte = [](std::int64_t v) { return make_tensor(DType::kUInt8, {}, Ints{v}); };
  const Tensor w_zero = make_tensor(DType::kInt8, {2}, Ints{1, -1});
  const Tensor bias = make_tensor(DType::kInt32, {2}, Ints{0, 1});
  // (x - 128) * (w - w_zero): 2 * 2, -2 * 2; 2 * -4 + 1, -2 * -4 + 1; times 0.5 * {0.5, 1} / 0.5,
  // plus 100.
  const Tensor y = run(QLinearConv{}, {x, floats({}, {0.5}), byte(128), w, floats({2}, {0.5, 1}),
                                       w_zero, floats({}, {0.5}), byte(100), bias});
  EXPECT_EQ(y.dtype(), DType::kUInt8);
  EXPECT_THAT(values(y), ElementsAre(102, 98, 93, 109));
}

TEST(InterpretQuantize, RoundsHalfToEvenAndSaturates) {
  const Tensor zero = make_tensor(DType::kUInt8, {}, Ints{10});
  EXPECT_THAT(
      values(run(Quantize{}, {floats({5}, {0.5, 1.5, -0.5, 1000, -1000}), floats({}, {1}), zero})),
      ElementsAre(10, 12, 10, 255, 0));
  const Quantize per_axis{1, DType::kInt8};
  EXPECT_THAT(values(run(per_axis, {floats({1, 2, 2}, {1, 2, 1, 2}), floats({2}, {1, 0.5})})),
              ElementsAre(1, 2, 2, 4));
}

TEST(InterpretDequantize, PerAxis) {
  const Tensor x = make_tensor(DType::kInt8, {2, 2}, Ints{1, 2, 3, 4});
  const Tensor zero = make_tensor(DType::kInt8, {2}, Ints{0, 1});
  EXPECT_THAT(values(run(Dequantize{0}, {x, floats({2}, {2, 10}), zero})),
              ElementsAre(2, 4, 20, 30));
}

TEST(InterpretMatMul, BatchesAndVectors) {
  expect_values(run(MatMul{}, {counting({2, 1, 1, 2}), counting({2, 2, 1})}, 2), {2, 2, 1, 1},
                {1, 3, 3, 13});
  expect_values(run(MatMul{}, {counting({3}), counting({3, 2})}, 2), {2}, {10, 13});
  expect_values(run(MatMul{}, {counting({2}), counting({2})}, 2), {}, {1});
}

TEST(InterpretGemm, TransposedWithBias) {
  const Gemm gemm{2, 0.5, true, true};
  expect_values(run(gemm, {counting({2, 1}), counting({3, 2}), floats({3}, {2, 4, 6})}, 3), {1, 3},
                {3, 8, 13});
}

TEST(InterpretNorm, BatchAndInstance) {
  const Tensor x = floats({1, 2, 2}, {1, 3, 5, 5});
  expect_values(run(BatchNorm{0}, {x, floats({2}, {2, 1}), floats({2}, {0, 1}), floats({2}, {1, 5}),
                                   floats({2}, {4, 1})}),
                {1, 2, 2}, {0, 2, 1, 1});
  expect_values(
      run(InstanceNorm{0}, {floats({1, 1, 2}, {1, 3}), floats({1}, {2}), floats({1}, {1})}),
      {1, 1, 2}, {-1, 3});
}

TEST(InterpretLrn, EvenSizesReachUp) {
  const Lrn lrn{2, 2, 1, 1};  // x_c / (1 + x_c^2 + x_(c+1)^2)
  expect_values(run(lrn, {floats({1, 3, 1}, {1, 2, 3})}), {1, 3, 1}, {1.0 / 6, 2.0 / 14, 3.0 / 10});
}

TEST(InterpretSoftmax, InnerAxisAndLog) {
  expect_values(run(Softmax{0}, {floats({2, 2}, {0, 1000, 0, 1000})}), {2, 2},
                {0.5, 0.5, 0.5, 0.5});
  expect_values(run(Softmax{-1, true}, {floats({2}, {0, std::log(3.0)})}), {2},
                {std::log(0.25), std::log(0.75)});
}

TEST(InterpretPool, MaxWithIndices) {
  Net net;
  Pool pool{PoolFn::kMax, window({2, 2}, {1, 1})};
  pool.column_major_indices = true;
  const auto made = net.nodes(pool, {net.input(floats({1, 1, 2, 3}, {1, 5, 2, 5, 0, 7}))}, 2);
  for (const ValueId value : made) net.output(value);
  const auto results = net.run();
  EXPECT_THAT(values(results[0]), ElementsAre(5, 7));
  EXPECT_THAT(values(results[1]),
              ElementsAre(2, 5));  // row 0, column 1 of two rows; row 1, column 2
}

TEST(InterpretPool, MaxKeepsNan) {
  const Pool pool{PoolFn::kMax, window({2})};
  EXPECT_THAT(values(run(pool, {floats({1, 1, 4}, {1, kNan, 2, 3})})),
              ElementsAre(IsNan(), IsNan(), 3));
}

TEST(InterpretPool, AverageCountsPadding) {
  Pool pool{PoolFn::kAverage, window({3}, {3}, {1}, {1})};
  const Tensor x = floats({1, 1, 6}, {1, 1, 1, 1, 1, 1});
  expect_values(run(pool, {x}), {1, 1, 2}, {1, 1});
  pool.count_include_pad = true;
  expect_values(run(pool, {x}), {1, 1, 2}, {2.0 / 3, 1});
  pool.ceil_mode = true;  // the third window has one element on the input and one on its padding
  expect_values(run(pool, {x}), {1, 1, 3}, {2.0 / 3, 1, 0.5});
}

TEST(InterpretReduce, EachFunction) {
  const Tensor x = floats({2, 2}, {1, -2, 3, 4});
  const auto rows = [&](ReduceFn fn) { return values(run(Reduce{fn, {1}, false}, {x})); };
  EXPECT_THAT(rows(ReduceFn::kMean), ElementsAre(-0.5, 3.5));
  EXPECT_THAT(rows(ReduceFn::kSum), ElementsAre(-1, 7));
  EXPECT_THAT(rows(ReduceFn::kMax), ElementsAre(1, 4));
  EXPECT_THAT(rows(ReduceFn::kMin), ElementsAre(-2, 3));
  EXPECT_THAT(rows(ReduceFn::kProd), ElementsAre(-2, 12));
  EXPECT_THAT(rows(ReduceFn::kL1), ElementsAre(3, 7));
  EXPECT_THAT(rows(ReduceFn::kL2), ElementsAre(DoubleNear(std::sqrt(5.0), 1e-6), 5));
  EXPECT_THAT(rows(ReduceFn::kSumSquare), ElementsAre(5, 25));
  EXPECT_THAT(rows(ReduceFn::kLogSum)[1], DoubleNear(std::log(7.0), 1e-6));
  EXPECT_THAT(rows(ReduceFn::kLogSumExp)[1], DoubleNear(4 + std::log1p(std::exp(-1.0)), 1e-6));
  expect_values(run(Reduce{ReduceFn::kLogSumExp, {}}, {floats({2}, {-INFINITY, -INFINITY})}), {1},
                {-INFINITY});
}

TEST(InterpretReduce, IntegersAndOuterAxes) {
  const Tensor x = make_tensor(DType::kInt32, {2, 2}, Ints{1, -2, 4, -5});
  EXPECT_THAT(values(run(Reduce{ReduceFn::kMean, {0}}, {x})), ElementsAre(2, -3));  // towards zero
  EXPECT_THAT(values(run(Reduce{ReduceFn::kL1, {0}}, {x})), ElementsAre(5, 7));
}

TEST(InterpretArgReduce, Ties) {
  const Tensor x = floats({4}, {1, 3, 3, 0});
  EXPECT_THAT(values(run(ArgReduce{true}, {x})), ElementsAre(1));
  EXPECT_THAT(values(run(ArgReduce{true, 0, true, true}, {x})), ElementsAre(2));
  EXPECT_THAT(values(run(ArgReduce{false, -1, false}, {x})), ElementsAre(3));
}

TEST(InterpretMovement, ConcatSplitSlice) {
  expect_values(run(Concat{1}, {counting({2, 1}), counting({2, 2})}, 2), {2, 3},
                {0, 0, 1, 1, 2, 3});
  expect_values(run(Slice{{-1, 0}, {INT64_MIN, 2}, {1, 0}, {-2, 1}}, {counting({2, 3})}), {2, 2},
                {2, 0, 5, 3});
  Net net;
  const auto parts = net.nodes(Split{1, {1, 2}}, {net.input(counting({2, 3}))}, 2);
  for (const ValueId part : parts) net.output(part);
  const auto results = net.run();
  expect_values(results[0], {2, 1}, {0, 3});
  expect_values(results[1], {2, 2}, {1, 2, 4, 5});
}

TEST(InterpretMovement, PadModes) {
  const Tensor x = floats({3}, {1, 2, 3});
  const auto padded = [&](PadMode mode, Ints pads) {
    return values(run(Pad{mode, std::move(pads), 9}, {x}));
  };
  EXPECT_THAT(padded(PadMode::kConstant, {1, 2}), ElementsAre(9, 1, 2, 3, 9, 9));
  EXPECT_THAT(padded(PadMode::kEdge, {2, 1}), ElementsAre(1, 1, 1, 2, 3, 3));
  EXPECT_THAT(padded(PadMode::kReflect, {2, 2}), ElementsAre(3, 2, 1, 2, 3, 2, 1));
  EXPECT_THAT(padded(PadMode::kReflect, {4, 0}), ElementsAre(1, 2, 3, 2, 1, 2, 3));
  EXPECT_THAT(padded(PadMode::kWrap, {4, 1}), ElementsAre(3, 1, 2, 3, 1, 2, 3, 1));
  EXPECT_THAT(padded(PadMode::kConstant, {-1, 1}), ElementsAre(2, 3, 9));
  EXPECT_THAT(padded(PadMode::kEdge, {-1, 1}), ElementsAre(2, 3, 3));
  EXPECT_THAT(padded(PadMode::kConstant, {-1, -2}), ElementsAre());
}

TEST(InterpretMovement, PadNamesAxes) {
  const Tensor y = run(Pad{}, {counting({2, 2}), ints({1, 0}), floats({}, {7}), ints({-1})});
  expect_values(y, {2, 3}, {7, 0, 1, 7, 2, 3});
}

TEST(InterpretMovement, TransposeGatherExpandTile) {
  expect_values(run(Transpose{}, {counting({2, 3})}), {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_values(run(Transpose{{1, 2, 0}}, {counting({2, 1, 2})}), {1, 2, 2}, {0, 2, 1, 3});
  expect_values(run(Gather{1}, {counting({2, 3}), ints({-1, 0})}, 2), {2, 2}, {2, 0, 5, 3});
  expect_values(run(Gather{0}, {counting({3}), make_tensor(DType::kInt32, {}, Ints{1})}, 2), {},
                {1});
  expect_values(run(Expand{{2, 1, 1}}, {counting({2, 1})}), {2, 2, 1}, {0, 1, 0, 1});
  expect_values(run(Tile{{2, 2}}, {counting({1, 2})}), {2, 4}, {0, 1, 0, 1, 0, 1, 0, 1});
  EXPECT_EQ(error_of([] { run(Gather{0}, {counting({3}), ints({3})}, 2); }).code,
            ErrorCode::kInput);
}

TEST(InterpretImage, DepthAndSpace) {
  const Tensor x = counting({1, 8, 1, 1});
  expect_values(run(DepthToSpace{2}, {x}), {1, 2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7});
  expect_values(run(DepthToSpace{2, true}, {x}), {1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_values(run(SpaceToDepth{2}, {counting({1, 2, 2, 2})}), {1, 8, 1, 1},
                {0, 4, 1, 5, 2, 6, 3, 7});
  expect_values(run(ChannelShuffle{2}, {counting({1, 6, 1, 1})}), {1, 6, 1, 1}, {0, 3, 1, 4, 2, 5});
}

Tensor resized(Resize op, const Floats& x, std::int64_t size) {
  op.sizes = {1, 1, size};
  return run(op, {floats({1, 1, std::ssize(x)}, x)});
}

TEST(InterpretResize, NearestRounding) {
  Resize op;
  op.coordinate = CoordinateMode::kAsymmetric;
  const auto chosen = [&](NearestMode mode) {
    op.nearest = mode;
    return values(resized(op, {0, 1}, 4));  // coordinates 0, 0.5, 1, 1.5
  };
  EXPECT_THAT(chosen(NearestMode::kRoundPreferFloor), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(chosen(NearestMode::kRoundPreferCeil), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(chosen(NearestMode::kFloor), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(chosen(NearestMode::kCeil), ElementsAre(0, 1, 1, 1));
}

TEST(InterpretResize, NearestCoordinatesAreFloats) {
  Resize op;
  op.coordinate = CoordinateMode::kAsymmetric;
  op.nearest = NearestMode::kFloor;
  op.scales = {1.6F};
  EXPECT_EQ(values(run(op, {counting({10})}))[8], 5);
}

TEST(InterpretResize, LinearCoordinates) {
  Resize op;
  op.mode = ResizeMode::kLinear;
  const auto with = [&](CoordinateMode mode, const Floats& x, std::int64_t size) {
    op.coordinate = mode;
    return values(resized(op, x, size));
  };
  EXPECT_THAT(with(CoordinateMode::kHalfPixel, {0, 4}, 4), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(with(CoordinateMode::kAsymmetric, {0, 4}, 4), ElementsAre(0, 2, 4, 4));
  EXPECT_THAT(with(CoordinateMode::kAlignCorners, {0, 3}, 4),
              Pointwise(Near(), Floats{0, 1, 2, 3}));
  EXPECT_THAT(with(CoordinateMode::kPytorchHalfPixel, {7, 4}, 1), ElementsAre(7));
  EXPECT_THAT(with(CoordinateMode::kHalfPixel, {7, 4}, 1), ElementsAre(5.5));
}

TEST(InterpretResize, CropExtrapolates) {
  Resize op;
  op.mode = ResizeMode::kLinear;
  op.coordinate = CoordinateMode::kTfCropAndResize;
  op.extrapolation = -1;
  op.roi = {0, 0, 0.5, 1, 1, 1.5};
  // From half of the axis to one and a half: coordinates 2, 4, 6 of 0..4.
  EXPECT_THAT(values(resized(op, {0, 1, 2, 3, 4}, 3)), ElementsAre(2, 4, -1));
}

TEST(InterpretResize, CubicKeepsConstantsAndNodes) {
  Resize op;
  op.mode = ResizeMode::kCubic;
  EXPECT_THAT(values(resized(op, {2, 2, 2}, 7)), ::testing::Each(DoubleNear(2, 1e-6)));
  op.coordinate = CoordinateMode::kAlignCorners;
  const auto y = values(resized(op, {1, 5, 2}, 5));
  EXPECT_DOUBLE_EQ(y[0], 1);
  EXPECT_DOUBLE_EQ(y[2], 5);
  // Halfway: weights -0.09375, 0.59375, 0.59375, -0.09375 with the border repeated.
  EXPECT_NEAR(y[1], -0.09375 * 1 + 0.59375 * (1 + 5) - 0.09375 * 2, 1e-6);
}

TEST(InterpretResize, AntialiasAverages) {
  Resize op;
  op.mode = ResizeMode::kLinear;
  op.antialias = true;
  op.exclude_outside = true;
  // Two elements merge into one: triangles of half-width 2 around 0.5 and 2.5 over 0..3.
  EXPECT_THAT(
      values(resized(op, {0, 1, 2, 3}, 2)),
      Pointwise(Near(), Floats{(0.75 + 2 * 0.25) / 1.75, (0.25 + 2 * 0.75 + 3 * 0.75) / 1.75}));
}

TEST(InterpretGenerate, FoldsToConstants) {
  Net net;
  const ValueId shape = net.constant(ints({2, 2}));
  net.output(net.node(ConstantOfShape{make_tensor(DType::kInt32, {1}, Ints{7})}, {shape}));
  const auto scalar = [&](std::int64_t v) {
    return net.constant(make_tensor(DType::kInt64, {}, Ints{v}));
  };
  net.output(net.node(Range{}, {scalar(5), scalar(-1), scalar(-3)}));
  const auto results = net.run();
  EXPECT_EQ(results[0].dtype(), DType::kInt32);
  expect_values(results[0], {2, 2}, {7, 7, 7, 7});
  expect_values(results[1], {2}, {5, 2});
  EXPECT_TRUE(net.graph.order().empty());
}

TEST(InterpretGraph, ChecksItsInputs) {
  Net net;
  net.output(net.node(Unary{}, {net.input(counting({2}))}));
  net.resolve();
  EXPECT_EQ(error_of([&] { interpret(net.graph, {}); }).code, ErrorCode::kInput);
  const std::vector<Tensor> wrong = {counting({3})};
  EXPECT_EQ(error_of([&] { interpret(net.graph, wrong); }).message,
            "input 'x0' is float[3], expected float[2]");
}

TEST(InterpretGraph, AllValues) {
  Net net;
  const ValueId x = net.input(counting({2}));
  const ValueId middle = net.node(Unary{UnaryFn::kNeg}, {x});
  net.output(net.node(Unary{UnaryFn::kAbs}, {middle}));
  net.resolve();
  const std::vector<Tensor> inputs = {counting({2})};
  const auto all = interpret_all(net.graph, inputs);
  EXPECT_THAT(values(all[static_cast<std::size_t>(middle)]), ElementsAre(0, -1));
}

}  // namespace
}  // namespace braze
