// Elementary functions on vectors of floats. Compiled once per Highway target, hence the toggled
// guard.
//
// Each is within 3 units in the last place of the exact result (mish: 4; gelu and gelu_tanh: of x)
// wherever that is above 1e-36, and infinities, zeros and NaN give what they give in IEEE
// arithmetic. Polynomial coefficients are minimax fits on the stated interval.
#if defined(BRAZE_KERNELS_CPU_VECTOR_MATH_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef BRAZE_KERNELS_CPU_VECTOR_MATH_HPP
#undef BRAZE_KERNELS_CPU_VECTOR_MATH_HPP
#else
#define BRAZE_KERNELS_CPU_VECTOR_MATH_HPP
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {

using I32 = hn::RebindToSigned<F32>;
inline constexpr I32 kI32{};

HWY_INLINE Vec32 splat(float x) { return hn::Set(kF32, x); }
HWY_INLINE hn::Vec<I32> splat(std::int32_t i) { return hn::Set(kI32, i); }

/// c[0] + c[1] x + c[2] x^2 + ...
template <int N>
HWY_INLINE Vec32 polynomial(Vec32 x, const float (&c)[N]) {
  Vec32 sum = splat(c[N - 1]);
  unroll<N - 1>([&](auto i) BRAZE_INLINE { sum = hn::MulAdd(sum, x, splat(c[N - 2 - i])); });
  return sum;
}

/// The smaller and the larger of two; NaN if either is.
HWY_INLINE Vec32 min_nan(Vec32 a, Vec32 b) {
  return hn::IfThenElse(hn::IsNaN(a), a, min_keep_nan(b, a));
}
HWY_INLINE Vec32 max_nan(Vec32 a, Vec32 b) {
  return hn::IfThenElse(hn::IsNaN(a), a, max_keep_nan(b, a));
}

/// 2^n for -126 <= n <= 128; 2^128 is infinite, 2^-127 is zero.
HWY_INLINE Vec32 power_of_two(hn::Vec<I32> n) {
  return hn::BitCast(kF32, hn::ShiftLeft<23>(hn::Add(n, splat(127))));
}

/// x = n ln 2 + r with |r| <= ln 2 / 2, n an integer.
struct Reduced {
  Vec32 r;
  hn::Vec<I32> n;
};
HWY_INLINE Reduced reduce_by_ln2(Vec32 x) {
  const Vec32 n = hn::Round(hn::Mul(x, splat(1.44269504f)));
  Vec32 r = hn::NegMulAdd(n, splat(0.693359375f), x);  // exact: 9 bits
  r = hn::NegMulAdd(n, splat(-2.12194440e-4f), r);     // ln 2 - 0.693359375
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  // A cast of NaN is undefined there; r is NaN already.
  return {r, hn::ConvertTo(kI32, hn::IfThenElseZero(hn::Eq(n, n), n))};
#else
  return {r, hn::ConvertTo(kI32, n)};
#endif
}

/// e^r for |r| <= ln 2 / 2.
HWY_INLINE Vec32 exp_reduced(Vec32 r) {
  return polynomial(
      r, {1.0f, 1.0f, 0.499999940f, 0.166665196f, 0.0416683927f, 0.00836878084f, 0.00138144672f});
}

/// e^x.
HWY_INLINE Vec32 exp(Vec32 x) {
  const Reduced reduced =
      reduce_by_ln2(min_keep_nan(max_keep_nan(x, splat(-104.0f)), splat(89.0f)));
  const hn::Vec<I32> half = hn::ShiftRight<1>(reduced.n);  // two factors, so that both are normal
  const Vec32 y = hn::Mul(exp_reduced(reduced.r), power_of_two(half));
  return hn::Mul(y, power_of_two(hn::Sub(reduced.n, half)));
}

/// e^x for x < 88.37; infinite above, at least 2^-126 below. Half the scaling of exp().
HWY_INLINE Vec32 exp_coarse_range(Vec32 x) {
  const Reduced reduced =
      reduce_by_ln2(min_keep_nan(max_keep_nan(x, splat(-87.336544f)), splat(88.8f)));
  return hn::Mul(exp_reduced(reduced.r), power_of_two(reduced.n));
}

/// e^x - 1 for x < 88; e^88 - 1 above.
HWY_INLINE Vec32 expm1(Vec32 x) {
  const Reduced reduced = reduce_by_ln2(min_keep_nan(max_keep_nan(x, splat(-20.0f)), splat(88.0f)));
  const Vec32 r = reduced.r;  // e^x - 1 = 2^n (e^r - 1) + (2^n - 1)
  const Vec32 q =
      polynomial(r, {0.499999970f, 0.166665435f, 0.0416672006f, 0.00836658012f, 0.00138825097f});
  const Vec32 p = hn::MulAdd(hn::Mul(r, r), q, r);
  const Vec32 scale = power_of_two(reduced.n);
  return hn::MulAdd(scale, p, hn::Sub(scale, splat(1.0f)));
}

/// log(1 + f) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1, plus e ln 2.
HWY_INLINE Vec32 log1p_reduced(Vec32 f, Vec32 e) {
  const Vec32 f2 = hn::Mul(f, f);
  Vec32 y = hn::Mul(hn::Mul(f2, f),
                    polynomial(f, {0.333333313f, -0.250008196f, 0.200012267f, -0.166233569f,
                                   0.142017573f, -0.131601825f, 0.127615780f, -0.0763449743f}));
  y = hn::MulAdd(e, splat(-2.12194440e-4f), y);
  y = hn::NegMulAdd(splat(0.5f), f2, y);
  return hn::MulAdd(e, splat(0.693359375f), hn::Add(f, y));
}

/// Natural logarithm.
HWY_INLINE Vec32 log(Vec32 x) {
  const auto tiny = hn::Lt(x, splat(1.17549435e-38f));  // also x <= 0
  const Vec32 scaled = hn::IfThenElse(tiny, hn::Mul(x, splat(8388608.0f)), x);
  constexpr std::int32_t kRootHalf = 0x3f3504f3;  // bits of sqrt(1/2)
  const auto bits = hn::Sub(hn::BitCast(kI32, scaled), splat(kRootHalf));
  const Vec32 mantissa =
      hn::BitCast(kF32, hn::Add(hn::And(bits, splat(0x7fffff)), splat(kRootHalf)));
  Vec32 e = hn::ConvertTo(kF32, hn::ShiftRight<23>(bits));
  e = hn::Sub(e, hn::IfThenElseZero(tiny, splat(23.0f)));
  Vec32 y = log1p_reduced(hn::Sub(mantissa, splat(1.0f)), e);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  y = hn::IfThenElse(hn::Lt(x, splat(kInf)), y, x);  // infinity and NaN stay
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(kF32)), splat(-kInf), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(kF32)), splat(std::numeric_limits<float>::quiet_NaN()),
                        y);
}

/// log(1 + x) for 0 <= x <= 1.
HWY_INLINE Vec32 log1p_unit(Vec32 x) {
  const auto upper = hn::Gt(x, splat(0.414213562f));  // log(1 + x) = log(1 + (x - 1) / 2) + ln 2
  const Vec32 f = hn::IfThenElse(upper, hn::Mul(hn::Sub(x, splat(1.0f)), splat(0.5f)), x);
  return log1p_reduced(f, hn::IfThenElseZero(upper, splat(1.0f)));
}

/// 1 / (1 + e^-x); zero for x < -88.37.
HWY_INLINE Vec32 sigmoid(Vec32 x) {
  return hn::Div(splat(1.0f), hn::Add(splat(1.0f), exp_coarse_range(hn::Neg(x))));
}

/// x / (1 + e^-x); zero for x < -88.37.
HWY_INLINE Vec32 silu(Vec32 x) {
  return hn::Div(x, hn::Add(splat(1.0f), exp_coarse_range(hn::Neg(x))));
}

HWY_INLINE Vec32 tanh(Vec32 x) {
  const Vec32 a = hn::Abs(x);
  const Vec32 z = hn::Mul(x, x);
  const Vec32 p =
      polynomial(z, {-0.333332807f, 0.133314416f, -0.0537397154f, 0.0206390880f, -0.00570498733f});
  const Vec32 small = hn::MulAdd(hn::Mul(z, p), x, x);  // |x| < 0.625
  const Vec32 e = exp_coarse_range(hn::Add(a, a));
  const Vec32 large = hn::Sub(splat(1.0f), hn::Div(splat(2.0f), hn::Add(e, splat(1.0f))));
  return hn::IfThenElse(hn::Lt(a, splat(0.625f)), small, hn::CopySignToAbs(large, x));
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
HWY_INLINE Vec32 softplus(Vec32 x) {
  return hn::Add(max_keep_nan(x, hn::Zero(kF32)), log1p_unit(exp(hn::Neg(hn::Abs(x)))));
}

/// x tanh(log(1 + e^x)) = x m / (m + 2) with m = e^x (e^x + 2)
HWY_INLINE Vec32 mish(Vec32 x) {
  const Vec32 e = exp(min_keep_nan(x, splat(20.0f)));
  const Vec32 m = hn::Mul(e, hn::Add(e, splat(2.0f)));
  return hn::Mul(x, hn::Div(m, hn::Add(m, splat(2.0f))));
}

HWY_INLINE Vec32 erf(Vec32 x) {
  const Vec32 a = hn::Abs(x);
  const Vec32 p = polynomial(hn::Mul(x, x), {0.128379151f, -0.376124799f, 0.112816826f,
                                             -0.0267617218f, 0.00498594390f, -0.000595375388f});
  const Vec32 small = hn::MulAdd(p, x, x);  // |x| < 0.93
  // 1 - erf(a) = e^-(a + a q(a)) for 0.92 < a < 4.1, where erf reaches 1.
  const Vec32 t = min_keep_nan(a, splat(4.1f));
  const Vec32 q = polynomial(t, {0.128514364f, 0.635718286f, 0.105261840f, -0.0228899643f,
                                 0.00321496556f, -0.000213984953f});
  const Vec32 large = hn::Sub(splat(1.0f), exp_coarse_range(hn::Neg(hn::MulAdd(q, t, t))));
  return hn::IfThenElse(hn::Lt(a, splat(0.925f)), small, hn::CopySignToAbs(large, x));
}

/// x / 2 (1 + erf(x / sqrt(2))); below zero the error is relative to x, not to the result.
HWY_INLINE Vec32 gelu(Vec32 x) {
  const Vec32 half = hn::Mul(x, splat(0.5f));
  return hn::MulAdd(half, erf(hn::Mul(x, splat(0.707106781f))), half);
}

/// x / 2 (1 + tanh(u)) = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3)
HWY_INLINE Vec32 gelu_tanh(Vec32 x) {
  const Vec32 u2 = hn::Mul(x, hn::MulAdd(hn::Mul(x, x), splat(0.0713548163f), splat(1.59576912f)));
  return hn::Div(x, hn::Add(splat(1.0f), exp_coarse_range(hn::Neg(u2))));
}

/// Lane by lane: for functions that are rare and that the C library does well.
template <class F>
HWY_INLINE Vec32 by_lane(F f, Vec32 a, Vec32 b) {
  alignas(64) float x[kLanes];
  alignas(64) float y[kLanes];
  hn::Store(a, kF32, x);
  hn::Store(b, kF32, y);
  for (int i = 0; i < kLanes; ++i) x[i] = f(x[i], y[i]);
  return hn::Load(kF32, x);
}

/// Highway's sine and cosine reduce their argument well up to this.
inline constexpr float kLargestAngle = 39000.0f;
HWY_INLINE bool small_angles(Vec32 x) {
  return hn::AllTrue(kF32, hn::Le(hn::Abs(x), splat(kLargestAngle)));
}
HWY_INLINE Vec32 sin(Vec32 x) {
  if (small_angles(x)) return hn::Sin(kF32, x);
  return by_lane([](float a, float) { return std::sin(a); }, x, x);
}
HWY_INLINE Vec32 cos(Vec32 x) {
  if (small_angles(x)) return hn::Cos(kF32, x);
  return by_lane([](float a, float) { return std::cos(a); }, x, x);
}

}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
