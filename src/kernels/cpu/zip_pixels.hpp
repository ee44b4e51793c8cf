// Channels of two images by turns, for the instruction set that runs.
#pragma once

#include <cstdint>

namespace braze::cpu {

/// y[p, 2 c] = a[p, c], y[p, 2 c + 1] = b[p, c]. Steps from pixel to pixel, in floats.
struct ZipPixels {
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  std::int64_t a_pixel = 0, b_pixel = 0, y_pixel = 0;
  std::int64_t pixels = 0, channels = 0;  // of a and of b
};
using ZipPixelsFn = void (*)(const ZipPixels& zip);
ZipPixelsFn zip_pixels_function();

}  // namespace braze::cpu
