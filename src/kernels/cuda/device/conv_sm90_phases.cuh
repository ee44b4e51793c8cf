// Columns and pixels of the product of conv_sm90, and what they are in the result. Those of a
// transposed convolution are of phases (docs/cuda.md).
#pragma once

#include "braze/conv_sm90_parameters.h"
#include "braze/divide.cuh"

namespace braze::device {

/// What the columns of the product are: outputs; or outputs of phases, which may have taps of their
/// own, and then a tile has one phase.
enum class ConvSm90Columns { kOutputs, kPhases, kUnequalPhases };

/// Taps of each axis that the phase of a column lacks: its first one, or none.
struct ConvSm90Lack {
  int y = 0, x = 0;
  __device__ __forceinline__ ConvSm90Lack(const ConvSm90Phases& phases, int column) {
    u32 phase = quotient(static_cast<u32>(column), phases.columns);
    x = split_off(phase, phases.stride_x) >= phases.whole_x ? 1 : 0;
    y = static_cast<int>(phase) >= phases.whole_y ? 1 : 0;
  }
};

/// A pixel of all images; the first one, if there is no such pixel. kFew: most are of the first
/// image, and nothing hides a division.
template <bool kFew, bool kPhases>
struct Pixel {
  int n, at;
  bool exists;
  __device__ __forceinline__ Pixel(const ConvSm90Parameters& p, int pixel)
      : exists(pixel < p.pixels) {
    if (!exists) pixel = 0;
    n = kFew && pixel < p.y.pixels ? 0 : pixel / p.y.pixels;
    at = pixel - n * p.y.pixels;
  }
};
/// A pixel of the product: where phase 0 of it is in the result, or would be.
template <bool kFew>
struct Pixel<kFew, true> {
  int n, y, x;
  bool exists;
  __device__ __forceinline__ Pixel(const ConvSm90Parameters& p, int pixel)
      : exists(pixel < p.pixels) {
    u32 rest = exists ? static_cast<u32>(pixel) : 0;
    const int at = split_off(rest, p.phases.pixels);
    n = static_cast<int>(rest);
    rest = static_cast<u32>(at);
    x = split_off(rest, p.phases.width) * p.phases.stride_x.divisor + p.phases.corner_x;
    y = static_cast<int>(rest) * p.phases.stride_y + p.phases.corner_y;
  }
};

}  // namespace braze::device
