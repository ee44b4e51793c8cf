// Convolution as it is defined: a thread computes V adjacent output channels of one pixel.
//
//   y[n, k, o] = epilogue(sum over taps t and channels c of w[k, c, t] *
//                         x[n, c, o * stride - pad + t * dilation])
//
// Any layout, extents beyond 2^31 elements too. The families before it are faster; this one has no
// condition.
#pragma once

#include "braze/conv_direct_parameters.h"
#include "braze/epilogue.cuh"

namespace braze::device {

/// Takes the last digit of `index` in base `extent` off.
template <class T>
__device__ __forceinline__ int take(T& index, int extent) {
  const auto digit = static_cast<int>(index % extent);
  index /= extent;
  return digit;
}

/// kAlongPixels: adjacent threads take adjacent pixels, else adjacent channels.
template <class X, class W, class Y, int V, bool kPacked, bool kAlongPixels, Store kStore,
          class Epilogue>
__device__ void conv_direct(const ConvDirectParameters& p) {
  grid_dependency_wait();
  launch_dependents();
  i64 index = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= p.threads) return;
  const int vectors = ceil_div(p.outputs, V) * p.groups;
  int vector = 0;
  if (!kAlongPixels) vector = take(index, vectors);
  int at[3];
  at[2] = take(index, p.out[2]);
  at[1] = take(index, p.out[1]);
  at[0] = take(index, p.out[0]);
  if (kAlongPixels) vector = take(index, vectors);
  const auto n = static_cast<int>(index);
  const int group = vector / ceil_div(p.outputs, V);
  const int output = vector % ceil_div(p.outputs, V) * V;  // in the group

  Position position;
  position.n = n;
  position.pixel = (at[0] * p.out[1] + at[1]) * p.out[2] + at[2];
  position.channel = group * p.outputs + output;
  position.count = min(V, p.outputs - output);

  const X* const x =
      static_cast<const X*>(p.x) + n * p.x_n + static_cast<i64>(group) * p.channels * p.x_channel;
  const W* const w =
      static_cast<const W*>(p.w) +
      (static_cast<i64>(group) * round_up(p.outputs, kPacked ? V : 1) + output) * p.w_output;
  const int z0 = at[0] * p.stride[0] - p.pad[0];
  const int y0 = at[1] * p.stride[1] - p.pad[1];
  const int x0 = at[2] * p.stride[2] - p.pad[2];
  float sum[V] = {};
  i64 tap = 0;
  for (int a = 0; a < p.kernel[0]; ++a) {
    const int z = z0 + a * p.dilation[0];
    for (int b = 0; b < p.kernel[1]; ++b) {
      const int y = y0 + b * p.dilation[1];
      for (int c = 0; c < p.kernel[2]; ++c, ++tap) {
        const int column = x0 + c * p.dilation[2];
        if (z < 0 || z >= p.in[0] || y < 0 || y >= p.in[1] || column < 0 || column >= p.in[2])
          continue;
        const X* from = x + z * p.x_axis[0] + y * p.x_axis[1] + column * p.x_axis[2];
        const W* weights = w + tap * p.w_tap;
        for (int channel = 0; channel < p.channels; ++channel) {
          const float value = to_float(*from);
          float weight[V];
          load_channels<W, kPacked, V>(weight, weights, p.w_output, position.count);
          BRAZE_UNROLL
          for (int i = 0; i < V; ++i) sum[i] += value * weight[i];
          from += p.x_channel;
          weights += p.w_channel;
        }
      }
    }
  }
  Epilogue::template apply<V>(sum, p.e, position);
  store_result<Y, kStore, V>(sum, p.y, position);
}

}  // namespace braze::device
