// Parameters of conv_sm90.cuh, and the shared memory of its tiles: read by the host too.
#pragma once

#include "braze/epilogue_parameters.h"

namespace braze::device {

/// A CUtensorMap, encoded when addresses are known.
struct alignas(64) EncodedTensorMap {
  unsigned char bytes[128];
};

struct ConvSm90Parameters {
  EncodedTensorMap activations;  // [n, y, x, c] im2col, or [pixel, c] tiled
  EncodedTensorMap weights;      // [output, tap, channel block] tiled
  OutputParameters y;
  EpilogueParameters e;
  int pixels;         // of all images of the result
  int width;          // of an image of the result
  int tiles;          // each of a cluster's blocks works on one at a time
  int channel_tiles;  // tile i has output channels i % channel_tiles
  int steps;          // of the sum: taps times channel blocks, channel blocks innermost
  int channel_blocks;
  int filter_width;
  int stride_x, stride_y, dilation_x, dilation_y;
  int corner_x, corner_y;  // input position of the result's first pixel and the first tap
};

/// The shared memory of a block that works on `pixels` times `channels` accumulators, in steps of
/// `row_bytes` of input channels, with its sums split over `split` blocks: {pixels, channels,
/// row_bytes, split} gives the rest.
struct ConvSm90Shared {
  int pixels, channels, row_bytes, split;
  // Two blocks share a multiprocessor where a tile needs one warpgroup only: one begins while the
  // other ends.
  int budget = (pixels == 64 && channels <= 128 ? 112 : 225) * 1024;
  int stage = (pixels + channels) * row_bytes;
  int exchange = split > 1 ? pixels*(channels + 16) * 4 : 0;
  int barriers = 256;
  int fit = (budget - exchange - barriers) / stage;
  int stages = fit < 12 ? fit : 12;
  int bytes = stages * stage + exchange + barriers;
};

}  // namespace braze::device
