// Depthwise convolution: the inner loops.
//
//   y[o, k] = bias[k] + sum over taps (i, j) of w[i, j, k] * x[o * stride - pad + (i, j) *
//   dilation, k / multiplier]
//
// Channels-last, a vector is channels. A loop computes one output row: several adjacent pixels by
// one vector of channels at a time, so that an input that it loads serves every pixel whose window
// it is in. Packed weights of a vector of L channels: bias [L], then [kernel_h][kernel_w][L].
#pragma once

#include <cstdint>

#include "kernels/cpu/pointwise_rows.hpp"

namespace braze::cpu {

/// One row of output pixels, some vectors of channels. Tap rows above and below the image are left
/// out by the caller, taps left and right of it by the loop. Strides in floats.
struct DepthwiseRow {
  const float* in = nullptr;  // column 0, channel 0 of the input row under the first tap row in use
  std::int64_t in_row = 0;    // from the row under a tap row to that under the next
  std::int64_t in_pixel = 0, in_width = 0;
  float* out = nullptr;  // pixel 0, channel 0
  std::int64_t out_pixel = 0, out_width = 0;
  std::int64_t kernel_w = 1, stride_w = 1, dilation_w = 1, pad_w = 0;

  const float* weights = nullptr;  // packed, of vector 0
  std::int64_t taps = 0;           // of a vector
  std::int64_t first_tap = 0;      // the first one in use
  std::int64_t tap_rows = 0;       // in use

  const std::int32_t* channels = nullptr;  // first output channel of each vector
  const std::int32_t* sources =
      nullptr;    // multiplier > 1: input channel of each lane, L for each vector
  int whole = 0;  // vectors of L channels
  int half = 0;   // then vectors of L / 2, where there are such
  int partial =
      0;  // lanes of the only vector, where there are fewer channels than its lanes; 0: none
  // Loops of two output rows: from the upper to the lower one, and the rows of the input under both
  // windows that exist.
  std::int64_t out_row = 0, pair_lo = 0, pair_hi = 0;
  Clamp clamp;
};
using DepthwiseRowFn = void (*)(const DepthwiseRow& row);

/// What the instruction set in force does.
struct DepthwiseIsa {
  int lanes = 1;
  bool halves = false;  // vectors of lanes / 2 save time
};
DepthwiseIsa depthwise_isa();

/// The loop that computes `rows` output rows (1, or 2), `pixels` of each at a time; out_width must
/// be at least that. Fastest for kernels of 3 and 5 without dilation and with strides up to 2,
/// where `partial` must be 0. Two rows: square windows, without dilation. `expand`: multiplier > 1.
struct DepthwiseChoice {
  std::int64_t kernel_w = 1, stride_w = 1, dilation_w = 1;
  int rows = 1;
  int pixels = 1;
  bool expand = false;
  bool partial = false;
};
/// Null where there is no such loop.
DepthwiseRowFn depthwise_row(const DepthwiseChoice& choice);

}  // namespace braze::cpu
