// Convolution with one input channel per group: no reuse across channels.
//
//   conv_depthwise_strip   many outputs: a thread makes V channels of P adjacent pixels of a strip
//                          of rows, from top to bottom. Each input pixel is read and converted
//                          once, weights stay in registers as fp32.
//   conv_depthwise_window  few outputs: one such row a thread; all loads are under way together.
//   conv_depthwise         any geometry and layout, tap by tap.
//
// The first two know the filter (R x S) and read V channels of a pixel at once. What is constant
// (weights, bias) is read before the wait for the kernel before.
#pragma once

#include "braze/conv_depthwise_parameters.h"
#include "braze/divide.cuh"
#include "braze/epilogue.cuh"

namespace braze::device {

/// What a thread makes: `rows` rows from oh on, of one vector of channels.
struct DepthwiseTask {
  int n, od, oh, ow, channel;
};
template <class Index, int V, int P>
__device__ __forceinline__ DepthwiseTask depthwise_task(const ConvDepthwiseParameters& p,
                                                        i64 thread) {
  Index rest = static_cast<Index>(thread);
  DepthwiseTask task;
  task.channel = split_off(rest, p.vectors) * V;
  task.ow = split_off(rest, p.runs) * P;
  task.oh = split_off(rest, p.strips) * p.rows;
  task.od = split_off(rest, p.planes);
  task.n = static_cast<int>(rest);
  return task;
}

template <int V>
__device__ __forceinline__ void depthwise_bias(float (&bias)[V], const float* p, int channel) {
  BRAZE_UNROLL
  for (int c = 0; c < V; ++c) bias[c] = 0.0f;
  if (p != nullptr) load_vector<float, V>(bias, p + channel);
}

/// N pixels of a row, `step` of the image's pixels from each other; zeros where there is none.
template <class X, int V, int N>
__device__ __forceinline__ void depthwise_line(Raw<X, V> (&in)[N], const ConvDepthwiseParameters& p,
                                               const X* image, int ih, int iw, int step) {
  const bool inside = static_cast<u32>(ih) < static_cast<u32>(p.in[1]);
  const int at = ih * p.x_row + iw * p.x_pixel;
  BRAZE_UNROLL
  for (int i = 0; i < N; ++i) {
    const bool exists = inside && static_cast<u32>(iw + i * step) < static_cast<u32>(p.in[2]);
    in[i] = load_raw_if<X, V>(image + (at + i * step * p.x_pixel), exists);
  }
}

/// sum[i] += weight * the pixels of one row under a run of P, for one row of the filter.
template <class X, int T, int S, int V, int P, int N>
__device__ __forceinline__ void depthwise_row(float (&sum)[P][V], const float (&in)[N][V],
                                              const float (&weight)[S][V]) {
  BRAZE_UNROLL
  for (int i = 0; i < P; ++i) {
    BRAZE_UNROLL
    for (int s = 0; s < S; ++s) {
      BRAZE_UNROLL
      for (int c = 0; c < V; ++c) sum[i][c] += in[i * T + s][c] * weight[s][c];
    }
  }
}

/// Epilogue and store of a run of P pixels.
template <class Y, class Epilogue, int V, int P>
__device__ __forceinline__ void depthwise_finish(float (&sum)[P][V],
                                                 const ConvDepthwiseParameters& p,
                                                 const DepthwiseTask& task, Y* y, int oh) {
  const int line = oh * p.out[2];
  BRAZE_UNROLL
  for (int i = 0; i < P; ++i) {
    const int pixel = line + (P > 1 ? min(task.ow + i, p.out[2] - 1) : task.ow);
    Epilogue::apply(sum[i], p.e, Position{task.n, pixel, task.channel, V});
    if (P == 1 || task.ow + i < p.out[2]) store_vector<Y, V>(y + pixel * p.y_pixel, sum[i]);
  }
}

/// T: stride along width, which is not dilated; of one pixel (P = 1) it and the dilation come with
/// p.
template <class X, class W, class Y, int R, int S, int T, int V, int P, class Index, int kThreads,
          class Epilogue>
__device__ __forceinline__ void conv_depthwise_window(const ConvDepthwiseParameters& p) {
  launch_dependents();
  const i64 thread = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const DepthwiseTask task = depthwise_task<Index, V, P>(p, thread);
  const W* const w = static_cast<const W*>(p.w) + task.channel;
  Raw<W, V> weight[R * S];
  BRAZE_UNROLL
  for (int i = 0; i < R * S; ++i) weight[i] = load_raw<W, V>(w + i * p.w_tap);
  float bias[V], sum[P][V];
  depthwise_bias(bias, p.bias, task.channel);
  BRAZE_UNROLL
  for (int i = 0; i < P; ++i) {
    BRAZE_UNROLL
    for (int c = 0; c < V; ++c) sum[i][c] = bias[c];
  }
  const int ih = task.oh * p.stride[1] - p.pad[1], iw = task.ow * p.stride[2] - p.pad[2];
  const X* const image = in_register(static_cast<const X*>(p.x) + task.n * p.x_n + task.channel);
  Y* const y = static_cast<Y*>(p.y.data) + task.n * p.y.stride_n + task.channel;
  constexpr int N = (P - 1) * T + S;
  Raw<X, V> in[R][N];
  grid_dependency_wait();
  BRAZE_UNROLL
  for (int r = 0; r < R; ++r) {
    depthwise_line<X, V>(in[r], p, image, ih + r * p.dilation[1], iw, P > 1 ? 1 : p.dilation[2]);
  }
  BRAZE_UNROLL
  for (int r = 0; r < R; ++r) {
    float x[N][V], row[S][V];
    BRAZE_UNROLL
    for (int i = 0; i < N; ++i) raw_to_floats<X, V>(x[i], in[r][i]);
    BRAZE_UNROLL
    for (int s = 0; s < S; ++s) raw_to_floats<W, V>(row[s], weight[r * S + s]);
    depthwise_row<X, T, S>(sum, x, row);
  }
  depthwise_finish<Y, Epilogue>(sum, p, task, y, task.oh);
}

/// T: stride along height and width, which are not dilated. Step k reads T rows: row j of them is
/// under row T m + j of the filter for the output row k - m, whose sum is sum[m].
template <class X, class W, class Y, int R, int S, int T, int V, int P, class Index, int kThreads,
          class Epilogue>
__device__ __forceinline__ void conv_depthwise_strip(const ConvDepthwiseParameters& p) {
  launch_dependents();
  const i64 thread = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const DepthwiseTask task = depthwise_task<Index, V, P>(p, thread);
  const W* const w = static_cast<const W*>(p.w) + task.channel;
  float weight[R][S][V], bias[V];
  BRAZE_UNROLL
  for (int r = 0; r < R; ++r) {
    BRAZE_UNROLL
    for (int s = 0; s < S; ++s) load_vector<W, V>(weight[r][s], w + (r * S + s) * p.w_tap);
  }
  depthwise_bias(bias, p.bias, task.channel);
  constexpr int M = ceil_div(R, T), N = (P - 1) * T + S;
  float sum[M][P][V];
  BRAZE_UNROLL
  for (int i = 0; i < M * P * V; ++i) sum[i / (P * V)][i / V % P][i % V] = bias[i % V];
  const int iw = task.ow * T - p.pad[2];
  int ih = task.oh * T - p.pad[1];
  const X* const image = in_register(static_cast<const X*>(p.x) + task.n * p.x_n + task.channel);
  Y* const y = in_register(static_cast<Y*>(p.y.data) + task.n * p.y.stride_n + task.channel);
  Raw<X, V> next[T][N];
  grid_dependency_wait();
  BRAZE_UNROLL
  for (int j = 0; j < T; ++j) depthwise_line<X, V>(next[j], p, image, ih + j, iw, 1);
  const int end = min(task.oh + p.rows, p.out[1]);
#pragma unroll 1
  for (int oh = task.oh - (M - 1); oh < end; ++oh) {  // of sum[M - 1]
    float in[T][N][V];
    BRAZE_UNROLL
    for (int i = 0; i < T * N; ++i) raw_to_floats<X, V>(in[i / N][i % N], next[i / N][i % N]);
    ih += T;
    BRAZE_UNROLL
    for (int j = 0; j < T; ++j) depthwise_line<X, V>(next[j], p, image, ih + j, iw, 1);
    BRAZE_UNROLL
    for (int r = 0; r < R; ++r) depthwise_row<X, T, S>(sum[r / T], in[r % T], weight[r]);
    if (oh >= task.oh) depthwise_finish<Y, Epilogue>(sum[M - 1], p, task, y, oh);
    BRAZE_UNROLL
    for (int i = 0; i < P * V; ++i) {
      BRAZE_UNROLL
      for (int m = M - 1; m > 0; --m) sum[m][i / V][i % V] = sum[m - 1][i / V][i % V];
      sum[0][i / V][i % V] = bias[i % V];
    }
  }
}

/// kTogether: V channels of the input lie beside each other and are read at once.
template <class X, class W, class Y, int V, bool kTogether, Store kStore, class Index, int kThreads,
          class Epilogue>
__device__ __forceinline__ void conv_depthwise(const ConvDepthwiseParameters& p) {
  launch_dependents();
  const i64 thread = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const DepthwiseTask task = depthwise_task<Index, V, 1>(p, thread);
  const int channel = task.channel, count = min(V, p.y.channels - channel);
  const int id0 = task.od * p.stride[0] - p.pad[0], ih0 = task.oh * p.stride[1] - p.pad[1],
            iw0 = task.ow * p.stride[2] - p.pad[2];
  float sum[V];
  depthwise_bias(sum, p.bias, channel);
  const W* w = static_cast<const W*>(p.w) + channel;
  const X* const x = static_cast<const X*>(p.x) + task.n * p.x_n;
  grid_dependency_wait();
  for (int d = 0; d < p.kernel[0]; ++d) {
    const int id = id0 + d * p.dilation[0];
    for (int r = 0; r < p.kernel[1]; ++r) {
      const int ih = ih0 + r * p.dilation[1];
      const bool row = static_cast<u32>(id) < static_cast<u32>(p.in[0]) &&
                       static_cast<u32>(ih) < static_cast<u32>(p.in[1]);
      const X* const line = x + id * p.x_axis[0] + ih * p.x_axis[1];
      for (int s = 0; s < p.kernel[2]; ++s, w += p.w_tap) {
        const int iw = iw0 + s * p.dilation[2];
        if (!row || static_cast<u32>(iw) >= static_cast<u32>(p.in[2])) continue;
        const X* const pixel = line + iw * p.x_axis[2];
        float in[V], weight[V];
        load_vector<W, V>(weight, w);
        if constexpr (kTogether) {
          load_vector<X, V>(in, pixel + channel);
        } else {
          BRAZE_UNROLL
          for (int i = 0; i < V; ++i) {
            in[i] = i < count ? to_float(pixel[(channel + i) / p.multiplier * p.x_channel]) : 0.0f;
          }
        }
        BRAZE_UNROLL
        for (int i = 0; i < V; ++i) sum[i] += in[i] * weight[i];
      }
    }
  }
  const Position at{task.n, (task.od * p.out[1] + task.oh) * p.out[2] + task.ow, channel, count};
  Epilogue::apply(sum, p.e, at);
  store_result<Y, kStore>(sum, p.y, at);
}

}  // namespace braze::device
