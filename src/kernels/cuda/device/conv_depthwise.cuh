// Convolution with one input channel per group: no reuse across channels, so DRAM or L2 is the
// limit.
//
// A thread makes V channels of P adjacent pixels of a row. For each row of the filter it reads the
// (P - 1) stride + S input pixels under them once, V channels at a time, and each weight once.
#pragma once

#include "braze/conv_depthwise_parameters.h"
#include "braze/epilogue.cuh"

namespace braze::device {

/// V channels of a pixel, as they lie in memory; zeros where it is not on the image.
template <class X, int V, bool kTogether>
__device__ __forceinline__ Vector<X, V> depthwise_pixel(const X* p, bool inside, i64 step,
                                                        int channel, int multiplier, int count) {
  Vector<X, V> x = {};
  if (!inside) return x;
  if constexpr (kTogether) {
    x = *reinterpret_cast<const Vector<X, V>*>(p + channel);
  } else {
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) {
      if (i < count) x.at[i] = p[(channel + i) / multiplier * step];
    }
  }
  return x;
}

template <class X, class W, int V, int P>
__device__ __forceinline__ void depthwise_tap(float (&sum)[P][V], const Vector<X, V> (&x)[P],
                                              const W* w) {
  float weight[V];
  load_vector<W, V>(weight, w);
  BRAZE_UNROLL
  for (int i = 0; i < P; ++i) {
    BRAZE_UNROLL
    for (int c = 0; c < V; ++c) sum[i][c] += to_float(x[i].at[c]) * weight[c];
  }
}

/// R, S: extents of the filter along height and width, kStride the stride along width, where all of
/// them are known and width is not dilated; else 0.
template <class X, class W, class Y, int R, int S, int kStride, int V, int P, bool kTogether,
          Store kStore, class Index, int kThreads, class Epilogue>
__device__ __forceinline__ void conv_depthwise(const ConvDepthwiseParameters& p) {
  launch_dependents();
  const i64 thread = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  // Channels count fastest, then runs of pixels, rows, planes, images.
  const Index vectors = static_cast<Index>(ceil_div(p.y.channels, V));
  const Index runs = static_cast<Index>(ceil_div(p.out[2], P));
  Index rest = static_cast<Index>(thread);
  const Index run = rest / vectors, row = run / runs, plane = row / static_cast<Index>(p.out[1]);
  const int channel = static_cast<int>(rest - run * vectors) * V;
  const int ow = static_cast<int>(run - row * runs) * P;
  const int oh = static_cast<int>(row - plane * static_cast<Index>(p.out[1]));
  const int n = static_cast<int>(plane / static_cast<Index>(p.out[0]));
  const int od = static_cast<int>(plane - static_cast<Index>(n) * static_cast<Index>(p.out[0]));
  const int count = min(V, p.y.channels - channel);

  const int id0 = od * p.stride[0] - p.pad[0], ih0 = oh * p.stride[1] - p.pad[1];
  const int iw0 = ow * (kStride > 0 ? kStride : p.stride[2]) - p.pad[2];
  const W* const w = static_cast<const W*>(p.w) + channel;
  float sum[P][V];
  BRAZE_UNROLL
  for (int i = 0; i < P; ++i) {
    BRAZE_UNROLL
    for (int c = 0; c < V; ++c) sum[i][c] = 0.0f;
  }
  grid_dependency_wait();
  const X* const x = static_cast<const X*>(p.x) + n * p.x_n;
  for (int d = 0; d < p.kernel[0]; ++d) {
    const int id = id0 + d * p.dilation[0];
    if (id < 0 || id >= p.in[0]) continue;
    const X* const image = x + id * p.x_axis[0];
    if constexpr (S > 0) {
      constexpr int kColumns = (P - 1) * kStride + S;
      BRAZE_UNROLL
      for (int r = 0; r < R; ++r) {
        const int ih = ih0 + r * p.dilation[1];
        const bool inside = ih >= 0 && ih < p.in[1];
        const X* const line = image + ih * p.x_axis[1];
        Vector<X, V> in[kColumns];
        BRAZE_UNROLL
        for (int column = 0; column < kColumns; ++column) {
          const int iw = iw0 + column;
          in[column] = depthwise_pixel<X, V, kTogether>(line + iw * p.x_axis[2],
                                                        inside && iw >= 0 && iw < p.in[2],
                                                        p.x_channel, channel, p.multiplier, count);
        }
        BRAZE_UNROLL
        for (int s = 0; s < S; ++s) {
          Vector<X, V> under[P];
          BRAZE_UNROLL
          for (int i = 0; i < P; ++i) under[i] = in[i * kStride + s];
          depthwise_tap(sum, under, w + ((d * R + r) * S + s) * p.w_tap);
        }
      }
    } else {
      for (int r = 0; r < p.kernel[1]; ++r) {
        const int ih = ih0 + r * p.dilation[1];
        if (ih < 0 || ih >= p.in[1]) continue;
        const X* const line = image + ih * p.x_axis[1];
        for (int s = 0; s < p.kernel[2]; ++s) {
          Vector<X, V> under[P];
          BRAZE_UNROLL
          for (int i = 0; i < P; ++i) {
            const int iw = iw0 + i * p.stride[2] + s * p.dilation[2];
            under[i] =
                depthwise_pixel<X, V, kTogether>(line + iw * p.x_axis[2], iw >= 0 && iw < p.in[2],
                                                 p.x_channel, channel, p.multiplier, count);
          }
          depthwise_tap(sum, under, w + ((d * p.kernel[1] + r) * p.kernel[2] + s) * p.w_tap);
        }
      }
    }
  }
  BRAZE_UNROLL
  for (int i = 0; i < P; ++i) {
    if (ow + i >= p.out[2]) continue;
    const Position at{n, (od * p.out[1] + oh) * p.out[2] + ow + i, channel, count};
    Epilogue::apply(sum[i], p.e, at);
    store_result<Y, kStore>(sum[i], p.y, at);
  }
}

}  // namespace braze::device
