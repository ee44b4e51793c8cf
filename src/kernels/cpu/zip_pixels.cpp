#include "kernels/cpu/zip_pixels.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/zip_pixels.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"
#include "kernels/cpu/simd_pairs.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

void zip_pixels(const ZipPixels& zip) {
  for (std::int64_t p = 0; p < zip.pixels; ++p) {
    const float* const a = zip.a + p * zip.a_pixel;
    const float* const b = zip.b + p * zip.b_pixel;
    float* const y = zip.y + p * zip.y_pixel;
#if HWY_TARGET != HWY_SCALAR
    if (zip.channels >= kLanes) {
      for (std::int64_t begin = 0; begin < zip.channels; begin += kLanes) {
        const std::int64_t c = std::min(begin, zip.channels - kLanes);  // the last may overlap
        store_pairs(kF32, hn::LoadU(kF32, a + c), hn::LoadU(kF32, b + c), y + 2 * c);
      }
      continue;
    }
#endif
    for (std::int64_t c = 0; c < zip.channels; ++c) {
      y[2 * c] = a[c];
      y[2 * c + 1] = b[c];
    }
  }
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {

HWY_EXPORT(zip_pixels);
ZipPixelsFn zip_pixels_function() { return BRAZE_DISPATCH(zip_pixels); }

}  // namespace braze::cpu
#endif
