// Linear and cubic interpolation along up to three axes, by tables: a thread makes V channels of
// one pixel.
#pragma once

#include "braze/position.cuh"
#include "braze/resize_parameters.h"

namespace braze::device {

template <class X, class Y, int V, Store kStore, bool kPixelsTogether, class Index, int kThreads>
__device__ __forceinline__ void resize(const ResizeParameters& p) {
  launch_dependents();
  grid_dependency_wait();
  const i64 thread = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const Position at = position_of<Index, V, kPixelsTogether>(static_cast<Index>(thread), p.y);
  const int rest = at.pixel / p.axis[2].out;
  const int o[3] = {rest / p.axis[1].out, rest % p.axis[1].out, at.pixel % p.axis[2].out};
  const X* const x = static_cast<const X*>(p.x) + at.n * p.x_n + at.channel * p.x_channel;
  const int* index[3];
  const float* weight[3];
  int count[3];
  BRAZE_UNROLL
  for (int axis = 0; axis < 3; ++axis) {
    count[axis] = p.axis[axis].count[o[axis]];
    index[axis] = p.axis[axis].index + o[axis] * p.axis[axis].taps;
    weight[axis] = p.axis[axis].weight + o[axis] * p.axis[axis].taps;
  }
  float v[V];
  const bool outside = count[0] == 0 || count[1] == 0 || count[2] == 0;
  BRAZE_UNROLL
  for (int c = 0; c < V; ++c) v[c] = outside ? p.extrapolation : 0.0f;
  for (int d = 0; !outside && d < count[0]; ++d) {
    for (int h = 0; h < count[1]; ++h) {
      const float scale = weight[0][d] * weight[1][h];
      const X* const row = x + index[0][d] * p.axis[0].x + index[1][h] * p.axis[1].x;
      for (int w = 0; w < count[2]; ++w) {
        const X* const pixel = row + index[2][w] * p.axis[2].x;
        float in[V];
        load_channels<X, kStore == Store::kVector, V>(in, pixel, p.x_channel, at.count);
        BRAZE_UNROLL
        for (int c = 0; c < V; ++c) v[c] += scale * weight[2][w] * in[c];
      }
    }
  }
  store_result<Y, kStore>(v, p.y, at);
}

}  // namespace braze::device
