// Parameters of conv_stem.cuh, and the sizes that follow from its tile: read by the host too.
#pragma once

#include "braze/epilogue_parameters.h"

namespace braze::device {

inline constexpr int kStemWidth = 16;  // pixels of a tile's row: the rows of an mma

struct ConvStemParameters {
  const void* x;        // element (n, h, w, c) by strides
  const void* weights;  // [column tile][step][pair of products][lane][16 bytes]
  long long stride_n, stride_h, stride_w, stride_c;
  int in_h, in_w, channels, pad_h, pad_w;
  int out_h, out_w;
  int tiles_h, tiles_w, tiles;  // of pixels: of an image, of all images
  int column_tiles;             // of output channels: fastest
  OutputParameters y;
  EpilogueParameters e;
};

/// What a tile of `rows` x 16 pixels reads of a filter and of the input. Pixels lie `channels`
/// elements apart in shared memory, in rows that begin with `lead` elements of no pixel.
struct StemSizes {
  int rows, outputs, element_bytes, channels, lead;
  int filter_h, filter_w, stride_h, stride_w, dilation_h, dilation_w;

  int chunk = 16 / element_bytes;               // elements: half of the depth of an mma
  int reach = (filter_w - 1) * dilation_w + 1;  // pixels under a row of the filter
  int patch_h = (rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1;
  int patch_w = (kStemWidth - 1) * stride_w + reach;
  int row_chunks = (lead + reach * channels + chunk - 1) / chunk;  // of depth
  int chunks = filter_h * row_chunks;
  int steps = (chunks + 1) / 2;
  int last_read = (kStemWidth - 1) * stride_w * channels + row_chunks * chunk;
  int filled = lead + patch_w * channels;
  int pitch = ((last_read > filled ? last_read : filled) + chunk - 1) / chunk * chunk;
  int patch_bytes = patch_h * pitch * element_bytes;
  int weight_bytes = steps * (outputs / 16) * 512;
};

}  // namespace braze::device
