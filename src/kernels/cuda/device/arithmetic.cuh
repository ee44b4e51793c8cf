// Element-wise functions of integers and doubles, as the interpreter has them: integers wrap,
// division by zero gives 0. C is i64, u64 or double. Those of floats are in math.cuh.
#pragma once

#include "braze/device.cuh"

namespace braze::device {

template <class C>
struct Integer {
  static constexpr bool kSigned = kSame<C, i64>;

  static __device__ C wrap(u64 bits) { return static_cast<C>(bits); }
  static __device__ bool is_minus_one(C x) { return kSigned && x == static_cast<C>(-1); }

  static __device__ C add(C a, C b) { return wrap(static_cast<u64>(a) + static_cast<u64>(b)); }
  static __device__ C sub(C a, C b) { return wrap(static_cast<u64>(a) - static_cast<u64>(b)); }
  static __device__ C mul(C a, C b) { return wrap(static_cast<u64>(a) * static_cast<u64>(b)); }
  static __device__ C div(C a, C b) {
    if (b == 0) return 0;
    return is_minus_one(b) ? neg(a) : static_cast<C>(a / b);
  }
  static __device__ C fmodf(C a, C b) {
    return b == 0 || is_minus_one(b) ? 0 : static_cast<C>(a % b);
  }
  /// The sign of the divisor.
  static __device__ C mod(C a, C b) {
    const C rest = fmodf(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? add(rest, b) : rest;
  }
  /// A negative power is 0 unless the base is 1 or -1.
  static __device__ C powf(C base, C exponent) {
    if (kSigned && exponent < 0) {
      if (base == 1) return 1;
      return is_minus_one(base) ? (exponent % 2 == 0 ? C{1} : base) : C{0};
    }
    u64 result = 1, square = static_cast<u64>(base);
    for (u64 rest = static_cast<u64>(exponent); rest != 0; rest >>= 1) {
      if ((rest & 1) != 0) result *= square;
      square *= square;
    }
    return wrap(result);
  }
  static __device__ C minimum(C a, C b) { return b < a ? b : a; }
  static __device__ C maximum(C a, C b) { return a < b ? b : a; }
  static __device__ C prelu(C a, C slope) { return a < 0 ? mul(a, slope) : a; }

  static __device__ C neg(C x) { return wrap(0 - static_cast<u64>(x)); }
  static __device__ C relu(C x) { return x < 0 ? C{0} : x; }
  static __device__ C fabsf(C x) { return x < 0 ? neg(x) : x; }
  static __device__ C sign(C x) { return static_cast<C>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0)); }
  static __device__ C clip(C x, C low, C high) { return minimum(maximum(x, low), high); }
};

/// The functions of doubles that kernels run; others are left to the host.
struct Double {
  static __device__ double add(double a, double b) { return a + b; }
  static __device__ double sub(double a, double b) { return a - b; }
  static __device__ double mul(double a, double b) { return a * b; }
  static __device__ double div(double a, double b) { return a / b; }
  static __device__ double powf(double a, double b) { return pow(a, b); }
  static __device__ double fmodf(double a, double b) { return fmod(a, b); }
  static __device__ double mod(double a, double b) {
    const double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  static __device__ double minimum(double a, double b) { return a != a || a < b ? a : b; }
  static __device__ double maximum(double a, double b) { return a != a || a > b ? a : b; }
  static __device__ double prelu(double a, double slope) { return a < 0 ? slope * a : a; }

  static __device__ double neg(double x) { return -x; }
  static __device__ double relu(double x) { return x < 0 ? 0.0 : x; }
  static __device__ double fabsf(double x) { return fabs(x); }
  static __device__ double sign(double x) { return x > 0 ? 1.0 : (x < 0 ? -1.0 : x); }
  static __device__ double clip(double x, double low, double high) {
    if (x != x) return x;
    const double y = x < low ? low : x;
    return y > high ? high : y;
  }
};

/// clamp(round(x / scale) + zero), the quotient rounded to float first
__device__ __forceinline__ double quantize(float x, float scale, double zero, double low,
                                           double high) {
  const double y = static_cast<double>(rintf(x / scale)) + zero;
  return y < low ? low : (y > high ? high : y);
}
__device__ __forceinline__ float dequantize(i64 x, float scale, i64 zero) {
  return static_cast<float>(static_cast<double>(x - zero) * static_cast<double>(scale));
}

}  // namespace braze::device
