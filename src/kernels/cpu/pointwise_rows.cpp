#include "kernels/cpu/pointwise_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pointwise_rows.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <algorithm>
#include <cmath>
#include "kernels/cpu/isa.hpp"

#include "kernels/cpu/simd.hpp"
#include "kernels/cpu/vector_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

// One struct per function: a call operator, and how many vectors to have in flight.
constexpr int kLight = 4;  // a few instructions: bound by loads and stores
constexpr int kHeavy = 2;  // a polynomial: bound by arithmetic, long enough to fill the pipeline
constexpr int kRare = 1;   // lane by lane

#define BRAZE_UNARY(Name, weight, ...)                                 \
  struct Name {                                                        \
    static constexpr int kUnroll = weight;                             \
    Vec32 alpha, beta;                                                 \
    HWY_INLINE Vec32 operator()(Vec32 x) const { return __VA_ARGS__; } \
  };

HWY_INLINE Vec32 zero() { return hn::Zero(kF32); }
HWY_INLINE Vec32 one() { return splat(1.0f); }
HWY_INLINE Vec32 clamp_unit(Vec32 x) { return min_keep_nan(max_keep_nan(x, zero()), one()); }
HWY_INLINE Vec32 if_negative(Vec32 x, Vec32 then, Vec32 otherwise) {
  return hn::IfThenElse(hn::Lt(x, zero()), then, otherwise);
}

BRAZE_UNARY(FnRelu, kLight, max_keep_nan(x, zero()))
BRAZE_UNARY(FnLeakyRelu, kLight, if_negative(x, hn::Mul(alpha, x), x))
BRAZE_UNARY(FnClip, kLight, min_keep_nan(max_keep_nan(x, alpha), beta))
BRAZE_UNARY(FnSigmoid, kHeavy, sigmoid(x))
BRAZE_UNARY(FnHardSigmoid, kLight, clamp_unit(hn::MulAdd(alpha, x, beta)))
BRAZE_UNARY(FnHardSwish, kLight,
            hn::Mul(x, clamp_unit(hn::MulAdd(x, splat(1.0f / 6.0f), splat(0.5f)))))
BRAZE_UNARY(FnSilu, kHeavy, silu(x))
BRAZE_UNARY(FnMish, kHeavy, mish(x))
BRAZE_UNARY(FnGelu, kHeavy, gelu(x))
BRAZE_UNARY(FnGeluTanh, kHeavy, gelu_tanh(x))
BRAZE_UNARY(FnTanh, kHeavy, tanh(x))
BRAZE_UNARY(FnElu, kHeavy, if_negative(x, hn::Mul(alpha, expm1(x)), x))
BRAZE_UNARY(FnSelu, kHeavy, hn::Mul(beta, if_negative(x, hn::Mul(alpha, expm1(x)), x)))
BRAZE_UNARY(FnCelu, kHeavy,
            hn::Add(max_keep_nan(x, zero()),
                    min_keep_nan(hn::Mul(alpha, expm1(hn::Div(x, alpha))), zero())))
BRAZE_UNARY(FnSoftplus, kHeavy, softplus(x))
BRAZE_UNARY(FnSoftsign, kLight, hn::Div(x, hn::Add(one(), hn::Abs(x))))
BRAZE_UNARY(FnThresholdedRelu, kLight, hn::IfThenElseZero(hn::Gt(x, alpha), x))
BRAZE_UNARY(FnErf, kHeavy, erf(x))
BRAZE_UNARY(FnExp, kHeavy, exp(x))
BRAZE_UNARY(FnLog, kHeavy, log(x))
BRAZE_UNARY(FnSqrt, kLight, hn::Sqrt(x))
BRAZE_UNARY(FnAbs, kLight, hn::Abs(x))
BRAZE_UNARY(FnNeg, kLight, hn::Neg(x))
BRAZE_UNARY(FnReciprocal, kLight, hn::Div(one(), x))
BRAZE_UNARY(FnFloor, kLight, hn::Floor(x))
BRAZE_UNARY(FnCeil, kLight, hn::Ceil(x))
BRAZE_UNARY(FnRound, kLight, hn::Round(x))
BRAZE_UNARY(FnSign, kLight,  // zeros and NaN stay
            hn::IfThenElse(hn::Gt(hn::Abs(x), zero()), hn::CopySignToAbs(one(), x), x))
BRAZE_UNARY(FnSin, kRare, sin(x))
BRAZE_UNARY(FnCos, kRare, cos(x))
#undef BRAZE_UNARY

#define BRAZE_BINARY(Name, weight, ...)                                         \
  struct Name {                                                                 \
    static constexpr int kUnroll = weight;                                      \
    HWY_INLINE Vec32 operator()(Vec32 a, Vec32 b) const { return __VA_ARGS__; } \
  };

HWY_INLINE bool all_equal(Vec32 v, float x) { return hn::AllTrue(kF32, hn::Eq(v, splat(x))); }
HWY_INLINE Vec32 power(Vec32 a, Vec32 b) {
  if (all_equal(b, 2.0f)) return hn::Mul(a, a);
  if (all_equal(b, 3.0f)) return hn::Mul(hn::Mul(a, a), a);
  if (all_equal(b, 0.5f) && hn::AllTrue(kF32, hn::Gt(a, zero()))) return hn::Sqrt(a);
  return by_lane([](float x, float y) { return std::pow(x, y); }, a, b);
}
inline float floor_modulo(float a, float b) {
  const float r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

BRAZE_BINARY(FnAdd, kLight, hn::Add(a, b))
BRAZE_BINARY(FnSub, kLight, hn::Sub(a, b))
BRAZE_BINARY(FnMul, kLight, hn::Mul(a, b))
BRAZE_BINARY(FnDiv, kLight, hn::Div(a, b))
BRAZE_BINARY(FnPow, kRare, power(a, b))
BRAZE_BINARY(FnMod, kRare, by_lane(floor_modulo, a, b))
BRAZE_BINARY(FnFMod, kRare, by_lane([](float x, float y) { return std::fmod(x, y); }, a, b))
BRAZE_BINARY(FnMin, kLight, min_nan(a, b))
BRAZE_BINARY(FnMax, kLight, max_nan(a, b))
BRAZE_BINARY(FnPRelu, kLight, if_negative(a, hn::Mul(b, a), a))
#undef BRAZE_BINARY

template <class F>
struct Swap {
  static constexpr int kUnroll = F::kUnroll;
  HWY_INLINE Vec32 operator()(Vec32 a, Vec32 b) const { return F()(b, a); }
};

/// y[c] = eval(load(c)) for c < cols. All loads of a vector come before its store, and the last
/// vector, which overlaps the one before it, is loaded first of all: y may be an input.
template <int kUnroll, class Load, class LoadN, class Eval>
HWY_INLINE void map_row(std::int64_t cols, float* y, const Load& load, const LoadN& load_first,
                        const Eval& eval) {
  if (cols < kLanes) {
    store_n(eval(load_first(static_cast<std::size_t>(cols))), kF32, y,
            static_cast<std::size_t>(cols));
    return;
  }
  const auto last = load(cols - kLanes);
  std::int64_t c = 0;
  for (; c + kUnroll * kLanes <= cols; c += kUnroll * kLanes) {
    std::remove_const_t<decltype(last)> in[kUnroll];
    unroll<kUnroll>([&](auto i) BRAZE_INLINE { in[i] = load(c + i * kLanes); });
    unroll<kUnroll>([&](auto i)
                        BRAZE_INLINE { hn::StoreU(eval(in[i]), kF32, y + c + i * kLanes); });
  }
  if constexpr (kUnroll > 1) {
    for (; c + kLanes <= cols; c += kLanes) hn::StoreU(eval(load(c)), kF32, y + c);
  }
  if (c < cols) hn::StoreU(eval(last), kF32, y + cols - kLanes);
}

template <class F>
void map_unary(RowShape shape, const float* x, std::int64_t x_row, float* y, std::int64_t y_row,
               float alpha, float beta) {
  const F f{splat(alpha), splat(beta)};
  if (x_row == shape.cols && y_row == shape.cols) shape = {1, shape.rows * shape.cols};
  for (std::int64_t r = 0; r < shape.rows; ++r, x += x_row, y += y_row) {
    map_row<F::kUnroll>(
        shape.cols, y, [&](std::int64_t c) BRAZE_INLINE { return hn::LoadU(kF32, x + c); },
        [&](std::size_t n) BRAZE_INLINE { return load_n(kF32, x, n); }, f);
  }
}

template <class F, bool kPerRow>
void map_binary(RowShape shape, const float* a, std::int64_t a_row, const float* b,
                std::int64_t b_row, float* y, std::int64_t y_row, Clamp clamp) {
  const Vec32 lo = splat(clamp.lo), hi = splat(clamp.hi);
  const auto f = [&](Vec32 p, Vec32 q)
                     BRAZE_INLINE { return min_keep_nan(max_keep_nan(F()(p, q), lo), hi); };
  if (a_row == shape.cols && y_row == shape.cols && b_row == (kPerRow ? 0 : shape.cols)) {
    shape = {1, shape.rows * shape.cols};
  }
  for (std::int64_t r = 0; r < shape.rows; ++r, a += a_row, b += b_row, y += y_row) {
    if constexpr (kPerRow) {
      const Vec32 q = splat(*b);
      map_row<F::kUnroll>(
          shape.cols, y, [&](std::int64_t c) BRAZE_INLINE { return hn::LoadU(kF32, a + c); },
          [&](std::size_t n) BRAZE_INLINE { return load_n(kF32, a, n); },
          [&](Vec32 p) BRAZE_INLINE { return f(p, q); });
    } else {
      struct Pair {
        Vec32 p, q;
      };
      map_row<F::kUnroll>(
          shape.cols, y,
          [&](std::int64_t c)
              BRAZE_INLINE { return Pair{hn::LoadU(kF32, a + c), hn::LoadU(kF32, b + c)}; },
          [&](std::size_t n) BRAZE_INLINE { return Pair{load_n(kF32, a, n), load_n(kF32, b, n)}; },
          [&](const Pair& pair) BRAZE_INLINE { return f(pair.p, pair.q); });
    }
  }
}

UnaryRows find_unary(UnaryFn fn) {
#define BRAZE_CASE(Name) \
  case UnaryFn::k##Name: \
    return map_unary<Fn##Name>;
  switch (fn) {
    BRAZE_CASE(Relu)
    BRAZE_CASE(LeakyRelu)
    BRAZE_CASE(Clip)
    BRAZE_CASE(Sigmoid)
    BRAZE_CASE(HardSigmoid)
    BRAZE_CASE(HardSwish)
    BRAZE_CASE(Silu)
    BRAZE_CASE(Mish)
    BRAZE_CASE(Gelu)
    BRAZE_CASE(GeluTanh)
    BRAZE_CASE(Tanh)
    BRAZE_CASE(Elu)
    BRAZE_CASE(Selu)
    BRAZE_CASE(Celu)
    BRAZE_CASE(Softplus)
    BRAZE_CASE(Softsign)
    BRAZE_CASE(ThresholdedRelu)
    BRAZE_CASE(Erf)
    BRAZE_CASE(Exp)
    BRAZE_CASE(Log)
    BRAZE_CASE(Sqrt)
    BRAZE_CASE(Abs)
    BRAZE_CASE(Neg)
    BRAZE_CASE(Reciprocal)
    BRAZE_CASE(Floor)
    BRAZE_CASE(Ceil)
    BRAZE_CASE(Round)
    BRAZE_CASE(Sign)
    BRAZE_CASE(Sin)
    BRAZE_CASE(Cos)
    default:
      return nullptr;
  }
#undef BRAZE_CASE
}

template <class F>
BinaryRows choose(bool per_row) {
  return per_row ? map_binary<F, true> : map_binary<F, false>;
}

constexpr bool commutes(BinaryFn fn) {
  return fn == BinaryFn::kAdd || fn == BinaryFn::kMul || fn == BinaryFn::kMin ||
         fn == BinaryFn::kMax;
}

BinaryRows find_binary(BinaryFn fn, bool swapped, bool per_row) {
#define BRAZE_CASE(Name)                                                                      \
  case BinaryFn::k##Name:                                                                     \
    if (commutes(BinaryFn::k##Name) || !swapped) return choose<Fn##Name>(per_row);            \
    return choose<std::conditional_t<commutes(BinaryFn::k##Name), Fn##Name, Swap<Fn##Name>>>( \
        per_row);
  switch (fn) {
    BRAZE_CASE(Add)
    BRAZE_CASE(Sub)
    BRAZE_CASE(Mul)
    BRAZE_CASE(Div)
    BRAZE_CASE(Pow)
    BRAZE_CASE(Mod)
    BRAZE_CASE(FMod)
    BRAZE_CASE(Min)
    BRAZE_CASE(Max)
    BRAZE_CASE(PRelu)
    default:
      return nullptr;
  }
#undef BRAZE_CASE
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {

HWY_EXPORT(find_unary);
HWY_EXPORT(find_binary);

UnaryRows unary_rows(UnaryFn fn) { return BRAZE_DISPATCH(find_unary)(fn); }

BinaryRows binary_rows(BinaryFn fn, bool swapped, bool per_row) {
  return BRAZE_DISPATCH(find_binary)(fn, swapped, per_row);
}

Clamp compose(const Clamp& first, const Clamp& second) {
  const auto then = [&second](float x) { return std::min(std::max(x, second.lo), second.hi); };
  return {then(first.lo), then(first.hi)};
}

std::optional<Clamp> as_clamp(const Unary& unary) {
  if (unary.fn == UnaryFn::kRelu) return Clamp{0, std::numeric_limits<float>::infinity()};
  if (unary.fn != UnaryFn::kClip || std::isnan(unary.alpha) || std::isnan(unary.beta)) {
    return std::nullopt;
  }
  return Clamp{static_cast<float>(unary.alpha), static_cast<float>(unary.beta)};
}

void BinaryTile::operator()(RowShape shape, const float* x, std::int64_t x_row, const float* b,
                            std::int64_t b_row, std::int64_t b_col, float* y, std::int64_t y_row,
                            Clamp clamp) const noexcept {
  if (b_col == 0) {
    per_row_(shape, x, x_row, b, b_row, y, y_row, clamp);
    return;
  }
  constexpr std::int64_t kScratch = 256;
  float scratch[kScratch];
  if (b_col == 1) {
    const std::int64_t copies = kScratch / shape.cols;
    if (b_row == 0 && x_row == shape.cols && y_row == shape.cols && copies > 1 &&
        shape.rows > 2 * copies) {
      // Short rows, the same operand for each: several at a time.
      for (std::int64_t i = 0; i < copies; ++i)
        std::copy_n(b, shape.cols, scratch + i * shape.cols);
      const RowShape wide{shape.rows / copies, copies * shape.cols};
      beside_(wide, x, wide.cols, scratch, 0, y, wide.cols, clamp);
      x += wide.rows * wide.cols;
      y += wide.rows * wide.cols;
      shape.rows -= wide.rows * copies;
    }
    beside_(shape, x, x_row, b, b_row, y, y_row, clamp);
    return;
  }
  for (std::int64_t begin = 0; begin < shape.cols; begin += kScratch) {  // brought side by side
    const std::int64_t cols = std::min(kScratch, shape.cols - begin);
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      if (r == 0 || b_row != 0) {
        for (std::int64_t c = 0; c < cols; ++c) scratch[c] = b[r * b_row + (begin + c) * b_col];
      }
      beside_({1, cols}, x + r * x_row + begin, cols, scratch, cols, y + r * y_row + begin, cols,
              clamp);
    }
  }
}

}  // namespace braze::cpu
#endif  // HWY_ONCE
