// Run-time parameters of softmax.cuh, instance_norm.cuh and lrn.cuh.
#pragma once

namespace braze::device {

inline constexpr int kLineAxes = 8;

/// Lines of `extent` elements along one axis; strides in elements. `outer` axes say where lines
/// begin.
struct LineAxis {
  long long x, y;
  int extent, unused;
};
struct LinesParameters {
  const void* x;
  void* y;
  long long lines, x_step, y_step;
  int extent, outer_axes;
  LineAxis outer[kLineAxes];
};

/// y = (x - mean) / sqrt(variance + epsilon) * scale[c] + bias[c] over the pixels of a channel.
struct InstanceNormParameters {
  const void* x;
  void* y;
  const void* scale;
  const void* bias;
  long long x_n, x_channel, x_pixel, y_n, y_channel, y_pixel;
  int images, channels, pixels;
  float epsilon;
};

/// y = x / (bias + alpha * sum of x^2 over channels c - below to c + above)^beta
struct LrnParameters {
  const void* x;
  void* y;
  long long x_n, x_channel, x_pixel, y_n, y_channel, y_pixel;
  long long count;
  int channels, pixels, below, above;
  float alpha, beta, bias;
};

}  // namespace braze::device
