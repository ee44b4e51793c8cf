// Parameters of matrix_vector.cuh.
#pragma once

#include "braze/epilogue_parameters.h"

namespace braze::device {

inline constexpr int kVectorTile = 16;        // outputs of a tile
inline constexpr int kVectorGroupBytes = 64;  // of depth that a warp takes at once
inline constexpr int kVectorPitch = 16 + 4;   // floats: sums of a row, in different banks
inline constexpr int kVectorBarrierBytes = 16;

struct MatrixVectorParameters {
  const void* x;        // element (row, k) at row * stride_row + k
  const void* weights;  // [tile][group][2][lane][16 bytes]
  long long stride_row;
  int rows, depth;
  int tiles, groups;  // of the outputs, of the depth
  float alpha;
  OutputParameters y;
  EpilogueParameters e;
};

}  // namespace braze::device
