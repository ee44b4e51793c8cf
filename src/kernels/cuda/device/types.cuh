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

/// 32-bit words that are read or written at once; each holds two 16-bit elements.
template <int N>
struct alignas(4 * N > 16 ? 16 : 4 * N) Words {
  u32 at[N];
};
template <int N>
__device__ __forceinline__ Words<N> load_words(const void* p) {
  Words<N> x;
  if constexpr (N == 1) {
    x.at[0] = *static_cast<const u32*>(p);
  } else if constexpr (N == 2) {
    const uint2 y = *static_cast<const uint2*>(p);
    x.at[0] = y.x, x.at[1] = y.y;
  } else {
    BRAZE_UNROLL
    for (int i = 0; i < N; i += 4) {
      const uint4 y = static_cast<const uint4*>(p)[i / 4];
      x.at[i] = y.x, x.at[i + 1] = y.y, x.at[i + 2] = y.z, x.at[i + 3] = y.w;
    }
  }
  return x;
}
template <int N>
__device__ __forceinline__ void store_words(void* p, const Words<N>& x) {
  if constexpr (N == 1) {
    *static_cast<u32*>(p) = x.at[0];
  } else if constexpr (N == 2) {
    *static_cast<uint2*>(p) = make_uint2(x.at[0], x.at[1]);
  } else {
    BRAZE_UNROLL
    for (int i = 0; i < N; i += 4)
      static_cast<uint4*>(p)[i / 4] = make_uint4(x.at[i], x.at[i + 1], x.at[i + 2], x.at[i + 3]);
  }
}

/// Are V elements handled as words, and how many?
template <class T, int V>
inline constexpr bool kInWords =
    kSame<T, float> || ((kSame<T, half> || kSame<T, bfloat16>) && V % 2 == 0);
template <class T, int V>
inline constexpr int kWords = V * static_cast<int>(sizeof(T)) / 4;

template <class T, int V, int N>
__device__ __forceinline__ void unpack(float (&v)[V], const Words<N>& x) {
  BRAZE_UNROLL
  for (int i = 0; i < N; ++i) {
    if constexpr (kSame<T, half>)
      halves_to_floats(x.at[i], v[2 * i], v[2 * i + 1]);
    else if constexpr (kSame<T, bfloat16>)
      bfloat16s_to_floats(x.at[i], v[2 * i], v[2 * i + 1]);
    else
      v[i] = __uint_as_float(x.at[i]);
  }
}
template <class T, int V>
__device__ __forceinline__ Words<kWords<T, V>> pack(const float (&v)[V]) {
  Words<kWords<T, V>> x;
  BRAZE_UNROLL
  for (int i = 0; i < kWords<T, V>; ++i) {
    if constexpr (kSame<T, half>)
      x.at[i] = floats_to_halves(v[2 * i], v[2 * i + 1]);
    else if constexpr (kSame<T, bfloat16>)
      x.at[i] = floats_to_bfloat16s(v[2 * i], v[2 * i + 1]);
    else
      x.at[i] = __float_as_uint(v[i]);
  }
  return x;
}

/// V elements in registers as they lie in memory.
template <class T, int V, bool kAreWords = kInWords<T, V>>
struct RawOf {
  using Type = Vector<T, V>;
};
template <class T, int V>
struct RawOf<T, V, true> {
  using Type = Words<kWords<T, V>>;
};
template <class T, int V>
using Raw = typename RawOf<T, V>::Type;

template <class T, int V>
__device__ __forceinline__ Raw<T, V> load_raw(const T* p) {
  if constexpr (kInWords<T, V>)
    return load_words<kWords<T, V>>(p);
  else
    return *reinterpret_cast<const Vector<T, V>*>(p);
}
/// Zeros where they do not exist.
template <class T, int V>
__device__ __forceinline__ Raw<T, V> load_raw_if(const T* p, bool exist) {
  Raw<T, V> x = {};
  if constexpr (kInWords<T, V> && kWords<T, V> <= 4) {
    load_words_if(x.at, p, exist);
  } else {
    if (exist) x = load_raw<T, V>(p);
  }
  return x;
}
template <class T, int V>
__device__ __forceinline__ void raw_to_floats(float (&v)[V], const Raw<T, V>& x) {
  if constexpr (kInWords<T, V>) {
    unpack<T, V>(v, x);
  } else {
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) v[i] = to_float(x.at[i]);
  }
}

/// v[i] = p[i]; p is aligned to min(16, sizeof(T) * V) bytes.
template <class T, int V>
__device__ __forceinline__ void load_vector(float (&v)[V], const T* p) {
  raw_to_floats<T, V>(v, load_raw<T, V>(p));
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
  if constexpr (kInWords<T, V>) {
    store_words(p, pack<T, V>(v));
  } else {
    Vector<T, V> x;
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) x.at[i] = from_float<T>(v[i]);
    *reinterpret_cast<Vector<T, V>*>(p) = x;
  }
}

}  // namespace braze::device
