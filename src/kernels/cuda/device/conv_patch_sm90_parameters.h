// Parameters of conv_patch_sm90.cuh: read by the host too.
#pragma once

#include "braze/conv_sm90_parameters.h"

namespace braze::device {

inline constexpr int kMaxPatchTaps = 64;
inline constexpr int kMostWeightStages = 16, kMostPatchStages = 8;
/// A step's weights: 64 outputs times 128 bytes of channels.
inline constexpr int kPatchWeights = 8192;
/// Barriers, before the tiles, which begin at a multiple of 1024 bytes.
inline constexpr int kPatchBarriers = 1024;

struct ConvPatchParameters {
  EncodedTensorMap activations;  // [n, y, x, c] tiled: one plane of a patch
  EncodedTensorMap staged;       // [n, y, x, channel] tiled: the operand of the epilogue
  const unsigned char* weights;  // [64 outputs, channel block, tap] of kPatchWeights, swizzled
  const float* bias;             // of all channel tiles
  OutputParameters y;
  EpilogueParameters e;
  int tiles, channel_tiles, tiles_x, tiles_y;
  int height, width;  // of an image of the result
  int rows, columns;  // of a tile
  int pitch;          // pixels from row to row of a plane
  int pitch_inverse;  // (n * pitch_inverse) >> 20 = n / pitch
  int steps;          // of the sum: channel blocks times taps, taps innermost
  int taps;
  int stride, corner_x, corner_y;  // input position of the result's first pixel and the first tap
  int planes_x, planes_y;          // of a patch; plane (i, j): positions i, j past the strides
  int plane_bytes, plane_loaded, patch_bytes, patch_stages, weight_stages;
  int staged_bytes, staged_loaded;
  short tap_at[kMaxPatchTaps];  // the first pixel of each tap in a patch
};

}  // namespace braze::device
