// The closed set of operators. An operator is a struct of typed attributes; a node holds one of
// them.
//
// Several ONNX operators share one struct (Unary, Binary, Reduce, ...), others are spelled with
// simpler ones by the model reader (GlobalAveragePool is a Reduce, Sum a chain of Binary
// additions). Operators marked "resolved" below may arrive from a model with their parameters as
// extra inputs (Reshape's shape, Slice's starts); resolve() moves constant ones into the attributes
// and drops the inputs, so that everything after passes/resolve sees one form only.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "braze/tensor.hpp"

namespace braze {

using Ints = std::vector<std::int64_t>;

/// y = f(x), element by element. alpha and beta are the function's parameters where it has any.
enum class UnaryFn : std::uint8_t {
  kRelu,         // max(x, 0); NaN stays NaN
  kLeakyRelu,    // x < 0 ? alpha * x : x
  kClip,         // min(max(x, alpha), beta); NaN stays NaN; a missing bound is -inf or inf
  kSigmoid,      // 1 / (1 + exp(-x))
  kHardSigmoid,  // max(0, min(1, alpha * x + beta))
  kHardSwish,    // x * max(0, min(1, x / 6 + 0.5))
  kSilu,         // x * sigmoid(x)
  kMish,         // x * tanh(softplus(x))
  kGelu,         // x / 2 * (1 + erf(x / sqrt(2)))
  kGeluTanh,     // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
  kTanh,
  kElu,              // x < 0 ? alpha * (exp(x) - 1) : x
  kSelu,             // beta * (x < 0 ? alpha * (exp(x) - 1) : x)
  kCelu,             // max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
  kSoftplus,         // log(1 + exp(x))
  kSoftsign,         // x / (1 + |x|)
  kThresholdedRelu,  // x > alpha ? x : 0
  kErf,
  kExp,
  kLog,
  kSqrt,
  kAbs,
  kNeg,
  kReciprocal,
  kFloor,
  kCeil,
  kRound,  // half to even
  kSign,
  kSin,
  kCos,
  kNot,    // bool
  kIsNaN,  // bool result
};

/// y = f(a, b), element by element, both broadcast to the output's shape as in numpy.
enum class BinaryFn : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,  // integers: towards zero
  kPow,
  kMod,    // sign of the divisor (Python's %)
  kFMod,   // sign of the dividend (C's fmod)
  kMin,    // NaN wins
  kMax,    // NaN wins
  kPRelu,  // a < 0 ? b * a : a
  kEqual,  // comparisons: bool result
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kAnd,  // bool
  kOr,
  kXor,
};

enum class AutoPad : std::uint8_t { kNotSet, kValid, kSameUpper, kSameLower };

/// Sliding window over the spatial axes (1 to 3 of them), outermost first. resolve() fills every
/// vector with one entry per spatial axis and turns auto_pad into pads.
struct Window {
  Ints kernel;
  Ints strides;
  Ints dilations;
  Ints pads_begin;
  Ints pads_end;
  AutoPad auto_pad = AutoPad::kNotSet;
};

struct Unary {  // x
  UnaryFn fn = UnaryFn::kRelu;
  double alpha = 0;
  double beta = 0;
};
struct Clip {};  // x, min?, max?: as read; resolve() makes it a Unary kClip, or Binary kMax and
                 // kMin where a bound is not constant
struct Binary {  // a, b
  BinaryFn fn = BinaryFn::kAdd;
};
struct Where {};  // condition, a, b
struct Cast {     // x
  DType to = DType::kFloat32;
};
struct Identity {};  // x

struct Conv {  // x [N,C,...], w [K,C/group,...], bias? [K]
  Window window;
  std::int64_t group = 1;
};
struct ConvTranspose {  // x [N,C,...], w [C,K/group,...], bias? [K]
  Window window;
  Ints output_padding;
  Ints output_shape;  // empty once resolved
  std::int64_t group = 1;
};
struct QLinearConv {  // x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias? (int32)
  Window window;
  std::int64_t group = 1;
};
struct Quantize {  // x, scale, zero? -> saturate(round(x / scale) + zero); the output's dtype is
                   // zero's, else `to`
  std::int64_t axis = 1;
  DType to = DType::kUInt8;
};
struct Dequantize {  // x, scale, zero? -> (x - zero) * scale
  std::int64_t axis = 1;
};
struct MatMul {};  // a, b: numpy's matmul
struct Gemm {      // a, b, c?: alpha * op(a) * op(b) + beta * c
  double alpha = 1;
  double beta = 1;
  bool trans_a = false;
  bool trans_b = false;
};

struct BatchNorm {  // x, scale, bias, mean, variance (inference form; others are refused by the
                    // reader)
  double epsilon = 1e-5;
};
struct InstanceNorm {  // x, scale, bias
  double epsilon = 1e-5;
};
struct Lrn {  // x
  std::int64_t size = 1;
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
};
struct Softmax {  // x
  std::int64_t axis = -1;
  bool log = false;
  bool flatten =
      false;  // opset < 13: over all axes from `axis` on; resolve() spells it with Reshape
};

enum class PoolFn : std::uint8_t { kMax, kAverage };
struct Pool {  // x -> y, indices? (kMax only, int64). kMax: NaN wins; of equal elements the first
  PoolFn fn = PoolFn::kMax;
  Window window;
  bool ceil_mode = false;
  bool count_include_pad = false;
  bool column_major_indices = false;  // storage_order = 1
};

enum class ReduceFn : std::uint8_t {
  kMean,
  kSum,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
  kSumSquare
};
struct Reduce {  // x, axes? (resolved: non-negative, ascending; none only where no axis is reduced)
  ReduceFn fn = ReduceFn::kMean;
  Ints axes;
  bool keepdims = true;
  bool noop_with_empty_axes = false;
  bool spatial = false;  // global pools: axes 2 and up, whatever the rank; resolve() fills axes
};
struct ArgReduce {  // x -> int64
  bool max = true;
  std::int64_t axis = 0;
  bool keepdims = true;
  bool select_last = false;
};

struct Concat {  // x...
  std::int64_t axis = 0;
};
struct Split {  // x, sizes? -> one output per part (resolved: sizes filled)
  std::int64_t axis = 0;
  Ints sizes;
};
struct Slice {  // x, starts?, ends?, axes?, steps? (resolved: axes empty, the others one entry per
                // axis of x, clamped; ends exclusive, -1 with a negative step means "through
                // element 0")
  Ints starts;
  Ints ends;
  Ints axes;
  Ints steps;
};
enum class PadMode : std::uint8_t { kConstant, kReflect, kEdge, kWrap };
struct Pad {  // x, pads?, value?, axes? (resolved: begin of every axis, then end of every axis;
              // negative values crop)
  PadMode mode = PadMode::kConstant;
  Ints pads;
  double value = 0;
};
struct Reshape {  // x, shape? (resolved: dims are the output's shape)
  Ints dims;
  bool allow_zero = false;
};
struct Flatten {  // x; resolve() makes it a Reshape
  std::int64_t axis = 1;
};
struct Squeeze {  // x, axes?; resolve() makes it a Reshape
  Ints axes;
};
struct Unsqueeze {  // x, axes?; resolve() makes it a Reshape
  Ints axes;
};
struct Transpose {  // x; output axis i is input axis perm[i]
  Ints perm;
};
struct ShapeOf {  // x -> int64 [rank]; always folded
  std::int64_t start = 0;
  std::int64_t end = INT64_MAX;
};
struct SizeOf {};  // x -> int64 scalar; always folded
struct Gather {    // x, indices
  std::int64_t axis = 0;
};
struct Expand {  // x, shape? (resolved: dims are the output's shape)
  Ints dims;
};
struct Tile {  // x, repeats? (resolved: one entry per axis)
  Ints repeats;
};
struct ConstantOfShape {  // shape; always folded
  Tensor value;           // one element
};
struct Range {};  // start, limit, delta; always folded

enum class ResizeMode : std::uint8_t { kNearest, kLinear, kCubic };
enum class CoordinateMode : std::uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,
  kTfCropAndResize,
};
enum class NearestMode : std::uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
enum class AspectPolicy : std::uint8_t { kStretch, kNotLarger, kNotSmaller };
struct Resize {  // x, roi?, scales?, sizes? (resolved: scales and sizes have one entry per axis,
                 // roi two; sizes are the output's)
  ResizeMode mode = ResizeMode::kNearest;
  CoordinateMode coordinate = CoordinateMode::kHalfPixel;
  NearestMode nearest = NearestMode::kRoundPreferFloor;
  AspectPolicy aspect = AspectPolicy::kStretch;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation = 0;
  Ints axes;
  std::vector<double> roi;
  std::vector<double> scales;
  Ints sizes;
};
struct DepthToSpace {  // x
  std::int64_t block = 1;
  bool column_row_depth = false;  // mode CRD
};
struct SpaceToDepth {  // x
  std::int64_t block = 1;
};
struct ChannelShuffle {  // x: channel g * (C / groups) + i becomes channel i * groups + g
                         // (recomposed, never read)
  std::int64_t groups = 1;
};

/// The one list of operators: the enum, the variant and every per-operator table expand it.
#define BRAZE_OPS(OP) \
  OP(Unary)           \
  OP(Clip)            \
  OP(Binary)          \
  OP(Where)           \
  OP(Cast)            \
  OP(Identity)        \
  OP(Conv)            \
  OP(ConvTranspose)   \
  OP(QLinearConv)     \
  OP(Quantize)        \
  OP(Dequantize)      \
  OP(MatMul)          \
  OP(Gemm)            \
  OP(BatchNorm)       \
  OP(InstanceNorm)    \
  OP(Lrn)             \
  OP(Softmax)         \
  OP(Pool)            \
  OP(Reduce)          \
  OP(ArgReduce)       \
  OP(Concat)          \
  OP(Split)           \
  OP(Slice)           \
  OP(Pad)             \
  OP(Reshape)         \
  OP(Flatten)         \
  OP(Squeeze)         \
  OP(Unsqueeze)       \
  OP(Transpose)       \
  OP(ShapeOf)         \
  OP(SizeOf)          \
  OP(Gather)          \
  OP(Expand)          \
  OP(Tile)            \
  OP(ConstantOfShape) \
  OP(Range)           \
  OP(Resize)          \
  OP(DepthToSpace)    \
  OP(SpaceToDepth)    \
  OP(ChannelShuffle)

enum class OpKind : std::uint8_t {
#define BRAZE_ENUM(Name) k##Name,
  BRAZE_OPS(BRAZE_ENUM)
#undef BRAZE_ENUM
};

namespace detail {
template <class First, class... Rest>
struct DropFirst {
  using Type = std::variant<Rest...>;
};
}  // namespace detail

#define BRAZE_TYPE(Name) , Name
using Attributes = detail::DropFirst<void BRAZE_OPS(BRAZE_TYPE)>::Type;
#undef BRAZE_TYPE

/// "Conv", "Pool", ...
const char* to_string(OpKind kind);
/// "relu", "clip", ...
const char* to_string(UnaryFn fn);
/// "add", "mul", ...
const char* to_string(BinaryFn fn);
const char* to_string(ReduceFn fn);
const char* to_string(AutoPad mode);
const char* to_string(PoolFn fn);
const char* to_string(PadMode mode);
const char* to_string(ResizeMode mode);
const char* to_string(CoordinateMode mode);
const char* to_string(NearestMode mode);
const char* to_string(AspectPolicy policy);

}  // namespace braze
