// Max and average pooling, 1-D to 3-D: a thread makes V channels of one pixel. A small 2-D window
// of channels that are read at once is known when the kernel is compiled: its loads are under way
// together.
#pragma once

#include "braze/pool_parameters.h"
#include "braze/position.cuh"

namespace braze::device {

/// The taps of output `o` along an axis that lie in [0, in).
struct PoolTaps {
  int begin, end;  // of the kernel
  int start;       // input index of tap 0
  int counted;     // by an average
};

__device__ __forceinline__ PoolTaps pool_taps(const PoolParameters& p, int axis, int o) {
  PoolTaps taps;
  const int dilation = p.dilation[axis];
  taps.start = o * p.stride[axis] - p.pad[axis];
  taps.begin = taps.start < 0 ? ceil_div(-taps.start, dilation) : 0;
  const int room = p.in[axis] - taps.start;
  taps.end = room > 0 ? min(p.kernel[axis], ceil_div(room, dilation)) : 0;
  taps.counted = max(0, taps.end - taps.begin);
  if (p.counted[axis] > 0) {
    const int counted = p.counted[axis] - o * p.stride[axis];
    taps.counted = counted > 0 ? min(p.kernel[axis], ceil_div(counted, dilation)) : 0;
  }
  return taps;
}

/// v = max or sum over a window of kHeight x kWidth at x, the first of an image's channels.
template <bool kMax, int kHeight, int kWidth, class In, int V>
__device__ __forceinline__ void pool_window(float (&v)[V], const PoolParameters& p, const In* x,
                                            const PoolTaps& h, const PoolTaps& w) {
  using Taps = Vector<In, V>;
  BRAZE_UNROLL
  for (int j = 0; j < kHeight; ++j) {
    const i64 row = (h.start + j * p.dilation[1]) * p.x_axis[1];
    Taps in[kWidth];
    BRAZE_UNROLL
    for (int k = 0; k < kWidth; ++k) {
      const i64 at = row + (w.start + k * p.dilation[2]) * p.x_axis[2];
      if (j >= h.begin && j < h.end && k >= w.begin && k < w.end) {
        in[k] = *reinterpret_cast<const Taps*>(x + at);
      } else {
        BRAZE_UNROLL
        for (int c = 0; c < V; ++c) in[k].at[c] = from_float<In>(kMax ? -kInfinity : 0.0f);
      }
    }
    BRAZE_UNROLL
    for (int k = 0; k < kWidth; ++k) {
      BRAZE_UNROLL
      for (int c = 0; c < V; ++c) {
        const float tap = to_float(in[k].at[c]);
        v[c] = kMax ? maximum(v[c], tap) : v[c] + tap;
      }
    }
  }
}

/// kHeight, kWidth: of the window, or 0 where it comes with p.
template <class X, class Y, bool kMax, int V, Store kStore, int kHeight, int kWidth,
          bool kPixelsTogether, class Index, int kThreads, class Epilogue>
__device__ __forceinline__ void pool(const PoolParameters& p) {
  launch_dependents();
  grid_dependency_wait();
  const i64 thread = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const Position at = position_of<Index, V, kPixelsTogether>(static_cast<Index>(thread), p.y);
  const int ow = at.pixel % p.out[2], rest = at.pixel / p.out[2];
  const PoolTaps d = pool_taps(p, 0, rest / p.out[1]), h = pool_taps(p, 1, rest % p.out[1]),
                 w = pool_taps(p, 2, ow);
  const X* const x = static_cast<const X*>(p.x) + at.n * p.x_n + at.channel * p.x_channel;
  float v[V];
  BRAZE_UNROLL
  for (int i = 0; i < V; ++i) v[i] = kMax ? -kInfinity : 0.0f;
  if constexpr (kHeight > 0) {
    pool_window<kMax, kHeight, kWidth>(v, p, x, h, w);
  } else {
    for (int i = d.begin; i < d.end; ++i) {
      const X* const plane = x + (d.start + i * p.dilation[0]) * p.x_axis[0];
      for (int j = h.begin; j < h.end; ++j) {
        const X* const row = plane + (h.start + j * p.dilation[1]) * p.x_axis[1];
        for (int k = w.begin; k < w.end; ++k) {
          const X* const pixel = row + (w.start + k * p.dilation[2]) * p.x_axis[2];
          float in[V];
          load_channels<X, kStore == Store::kVector, V>(in, pixel, p.x_channel, at.count);
          BRAZE_UNROLL
          for (int c = 0; c < V; ++c) v[c] = kMax ? maximum(v[c], in[c]) : v[c] + in[c];
        }
      }
    }
  }
  if constexpr (!kMax) {
    const int counted = d.counted * h.counted * w.counted;
    const float scale = 1.0f / static_cast<float>(counted > 0 ? counted : 1);
    BRAZE_UNROLL
    for (int c = 0; c < V; ++c) v[c] *= scale;
  }
  Epilogue::apply(v, p.e, at);
  store_result<Y, kStore>(v, p.y, at);
}

}  // namespace braze::device
