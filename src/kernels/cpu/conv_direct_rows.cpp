// Copies of row segments between the layouts of a direct convolution: images, ring rows, row
// buffers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/conv_direct_rows.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/conv_direct.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"
#include "kernels/cpu/simd_transpose.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {

HWY_INLINE void copy_floats(const float* HWY_RESTRICT from, float* HWY_RESTRICT to,
                            std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::LoadU(kF32, from + i), kF32, to + i);
  if (i == n) return;
  if (n >= kLanes) {
    hn::StoreU(hn::LoadU(kF32, from + n - kLanes), kF32, to + n - kLanes);
  } else {
    store_n(load_n(kF32, from, static_cast<std::size_t>(n)), kF32, to, static_cast<std::size_t>(n));
  }
}

/// to[i] = from[i * step]
HWY_INLINE void gather_floats(const float* HWY_RESTRICT from, std::int64_t step,
                              float* HWY_RESTRICT to, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if (step == 2) {
    for (; i + kLanes < n; i += kLanes) {  // `<`: the last pair's second half may lie outside
      Vec32 even, odd;
      hn::LoadInterleaved2(kF32, from + 2 * i, even, odd);
      hn::StoreU(even, kF32, to + i);
    }
  }
#endif
  for (; i < n; ++i) to[i] = from[i * step];
}

void copy_rows(const ConvCopy& c) {
  if (c.from_channel == 1 && c.to_channel == 1) {  // channels-last to channels-last
    if (c.from_pixel == c.channels && c.to_pixel == c.channels)
      return copy_floats(c.from, c.to, c.pixels * c.channels);
    for (std::int64_t p = 0; p < c.pixels; ++p)
      copy_floats(c.from + p * c.from_pixel, c.to + p * c.to_pixel, c.channels);
  } else if (c.from_pixel == 1 && c.to_pixel == 1) {  // planes to planes
    for (std::int64_t k = 0; k < c.channels; ++k)
      copy_floats(c.from + k * c.from_channel, c.to + k * c.to_channel, c.pixels);
  } else if (c.from_pixel == 1 && c.to_channel == 1) {
    transpose(c.from, c.from_channel, c.channels, c.pixels, c.to, c.to_pixel);
  } else if (c.from_channel == 1 && c.to_pixel == 1) {
    transpose(c.from, c.from_pixel, c.pixels, c.channels, c.to, c.to_channel);
  } else if (c.to_pixel == 1) {
    for (std::int64_t k = 0; k < c.channels; ++k)
      gather_floats(c.from + k * c.from_channel, c.from_pixel, c.to + k * c.to_channel, c.pixels);
  } else {
    for (std::int64_t p = 0; p < c.pixels; ++p) {
      for (std::int64_t k = 0; k < c.channels; ++k) {
        c.to[p * c.to_pixel + k * c.to_channel] = c.from[p * c.from_pixel + k * c.from_channel];
      }
    }
  }
}

ConvCopyFn row_copier() { return copy_rows; }

}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {
HWY_EXPORT(row_copier);
ConvCopyFn conv_copy() { return BRAZE_DISPATCH(row_copier)(); }
}  // namespace braze::cpu
#endif
