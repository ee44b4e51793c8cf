// Pooling: the inner loops, for both layouts.
#pragma once

#include <cstdint>

#include "graph/op.hpp"

namespace braze::cpu {

/// The taps of a window that lie on the image, as counts and steps in floats, slowest first.
struct PoolTaps {
  std::int64_t count_d = 1, count_h = 1, count_w = 1;
  std::int64_t step_d = 0, step_h = 0, step_w = 0;
};

/// Channels-last: adjacent output pixels with the same taps.
///   out[p, c] = scale * (max or sum over taps of in[p * in_pixel + tap, c])
struct PoolPixels {
  const float* in = nullptr;  // first tap of the first pixel, first channel
  float* out = nullptr;
  PoolTaps taps;
  std::int64_t in_pixel = 0, out_pixel = 0;  // from pixel to pixel: stride times the input's pitch
  std::int64_t pixels = 0, channels = 0;
  float scale = 1;
};
using PoolPixelsFn = void (*)(const PoolPixels& pixels);

/// Model layout: a row of outputs of one channel. Taps of d and h are clipped by the caller, those
/// of w by the loop.
///   out[o] = scale * scale_w[o] * (max or sum over taps of in[o * stride_w - pad_w + tap])
struct PoolRow {
  const float* in = nullptr;  // column 0 of the first row under the window
  float* out = nullptr;
  PoolTaps taps;  // count_w: the whole kernel's; step_w: the dilation
  std::int64_t in_width = 0, out_width = 0, stride_w = 1, pad_w = 0;
  const float* scale_w = nullptr;
  float scale = 1;
};
using PoolRowFn = void (*)(const PoolRow& row);

/// For the instruction set in force. The maximum keeps NaN and has no scale; of no taps at all it
/// is -inf, the sum 0.
PoolPixelsFn pool_pixels(PoolFn fn);
PoolRowFn pool_row(PoolFn fn);

}  // namespace braze::cpu
