// Run-time parameters of product.cuh: y = a b^T, tile by tile, then the epilogue.
#pragma once

#include "braze/epilogue_parameters.h"

namespace braze::device {

/// What a step along the depth of a window means: the element (or the first of a chunk of them)
/// at `offset` from the window's first, at these coordinates from it.
struct DepthEntry {
  long long offset;
  short d, h, w;
  short count;  // elements of the chunk that exist
};

/// One operand: `rows` rows of `depth` elements, for each product of a batch (a convolution's
/// groups). Axes are depth, height, width; missing outer ones have extent 1. Strides in elements.
///   matrix   row r begins at r * stride_axis[2]
///   pixels   row r is pixel o of image n: begins at n * stride_n + sum of o * stride * stride_axis
///   windows  as pixels, less the padding; element k is at table[k].offset, and zero outside of
///            the image
struct ProductRows {
  const void* data;
  const DepthEntry* table;
  const long long* offsets;  // of each product, or null: product * stride_product
  long long stride_product, stride_n, stride_axis[3], stride_depth;
  int rows, depth;
  int in[3], out[3], stride[3], pad[3];
};

/// Blocks are counted: tiles of columns fastest, then tiles of rows, splits, products.
struct ProductParameters {
  ProductRows a, b;
  int column_tiles, row_tiles, splits;
  int columns;        // of the result, in one product
  int depth_blocks;   // stages of the ring that make up the depth
  int split_blocks;   // of them, for one split; the last may have fewer
  int table_entries;  // of a.table, for one depth block; 0: it stays where it is
  // The result's position of row r, column c in product g: image r / y.pixels + g * step_n, pixel
  // r % y.pixels, channel c + g * step_channel.
  int step_n, step_channel;
  int channels_inside;  // Finish::kFlat: channels are the innermost axis, not pixels
  float alpha;
  float* partial;      // [tile][split][row][column]
  unsigned* counters;  // one for each tile, zero between launches
  OutputParameters y;
  EpilogueParameters e;
};

}  // namespace braze::device
