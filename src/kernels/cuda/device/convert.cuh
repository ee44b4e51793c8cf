// Elements of every dtype, converted as ONNX's Cast does: floats round once to nearest even,
// integers wrap, what does not fit an integer becomes the least one of 32 or 64 bits.
#pragma once

#include "braze/types.cuh"

namespace braze::device {

/// A stored bool: any byte but 0 is true.
struct bool8 {
  unsigned char byte;
};

template <class T>
inline constexpr bool kIs16Bit = kSame<T, half> || kSame<T, bfloat16>;
template <class T>
inline constexpr bool kIsFloating = kSame<T, float> || kSame<T, double>;

/// x rounded to odd: rounding that to 16 bits is as good as rounding x.
__device__ __forceinline__ float to_odd(double x) {
  const float y = static_cast<float>(x);
  if (x != x || static_cast<double>(y) == x) return y;
  u32 bits = __float_as_uint(y);
  const double magnitude = x < 0 ? -x : x, rounded = x < 0 ? -static_cast<double>(y) : y;
  if (rounded > magnitude) --bits;
  return __uint_as_float(bits | 1u);
}

/// The integer nearest to zero.
template <class To>
__device__ __forceinline__ To truncate(double x) {
  if constexpr (kSame<To, u64>) {
    if (x >= 9223372036854775808.0 && x < 18446744073709551616.0) return static_cast<To>(x);
  }
  if constexpr (sizeof(To) < 4 || kSame<To, int>) {
    const bool fits = x > -2147483649.0 && x < 2147483648.0;
    return static_cast<To>(fits ? static_cast<int>(x) : -2147483647 - 1);
  } else {
    const bool fits = x >= -9223372036854775808.0 && x < 9223372036854775808.0;
    return static_cast<To>(fits ? static_cast<i64>(x) : -9223372036854775807ll - 1);
  }
}

template <class To, class From>
__device__ __forceinline__ To convert(From x) {
  if constexpr (kSame<To, From>) {
    return x;
  } else if constexpr (kSame<From, bool8>) {
    return convert<To>(static_cast<unsigned char>(x.byte != 0));
  } else if constexpr (kIs16Bit<From>) {
    return convert<To>(to_float(x));
  } else if constexpr (kSame<To, bool8>) {
    return {static_cast<unsigned char>(x != From{})};
  } else if constexpr (kSame<To, bool>) {
    return x != From{};
  } else if constexpr (kIs16Bit<To>) {
    if constexpr (kSame<From, float>) {
      return from_float<To>(x);
    } else {
      return from_float<To>(to_odd(static_cast<double>(x)));
    }
  } else if constexpr (kIsFloating<From> && !kIsFloating<To>) {
    return truncate<To>(static_cast<double>(x));
  } else {
    return static_cast<To>(x);
  }
}

/// v[i] = p[i * step]; all at once where kTogether (step 1, p aligned to min(16, V elements)).
template <class T, bool kTogether, class C, int V>
__device__ __forceinline__ void load_elements(C (&v)[V], const T* p, i64 step) {
  if constexpr (kTogether && kInWords<T, V> && kSame<C, float>) {
    load_vector<T, V>(v, p);
  } else if constexpr (kTogether) {
    const Vector<T, V> x = *reinterpret_cast<const Vector<T, V>*>(p);
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) v[i] = convert<C>(x.at[i]);
  } else {
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) v[i] = convert<C>(p[i * step]);
  }
}

template <class T, bool kTogether, class C, int V>
__device__ __forceinline__ void store_elements(T* p, i64 step, const C (&v)[V]) {
  if constexpr (kTogether && kInWords<T, V> && kSame<C, float>) {
    store_vector<T, V>(p, v);
  } else if constexpr (kTogether) {
    Vector<T, V> x;
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) x.at[i] = convert<T>(v[i]);
    *reinterpret_cast<Vector<T, V>*>(p) = x;
  } else {
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) p[i * step] = convert<T>(v[i]);
  }
}

}  // namespace braze::device
