// Run-time parameters of squeeze_excite.cuh.
#pragma once

#include "braze/epilogue_parameters.h"

namespace braze::device {

/// Strides in elements, offsets into shared memory in bytes.
struct SqueezeExciteParameters {
  const void* x;  // the image, [image][pixel][channel]
  long long x_n, x_pixel, x_channel;
  const void* mean;  // [image][channel], where the kernel does not make it
  long long mean_n, mean_channel;
  // Of each slice of channels: squeeze [hidden][slice], then excite [slice][hidden_padded]; what
  // exceeds the channels and the hidden ones is zero.
  const void* weights;
  int weights_bytes;                           // of a slice, a multiple of 16
  int excite_at;                               // in a slice
  int channels, slice, hidden, hidden_padded;  // slice and hidden_padded: multiples of 8
  int squeeze_lanes, excite_lanes;             // that share a row of weights: powers of 2, up to 32
  int pixels, ranges, range;                   // of an image; ranges of it; pixels of a range
  int held;                                    // vectors of each thread that stay in shared memory
  int partial_at, groups_at, totals_at, mean_at, parts_at, hidden_at, gate_at, exchanged_at,
      held_at;
  int squeeze_rows, excite_rows;  // 1: the result has rank 2, images are its rows
  OutputParameters y;
  EpilogueParameters squeeze, excite, scale;
};

}  // namespace braze::device
