// Max and average pooling.
//
//   pool_window  small 2-D windows, known when the kernel is compiled, of channels that are read at
//                once: a thread makes V channels of P adjacent pixels of a row. First down each
//                column that their windows share, then along the row. Maxima of 16-bit types stay
//                packed. All loads are under way together.
//   pool         1-D to 3-D, any window and layout: V channels of one pixel.
#pragma once

#include "braze/divide.cuh"
#include "braze/epilogue.cuh"
#include "braze/pool_parameters.h"

namespace braze::device {

/// What a thread makes.
struct PoolTask {
  int n, od, oh, ow, channel;
};
template <class Index, int V, int P, bool kPixelsTogether>
__device__ __forceinline__ PoolTask pool_task(const PoolParameters& p, i64 thread) {
  Index rest = static_cast<Index>(thread);
  PoolTask task;
  if constexpr (!kPixelsTogether) task.channel = split_off(rest, p.vectors) * V;
  task.ow = split_off(rest, p.runs) * P;
  task.oh = split_off(rest, p.rows);
  task.od = split_off(rest, p.planes);
  if constexpr (kPixelsTogether) task.channel = split_off(rest, p.vectors) * V;
  task.n = static_cast<int>(rest);
  return task;
}

/// Taps of output `o` along an axis that an average counts.
__device__ __forceinline__ int pool_counted(const PoolParameters& p, int axis, int o) {
  const auto taps = [&](int room) {  // in so many elements
    const u32 steps = static_cast<u32>(max(0, room + p.dilation[axis] - 1));
    return min(p.kernel[axis], static_cast<int>(quotient(steps, p.dilations[axis])));
  };
  const int start = o * p.stride[axis];
  if (p.counted[axis] > 0) return taps(p.counted[axis] - start);
  const int before = p.pad[axis] - start;
  return max(0, taps(p.in[axis] + before) - taps(before));
}
__device__ __forceinline__ float pool_scale(const PoolParameters& p, int outer, int ow) {
  return 1.0f / static_cast<float>(max(1, outer * pool_counted(p, 2, ow)));
}

/// Taps of V channels as 32-bit words: maxima of 16-bit types as they lie in memory, else floats.
template <class X, int V, bool kMax>
struct PoolTaps {
  static constexpr bool kPacked = kMax && sizeof(X) == 2;
  static constexpr int kCount = kPacked ? V / 2 : V;
  /// What a tap outside of the image is.
  static constexpr u32 kNone = !kMax                ? 0u
                               : kSame<X, half>     ? 0xfc00fc00u
                               : kSame<X, bfloat16> ? 0xff80ff80u
                                                    : 0xff800000u;
  u32 at[kCount];

  __device__ __forceinline__ void load(const X* p, bool exist) {
    Raw<X, V> raw;
    load_words_if(raw.at, p, exist, kNone);
    if constexpr (kPacked) {
      BRAZE_UNROLL
      for (int i = 0; i < kCount; ++i) at[i] = raw.at[i];
    } else {
      float v[V];
      raw_to_floats<X, V>(v, raw);
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) at[i] = __float_as_uint(v[i]);
    }
  }
  __device__ __forceinline__ void join(const PoolTaps& other) {
    BRAZE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const u32 a = at[i], b = other.at[i];
      if constexpr (kPacked && kSame<X, half>)
        at[i] = halves_max_or_nan(a, b);
      else if constexpr (kPacked)
        at[i] = bfloat16s_max_or_nan(a, b);
      else if constexpr (kMax)
        at[i] = __float_as_uint(max_or_nan(__uint_as_float(a), __uint_as_float(b)));
      else
        at[i] = __float_as_uint(__uint_as_float(a) + __uint_as_float(b));
    }
  }
  __device__ __forceinline__ void to_floats(float (&v)[V]) const {
    if constexpr (kPacked) {
      Words<kCount> words;
      BRAZE_UNROLL
      for (int i = 0; i < kCount; ++i) words.at[i] = at[i];
      unpack<X, V>(v, words);
    } else {
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) v[i] = __uint_as_float(at[i]);
    }
  }
};

/// H, W: of the window; T: stride along width, which is not dilated. Of one pixel (P = 1) stride
/// and dilation come with p.
template <class X, class Y, bool kMax, int H, int W, int T, int V, int P, class Index, int kThreads,
          class Epilogue>
__device__ __forceinline__ void pool_window(const PoolParameters& p) {
  using Taps = PoolTaps<X, V, kMax>;
  launch_dependents();
  const i64 thread = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const PoolTask task = pool_task<Index, V, P, false>(p, thread);
  const int ih = task.oh * p.stride[1] - p.pad[1], iw = task.ow * p.stride[2] - p.pad[2];
  const int column = P > 1 ? 1 : p.dilation[2];
  const X* const image = in_register(static_cast<const X*>(p.x) + task.n * p.x_n + task.channel);
  Y* const y = in_register(static_cast<Y*>(p.y.data) + task.n * p.y.stride_n + task.channel);
  const int rows = kMax ? 0 : pool_counted(p, 0, 0) * pool_counted(p, 1, task.oh);
  constexpr int N = (P - 1) * T + W;
  Taps down[N];
  grid_dependency_wait();
  BRAZE_UNROLL
  for (int j = 0; j < H; ++j) {
    const int h = ih + j * p.dilation[1];
    const bool inside = static_cast<u32>(h) < static_cast<u32>(p.in[1]);
    const int at = h * p.x_row + iw * p.x_pixel;
    BRAZE_UNROLL
    for (int k = 0; k < N; ++k) {
      Taps tap;
      tap.load(image + (at + k * column * p.x_pixel),
               inside && static_cast<u32>(iw + k * column) < static_cast<u32>(p.in[2]));
      if (j == 0)
        down[k] = tap;
      else
        down[k].join(tap);
    }
  }
  BRAZE_UNROLL
  for (int i = 0; i < P; ++i) {
    Taps all = down[i * T];
    BRAZE_UNROLL
    for (int k = 1; k < W; ++k) all.join(down[i * T + k]);
    float v[V];
    all.to_floats(v);
    const int ow = P > 1 ? min(task.ow + i, p.out[2] - 1) : task.ow;
    if constexpr (!kMax) {
      const float scale = pool_scale(p, rows, ow);
      BRAZE_UNROLL
      for (int c = 0; c < V; ++c) v[c] *= scale;
    }
    const int pixel = task.oh * p.out[2] + ow;
    Epilogue::apply(v, p.e, Position{task.n, pixel, task.channel, V});
    if (P == 1 || task.ow + i < p.out[2]) store_vector<Y, V>(y + pixel * p.y_pixel, v);
  }
}

template <class X, class Y, bool kMax, int V, Store kStore, bool kPixelsTogether, class Index,
          int kThreads, class Epilogue>
__device__ __forceinline__ void pool(const PoolParameters& p) {
  launch_dependents();
  const i64 thread = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const PoolTask task = pool_task<Index, V, 1, kPixelsTogether>(p, thread);
  const int count = min(V, p.y.channels - task.channel);
  const int id0 = task.od * p.stride[0] - p.pad[0], ih0 = task.oh * p.stride[1] - p.pad[1],
            iw0 = task.ow * p.stride[2] - p.pad[2];
  const X* const x = static_cast<const X*>(p.x) + task.n * p.x_n + task.channel * p.x_channel;
  float v[V];
  BRAZE_UNROLL
  for (int i = 0; i < V; ++i) v[i] = kMax ? -kInfinity : 0.0f;
  grid_dependency_wait();
  for (int i = 0; i < p.kernel[0]; ++i) {
    const int d = id0 + i * p.dilation[0];
    for (int j = 0; j < p.kernel[1]; ++j) {
      const int h = ih0 + j * p.dilation[1];
      if (static_cast<u32>(d) >= static_cast<u32>(p.in[0]) ||
          static_cast<u32>(h) >= static_cast<u32>(p.in[1]))
        continue;
      const X* const row = x + d * p.x_axis[0] + h * p.x_axis[1];
#pragma unroll 4
      for (int k = 0; k < p.kernel[2]; ++k) {
        const int w = iw0 + k * p.dilation[2];
        if (static_cast<u32>(w) >= static_cast<u32>(p.in[2])) continue;
        float in[V];
        load_channels<X, kStore == Store::kVector, V>(in, row + w * p.x_axis[2], p.x_channel,
                                                      count);
        BRAZE_UNROLL
        for (int c = 0; c < V; ++c) v[c] = kMax ? max_or_nan(v[c], in[c]) : v[c] + in[c];
      }
    }
  }
  if constexpr (!kMax) {
    const float scale =
        pool_scale(p, pool_counted(p, 0, task.od) * pool_counted(p, 1, task.oh), task.ow);
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) v[i] *= scale;
  }
  const Position at{task.n, (task.od * p.out[1] + task.oh) * p.out[2] + task.ow, task.channel,
                    count};
  Epilogue::apply(v, p.e, at);
  store_result<Y, kStore>(v, p.y, at);
}

}  // namespace braze::device
