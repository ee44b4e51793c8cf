// Run-time parameters of chain.cuh: convolutions one after another, tile by tile, on chip.
#pragma once

#include "braze/divisor.h"
#include "braze/epilogue_parameters.h"

namespace braze::device {

inline constexpr int kMostStages = 7;         // of a chain
inline constexpr int kChainThreads = 256;     // of a block
inline constexpr int kChainSlotBytes = 8192;  // of weights that arrive at once

/// The part of an image in shared memory that a tile needs: pixel (row, column) of it is pixel
/// (first + tile * step + row, ...) of the image. Outside of the image there are zeros.
struct ChainImage {
  int at, pitch;      // bytes: of the first pixel in shared memory, from pixel to pixel
  int rows, columns;  // of the part
  int extent[2];      // of the image: rows, columns
  int first[2], step[2];
  int channels;            // of the image
  int held;                // channels of a pixel in shared memory; zeros from `channels` on
  Divisor across, chunks;  // by columns; by chunks of 16 bytes of `held`
};

/// Output (row, column) of the stage's part reads (row * stride + shift + tap * dilation, ...) of
/// the part of the image that it reads.
struct ChainStage {
  int kernel[2], stride[2], shift[2], dilation[2];
  int operand_shift[2];  // of an operand on chip: (row + shift, column + shift) of its part
  // Dense: rows of a product are pixels, `line` to a line of the part; its depth counts 32 bytes of
  // channels fastest, then taps.
  Divisor line;
  int rows, row_tiles, column_tiles;
  int depth;   // steps of 32 bytes
  int of_tap;  // steps of a tap
  int table;   // of the offsets of steps, the first of this stage
  int outputs;
  int passes;  // over channels of an image that is held in part, which the stage sums up
  // Depthwise: channels whose weights a slot has, [tap][slab].
  int slab;
  // Pools: runs of columns; pixels that an average is over, rows and columns.
  int counted_begin[2], counted_end[2];
  Divisor runs;
  OutputParameters y;  // where it is stored
  EpilogueParameters e;
};

/// Weights that are used together.
struct ChainSlot {
  int offset, bytes;
};

struct ChainParameters {
  const void* x;
  long long x_n, x_row, x_column, x_channel;
  const unsigned char* weights;  // slots, in the order of their first use
  const ChainSlot* order;        // the slots of a tile, in the order of use
  int slots, weight_bytes;
  int tiles;
  Divisor tiles_across, tiles_down;
  int weights_at, table_at, scratch_at;  // bytes into shared memory
  int table_entries;
  ChainImage image[kMostStages + 1];  // the input, then each stage's result
  ChainStage stage[kMostStages];
};
static_assert(sizeof(ChainParameters) <= 4096, "a kernel's parameters");

}  // namespace braze::device
