// Each channel of each image, less its mean, over its deviation: two passes for mean and variance,
// one for the results.
#pragma once

#include "braze/lines.cuh"

namespace braze::device {

template <class X, class Y, class P, int TX, int TY, bool kAlong>
__device__ __forceinline__ void instance_norm(const InstanceNormParameters& p) {
  __shared__ float shared[TX * TY];
  launch_dependents();
  grid_dependency_wait();
  const Team<TX, TY, kAlong> team;
  const int blocks = ceil_div(p.channels, TX);
  const int n = static_cast<int>(blockIdx.x) / blocks;
  const int channel = (static_cast<int>(blockIdx.x) - n * blocks) * TX + team.line;
  const bool exists = channel < p.channels;
  const X* const x = static_cast<const X*>(p.x) + n * p.x_n + channel * p.x_channel;
  Y* const y = static_cast<Y*>(p.y) + n * p.y_n + channel * p.y_channel;
  const float count = static_cast<float>(p.pixels);
  float sum = 0;
  for (int i = team.member; exists && i < p.pixels; i += TY) sum += to_float(x[i * p.x_pixel]);
  const float mean = team.join(sum, shared, Sum()) / count;
  float squares = 0;
  for (int i = team.member; exists && i < p.pixels; i += TY) {
    const float v = to_float(x[i * p.x_pixel]) - mean;
    squares += v * v;
  }
  const float variance = team.join(squares, shared, Sum()) / count;
  if (!exists) return;
  const float scale =
      to_float(static_cast<const P*>(p.scale)[channel]) / sqrtf(variance + p.epsilon);
  const float bias = to_float(static_cast<const P*>(p.bias)[channel]);
  for (int i = team.member; i < p.pixels; i += TY)
    y[i * p.y_pixel] = from_float<Y>((to_float(x[i * p.x_pixel]) - mean) * scale + bias);
}

}  // namespace braze::device
