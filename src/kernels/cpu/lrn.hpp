// Local response normalisation: what its inner loops share.
#pragma once

#include <cstdint>

namespace braze::cpu {

/// `count` pixels of all channels of one image. Steps in elements, of the axis whose elements do
/// not lie together.
struct LrnTile {
  const float* x = nullptr;
  float* y = nullptr;  // not x
  std::int64_t x_step = 0, y_step = 0;
  std::int64_t channels = 0, count = 0;
  std::int64_t below = 0, above = 0;  // channels beside the middle one
  float alpha = 0;                    // divided by the size
  float beta = 0, bias = 0;
  float* squares = nullptr;  // scratch
};

}  // namespace braze::cpu
