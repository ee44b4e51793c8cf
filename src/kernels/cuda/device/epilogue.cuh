// Operands of an epilogue, and the store after it. The epilogue itself is emitted:
//
//   struct Epilogue {
//     template <int V> struct Constants;  // those that depend on the channel only
//     static __device__ void load(Constants<V>& c, const EpilogueParameters& e, int channel);
//     static __device__ void apply(float (&v)[V], const EpilogueParameters& e, const Position& at,
//                                  const Constants<V>& c);  // of at.channel
//     static __device__ void apply(float (&v)[V], const EpilogueParameters& e, const Position& at);
//   };
//
// Constants are no kernel's result: they may be loaded before a kernel's turn, and once for several
// pixels.
#pragma once

#include "braze/epilogue_parameters.h"
#include "braze/math.cuh"
#include "braze/types.cuh"

namespace braze::device {

/// V adjacent channels of one pixel, of which the first `count` exist.
struct Position {
  int n, pixel, channel, count;
  /// Those of the staged operand in shared memory, where a kernel stages one.
  const unsigned char* staged = nullptr;
};

/// How V channels of an operand are read: one value for all; at once (stride 1, aligned, and V of
/// them may be read even where fewer exist); or one by one.
enum class Access { kOne, kVector, kEach };

template <class T, Access kAccess, int V>
__device__ __forceinline__ void load_operand(float (&v)[V], const EpilogueOperand& operand,
                                             const Position& at) {
  const T* const p = static_cast<const T*>(operand.data) + at.n * operand.stride_n +
                     at.pixel * operand.stride_pixel;
  if constexpr (kAccess == Access::kOne) {
    const float x = to_float(*p);
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) v[i] = x;
  } else {
    load_channels<T, kAccess == Access::kVector, V>(v, p + at.channel * operand.stride_channel,
                                                    operand.stride_channel, at.count);
  }
}

/// How V channels of the result are written: at once (stride 1, aligned, up to `padded`, a multiple
/// of V), or one by one.
enum class Store { kVector, kEach };

/// Stores v where it belongs; v's channels past at.count are taken for zeros.
template <class T, Store kStore, int V>
__device__ __forceinline__ void store_result(const float (&v)[V], const OutputParameters& out,
                                             const Position& at) {
  T* const p = static_cast<T*>(out.data) + at.n * out.stride_n + at.pixel * out.stride_pixel;
  if constexpr (kStore == Store::kVector) {
    if (at.channel >= out.padded) return;
    float x[V];
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) x[i] = i < at.count ? v[i] : 0.0f;
    store_vector<T, V>(p + at.channel, x);
  } else {
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) {
      if (at.channel + i < out.padded)
        p[(at.channel + i) * out.stride_channel] = from_float<T>(i < at.count ? v[i] : 0.0f);
    }
  }
}

}  // namespace braze::device
