// The arithmetic of sliding windows, one axis at a time. Extents are in elements.
#pragma once

#include <cstdint>

namespace braze {

/// Elements from the first to the last that a dilated window covers.
constexpr std::int64_t window_extent(std::int64_t kernel, std::int64_t dilation) {
  return (kernel - 1) * dilation + 1;
}

/// Outputs of a window that slides over `padded` elements and stays inside; 0 or less where it does
/// not fit.
constexpr std::int64_t window_count(std::int64_t padded, std::int64_t window, std::int64_t stride) {
  return padded < window ? 0 : (padded - window) / stride + 1;
}

/// As window_count, but the last window may stick out at the end if it starts on the input or on
/// its padding at the begin.
constexpr std::int64_t window_count_ceil(std::int64_t input, std::int64_t pad_begin,
                                         std::int64_t pad_end, std::int64_t window,
                                         std::int64_t stride) {
  const std::int64_t padded = input + pad_begin + pad_end;
  if (padded < window) return 0;
  const std::int64_t count = (padded - window + stride - 1) / stride + 1;
  return (count - 1) * stride >= input + pad_begin ? count - 1 : count;
}

/// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace braze
