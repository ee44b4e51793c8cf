// Element types in memory; arithmetic is in float.
#pragma once

#include "braze/ptx.cuh"

namespace braze::device {

struct half {
  u16 bits;
};
struct bfloat16 {
  u16 bits;
};
/// A float whose products may be rounded to 10 bits of mantissa by the tensor cores.
struct tf32 {
  float value;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(tf32 x) { return x.value; }
__device__ __forceinline__ float to_float(half x) { return half_to_float(x.bits); }
__device__ __forceinline__ float to_float(bfloat16 x) { return bfloat16_to_float(x.bits); }

template <class T>
__device__ __forceinline__ T from_float(float x) {
  if constexpr (kSame<T, half>) {
    return {float_to_half(x)};
  } else if constexpr (kSame<T, bfloat16>) {
    return {float_to_bfloat16(x)};
  } else {
    return {x};
  }
}

/// V elements that are read or written at once, `sizeof(T) * V` (1 to 32) bytes.
template <class T, int V>
struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) Vector {
  T at[V];
};

/// v[i] = p[i]; p is aligned to min(16, sizeof(T) * V) bytes.
template <class T, int V>
__device__ __forceinline__ void load_vector(float (&v)[V], const T* p) {
  const Vector<T, V> x = *reinterpret_cast<const Vector<T, V>*>(p);
  BRAZE_UNROLL
  for (int i = 0; i < V; ++i) v[i] = to_float(x.at[i]);
}

/// V channels, of which `count` exist: at once where they lie together (then V of them may be
/// read), else `stride` elements from each other; those that do not exist are zeros.
template <class T, bool kTogether, int V>
__device__ __forceinline__ void load_channels(float (&v)[V], const T* p, i64 stride, int count) {
  if constexpr (kTogether) {
    load_vector<T, V>(v, p);
  } else {
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) v[i] = i < count ? to_float(p[i * stride]) : 0.0f;
  }
}

template <class T, int V>
__device__ __forceinline__ void store_vector(T* p, const float (&v)[V]) {
  Vector<T, V> x;
  BRAZE_UNROLL
  for (int i = 0; i < V; ++i) x.at[i] = from_float<T>(v[i]);
  *reinterpret_cast<Vector<T, V>*>(p) = x;
}

}  // namespace braze::device
