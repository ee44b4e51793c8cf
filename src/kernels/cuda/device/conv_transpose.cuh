// Transposed convolution, gathered: y[o] is the sum over taps t with o = i * stride - pad + t *
// dilation of w[t] x[i].
//
// A thread makes V output channels of P pixels of a row that lie `stride` apart, and so have the
// same taps: each weight is read once for all of them.
#pragma once

#include "braze/conv_transpose_parameters.h"
#include "braze/epilogue.cuh"

namespace braze::device {

/// The input element under tap t of output o, or -1.
__device__ __forceinline__ int transposed_input(const ConvTransposeParameters& p, int axis, int o,
                                                int t) {
  const int distance = o + p.pad[axis] - t * p.dilation[axis];
  if (distance < 0 || distance % p.stride[axis] != 0) return -1;
  const int i = distance / p.stride[axis];
  return i < p.in[axis] ? i : -1;
}

/// C: input channels that are read at once.
template <class X, class W, class Y, int V, int P, int C, Store kStore, int kThreads,
          class Epilogue>
__device__ __forceinline__ void conv_transpose(const ConvTransposeParameters& p) {
  launch_dependents();
  const i64 thread = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  // Output channels count fastest, then groups, runs, phases, rows, planes, images.
  const int vectors = ceil_div(p.outputs, V);
  i64 rest = thread;
  const auto take = [&rest](int extent) {
    const i64 next = rest / extent;
    const int here = static_cast<int>(rest - next * extent);
    rest = next;
    return here;
  };
  const int k = take(vectors) * V, group = take(p.groups), run = take(p.runs);
  const int phase = take(p.phases), oh = take(p.out[1]), od = take(p.out[0]);
  const int n = static_cast<int>(rest);
  const int ow = phase + run * P * p.stride[2];  // of the first pixel
  const int count = min(V, p.outputs - k);

  float sum[P][V];
  BRAZE_UNROLL
  for (int i = 0; i < P; ++i) {
    BRAZE_UNROLL
    for (int v = 0; v < V; ++v) sum[i][v] = 0.0f;
  }
  grid_dependency_wait();
  const X* const image =
      static_cast<const X*>(p.x) + n * p.x_n + static_cast<i64>(group) * p.inputs * p.x_channel;
  const W* const weights = static_cast<const W*>(p.w) + group * p.w_group + k;
  for (int td = 0; td < p.kernel[0]; ++td) {
    const int id = transposed_input(p, 0, od, td);
    if (id < 0) continue;
    for (int th = 0; th < p.kernel[1]; ++th) {
      const int ih = transposed_input(p, 1, oh, th);
      if (ih < 0) continue;
      for (int tw = 0; tw < p.kernel[2]; ++tw) {
        const int distance = ow + p.pad[2] - tw * p.dilation[2];
        if (distance % p.stride[2] != 0) continue;
        const int iw = distance / p.stride[2];
        const X* const row = image + id * p.x_axis[0] + ih * p.x_axis[1];
        const W* const tap = weights + ((td * p.kernel[1] + th) * p.kernel[2] + tw) * p.w_tap;
        for (int c = 0; c < p.inputs; c += C) {
          float x[P][C];
          BRAZE_UNROLL
          for (int i = 0; i < P; ++i) {
            const bool inside = iw + i >= 0 && iw + i < p.in[2];
            const X* const at = row + (iw + i) * p.x_axis[2] + c * p.x_channel;
            if (inside) {
              load_vector<X, C>(x[i], at);
            } else {
              BRAZE_UNROLL
              for (int j = 0; j < C; ++j) x[i][j] = 0.0f;
            }
          }
          BRAZE_UNROLL
          for (int j = 0; j < C; ++j) {
            float w[V];
            load_vector<W, V>(w, tap + (c + j) * p.w_channel);
            BRAZE_UNROLL
            for (int i = 0; i < P; ++i) {
              BRAZE_UNROLL
              for (int v = 0; v < V; ++v) sum[i][v] += x[i][j] * w[v];
            }
          }
        }
      }
    }
  }
  BRAZE_UNROLL
  for (int i = 0; i < P; ++i) {
    const int o = ow + i * p.stride[2];
    if (o >= p.out[2]) continue;
    const Position at{n, (od * p.out[1] + oh) * p.out[2] + o, group * p.outputs + k, count};
    Epilogue::apply(sum[i], p.e, at);
    if constexpr (kStore == Store::kVector) {
      store_result<Y, kStore>(sum[i], p.y, at);
    } else {
      // Channels behind the group's last are the next group's.
      Y* const y = static_cast<Y*>(p.y.data) + n * p.y.stride_n + at.pixel * p.y.stride_pixel;
      BRAZE_UNROLL
      for (int v = 0; v < V; ++v) {
        if (v < count) y[(at.channel + v) * p.y.stride_channel] = from_float<Y>(sum[i][v]);
      }
    }
  }
}

}  // namespace braze::device
