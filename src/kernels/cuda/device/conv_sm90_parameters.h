// Parameters of conv_sm90.cuh, and the shared memory of its tiles: read by the host too.
#pragma once

#include "braze/divisor.h"
#include "braze/epilogue_parameters.h"

namespace braze::device {

/// A CUtensorMap, encoded when addresses are known.
struct alignas(64) EncodedTensorMap {
  unsigned char bytes[128];
};

/// How a convolution reads its input. The steps of its sum: taps times channel blocks, the blocks
/// innermost.
struct ConvSm90Source {
  int channel_blocks, filter_width;
  int stride_x, stride_y, dilation_x, dilation_y;
  int corner_x, corner_y;  // input position of the result's first pixel and the first tap
};

/// How the product of a transposed convolution becomes its result. Column c of the product is
/// output c % columns of phase c / columns; phase (f_y, f_x) of pixel (q_y, q_x) is pixel q *
/// stride + f + corner of the result, where there is such a pixel. Phases of an axis from `whole`
/// on lack its first tap.
struct ConvSm90Phases {
  Divisor columns;        // a multiple of 8, or where phases lack taps of a tile's channels
  Divisor pixels, width;  // of an image of the product
  Divisor stride_x;       // phases count through x first
  int stride_y, corner_y, corner_x;
  int result_height, result_width;
  int whole_y, whole_x, filter_height;
  int pixel_tiles;  // where phases lack taps, tile i has pixels i % pixel_tiles: long tiles come
                    // first
};

struct ConvSm90Parameters {
  EncodedTensorMap activations;  // [n, y, x, c] im2col, or [pixel, c] tiled
  EncodedTensorMap others;       // the same of the second input, of a sum of two convolutions
  EncodedTensorMap weights;      // [output, tap, channel block] tiled
  EncodedTensorMap staged;       // [pixel, channel] tiled: the operand of the epilogue
  const float* bias;             // of all channel tiles
  OutputParameters y;
  EpilogueParameters e;
  int pixels;         // of all images of the result, or of a transposed convolution's product
  int width;          // of one of these images
  int tiles;          // each of a cluster's blocks works on one at a time
  int channel_tiles;  // tile i has output channels i % channel_tiles
  int steps;          // of the sum, first those of the first input
  int first_steps;    // these
  ConvSm90Source source, other;
  ConvSm90Phases phases;  // of a transposed convolution
};

/// The shared memory of a block that works on `pixels` times `channels` accumulators, in steps of
/// `row_bytes` of input channels, with its sums split over `split` blocks, and stages an operand of
/// the epilogue with elements of `staged` bytes (0: none), `blocks` of them on a multiprocessor:
/// {pixels, channels, row_bytes, split, blocks, staged} gives the rest.
struct ConvSm90Shared {
  int pixels, channels, row_bytes, split, blocks, staged;
  int budget = (blocks == 2 ? 112 : 225) * 1024;
  int stage = (pixels + channels) * row_bytes;
  int exchange = split > 1 ? pixels*(channels + 4) * 4 : 0;
  int barriers = 384;
  // The operand comes in chunks of channels, at most a swizzle wide, for the pixels that the block
  // finishes.
  int chunk_channels = staged == 2 && channels % 64 == 0 ? 64 : 32;
  int chunk_row = chunk_channels * staged;
  int chunk = pixels / split * chunk_row;
  int tile_chunks = channels / chunk_channels;
  int most_chunks = split > 1 ? tile_chunks : 2 * tile_chunks;
  int fit_chunks = chunk > 0 ? budget * 3 / 10 / chunk : 0;
  int chunks = fit_chunks < most_chunks ? fit_chunks : most_chunks;
  int bias = channels * 4;  // of a stage
  int fit = (budget - exchange - barriers - chunks * chunk) / (stage + bias);
  int stages = fit < 12 ? fit : 12;
  int bytes = stages * (stage + bias) + chunks * chunk + exchange + barriers;
};

}  // namespace braze::device
