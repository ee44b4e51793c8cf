// Transposes a matrix of floats between two strided places. Compiled once per Highway target.
#if defined(BRAZE_KERNELS_CPU_SIMD_TRANSPOSE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef BRAZE_KERNELS_CPU_SIMD_TRANSPOSE_HPP
#undef BRAZE_KERNELS_CPU_SIMD_TRANSPOSE_HPP
#else
#define BRAZE_KERNELS_CPU_SIMD_TRANSPOSE_HPP
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

/// B floats, 128-bit block b from p + b * 4 * stride.
template <int B>
HWY_INLINE hn::Vec<hn::CappedTag<float, B>> load_blocks(const float* p, std::ptrdiff_t stride) {
  if constexpr (B == 4) {
    return hn::LoadU(hn::CappedTag<float, 4>(), p);
  } else {
    return hn::Combine(hn::CappedTag<float, B>(), load_blocks<B / 2>(p + B / 2 * stride, stride),
                       load_blocks<B / 2>(p, stride));
  }
}

/// to[c][r] = from[r][c] for r < B, c < C. Loads gather 128-bit blocks so that 4x4 transposes
/// suffice.
template <int B, int C>
HWY_INLINE void transpose_block(const float* HWY_RESTRICT from, std::ptrdiff_t from_stride,
                                float* HWY_RESTRICT to, std::ptrdiff_t to_stride) {
  const hn::CappedTag<float, B> d{};
  const hn::RepartitionToWide<decltype(d)> dw{};
  unroll<C / 4>([&](auto q) BRAZE_INLINE {
    const float* column = from + 4 * q;
    const auto a = load_blocks<B>(column, from_stride);
    const auto b = load_blocks<B>(column + from_stride, from_stride);
    const auto c = load_blocks<B>(column + 2 * from_stride, from_stride);
    const auto e = load_blocks<B>(column + 3 * from_stride, from_stride);
    const auto ab_low = hn::BitCast(dw, hn::InterleaveLower(d, a, b));
    const auto ab_high = hn::BitCast(dw, hn::InterleaveUpper(d, a, b));
    const auto ce_low = hn::BitCast(dw, hn::InterleaveLower(d, c, e));
    const auto ce_high = hn::BitCast(dw, hn::InterleaveUpper(d, c, e));
    float* row = to + 4 * q * to_stride;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, ab_low, ce_low)), d, row);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, ab_low, ce_low)), d, row + to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, ab_high, ce_high)), d, row + 2 * to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, ab_high, ce_high)), d, row + 3 * to_stride);
  });
}

/// C columns in blocks of B rows; the last one overlaps its neighbour. rows >= B.
template <int B, int C>
HWY_INLINE void transpose_columns(const float* HWY_RESTRICT from, std::ptrdiff_t from_stride,
                                  std::int64_t rows, float* HWY_RESTRICT to,
                                  std::ptrdiff_t to_stride) {
  for (std::int64_t r = 0; r < rows; r += B) {
    const std::int64_t row = std::min<std::int64_t>(r, rows - B);
    transpose_block<B, C>(from + row * from_stride, from_stride, to + row, to_stride);
  }
}

/// The whole matrix in blocks of B rows and B columns, or half of them at its end; the last ones
/// overlap their neighbours. rows, cols >= B.
template <int B>
void transpose_blocks(const float* HWY_RESTRICT from, std::ptrdiff_t from_stride, std::int64_t rows,
                      std::int64_t cols, float* HWY_RESTRICT to, std::ptrdiff_t to_stride) {
  for (std::int64_t c = 0; c < cols; c += B) {
    if constexpr (B >= 8) {
      if (const std::int64_t col = cols - B / 2; c >= col) {
        transpose_columns<B, B / 2>(from + col, from_stride, rows, to + col * to_stride, to_stride);
        return;
      }
    }
    const std::int64_t col = std::min<std::int64_t>(c, cols - B);
    transpose_columns<B, B>(from + col, from_stride, rows, to + col * to_stride, to_stride);
  }
}

/// Two or three rows interleaved, kLanes columns at a time; returns the columns done.
template <int R>
HWY_INLINE std::int64_t interleave_rows(const float* HWY_RESTRICT from, std::ptrdiff_t from_stride,
                                        std::int64_t cols, float* HWY_RESTRICT to) {
  std::int64_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) {
    const Vec32 a = hn::LoadU(kF32, from + c);
    const Vec32 b = hn::LoadU(kF32, from + from_stride + c);
    if constexpr (R == 2) {
      hn::StoreInterleaved2(a, b, kF32, to + c * R);
    } else {
      hn::StoreInterleaved3(a, b, hn::LoadU(kF32, from + 2 * from_stride + c), kF32, to + c * R);
    }
  }
  return c;
}

/// Two or three columns pulled apart, kLanes rows at a time; returns the rows done.
template <int C>
HWY_INLINE std::int64_t separate_columns(const float* HWY_RESTRICT from, std::int64_t rows,
                                         float* HWY_RESTRICT to, std::ptrdiff_t to_stride) {
  std::int64_t r = 0;
  for (; r + kLanes <= rows; r += kLanes) {
    Vec32 a, b;
    if constexpr (C == 2) {
      hn::LoadInterleaved2(kF32, from + r * C, a, b);
    } else {
      Vec32 c;
      hn::LoadInterleaved3(kF32, from + r * C, a, b, c);
      hn::StoreU(c, kF32, to + 2 * to_stride + r);
    }
    hn::StoreU(a, kF32, to + r);
    hn::StoreU(b, kF32, to + to_stride + r);
  }
  return r;
}

#endif  // HWY_TARGET != HWY_SCALAR

/// to[c * to_stride + r] = from[r * from_stride + c] for r < rows, c < cols. Touches those elements
/// only; the places do not overlap.
HWY_INLINE void transpose(const float* HWY_RESTRICT from, std::ptrdiff_t from_stride,
                          std::int64_t rows, std::int64_t cols, float* HWY_RESTRICT to,
                          std::ptrdiff_t to_stride) {
  std::int64_t row_done = 0;
  std::int64_t col_done = 0;
#if HWY_TARGET != HWY_SCALAR
  const std::int64_t smaller = std::min(rows, cols);
  if constexpr (kLanes >= 16) {
    if (smaller >= 16) return transpose_blocks<16>(from, from_stride, rows, cols, to, to_stride);
  }
  if constexpr (kLanes >= 8) {
    if (smaller >= 8) return transpose_blocks<8>(from, from_stride, rows, cols, to, to_stride);
  }
  if (smaller >= 4) return transpose_blocks<4>(from, from_stride, rows, cols, to, to_stride);
  if (rows == 3 && to_stride == 3) col_done = interleave_rows<3>(from, from_stride, cols, to);
  if (rows == 2 && to_stride == 2) col_done = interleave_rows<2>(from, from_stride, cols, to);
  if (cols == 3 && from_stride == 3) row_done = separate_columns<3>(from, rows, to, to_stride);
  if (cols == 2 && from_stride == 2) row_done = separate_columns<2>(from, rows, to, to_stride);
#endif
  for (std::int64_t r = row_done; r < rows; ++r) {
    for (std::int64_t c = col_done; c < cols; ++c)
      to[c * to_stride + r] = from[r * from_stride + c];
  }
}

}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
