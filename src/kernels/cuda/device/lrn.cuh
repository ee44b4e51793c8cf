// Local response normalisation across channels, element by element.
#pragma once

#include "braze/lines.cuh"

namespace braze::device {

template <class X, class Y, bool kPixelsTogether, int kThreads>
__device__ __forceinline__ void lrn(const LrnParameters& p) {
  launch_dependents();
  grid_dependency_wait();
  const i64 at = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= p.count) return;
  const int inner = kPixelsTogether ? p.pixels : p.channels;
  const int outer = kPixelsTogether ? p.channels : p.pixels;
  const i64 line = at / inner, n = line / outer;
  const int i = static_cast<int>(at - line * inner), o = static_cast<int>(line - n * outer);
  const int channel = kPixelsTogether ? o : i, pixel = kPixelsTogether ? i : o;
  const X* const x = static_cast<const X*>(p.x) + n * p.x_n + pixel * p.x_pixel;
  float sum = 0;
  for (int c = max(0, channel - p.below); c <= min(p.channels - 1, channel + p.above); ++c) {
    const float v = to_float(x[c * p.x_channel]);
    sum += v * v;
  }
  const float base = p.bias + p.alpha * sum;
  const float root = sqrtf(base);
  const float power = p.beta == 0.75f ? root * sqrtf(root) : powf(base, p.beta);
  static_cast<Y*>(p.y)[n * p.y_n + channel * p.y_channel + pixel * p.y_pixel] =
      from_float<Y>(to_float(x[channel * p.x_channel]) / power);
}

}  // namespace braze::device
