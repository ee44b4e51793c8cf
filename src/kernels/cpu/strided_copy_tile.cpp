#include "kernels/cpu/strided_copy_tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/strided_copy_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/cpu/isa.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/simd.hpp"
#include "kernels/cpu/simd_pairs.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

/// How runs of one length are copied: a fixed number of bytes, which the compiler makes a move or
/// two.
template <std::size_t kSize>
struct FixedRun {
  static HWY_INLINE void copy(std::uint8_t* to, const std::uint8_t* from, std::size_t /*size*/) {
    std::memcpy(to, from, kSize);
  }
};
/// kPiece to 2 * kPiece bytes: the first and the last kPiece, which may overlap.
template <std::size_t kPiece>
struct OverlappingRun {
  static HWY_INLINE void copy(std::uint8_t* HWY_RESTRICT to, const std::uint8_t* HWY_RESTRICT from,
                              std::size_t size) {
    std::memcpy(to, from, kPiece);
    std::memcpy(to + size - kPiece, from + size - kPiece, kPiece);
  }
};
/// At least a vector: whole ones, the last of which may overlap the one before.
struct VectorRun {
  static HWY_INLINE void copy(std::uint8_t* HWY_RESTRICT to, const std::uint8_t* HWY_RESTRICT from,
                              std::size_t size) {
    const hn::ScalableTag<std::uint8_t> d;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t i = 0; i < size; i += lanes) {
      const std::size_t at = std::min(i, size - lanes);
      hn::StoreU(hn::LoadU(d, from + at), d, to + at);
    }
  }
};
struct AnyRun {
  static HWY_INLINE void copy(std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
    std::memcpy(to, from, size);
  }
};

/// Beyond it memcpy() is as fast or faster.
constexpr std::int64_t kLongRun = 1024;

template <class Run>
void copy_runs(const CopyTile& tile) {
  const bool cut = tile.last_size != tile.size;
  const std::int64_t whole = cut ? tile.columns - 1 : tile.columns;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const std::uint8_t* HWY_RESTRICT from = tile.from + r * tile.from_row;
    std::uint8_t* HWY_RESTRICT to = tile.to + r * tile.to_row;
    for (std::int64_t c = 0; c < whole; ++c) {
      Run::copy(to + c * tile.to_column, from + c * tile.from_column,
                static_cast<std::size_t>(tile.size));
    }
    if (cut)
      AnyRun::copy(to + whole * tile.to_column, from + whole * tile.from_column,
                   static_cast<std::size_t>(tile.last_size));
  }
}

template <class T>
void fill(const CopyTile& tile) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    T value;
    std::memcpy(&value, tile.from + r * tile.from_row, sizeof(T));
    std::fill_n(reinterpret_cast<T*>(tile.to + r * tile.to_row), tile.columns, value);
  }
}

template <class T>
HWY_INLINE void transpose_scalar(const CopyTile& tile, std::int64_t row_begin,
                                 std::int64_t row_end) {
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    const std::uint8_t* from = tile.from + r * static_cast<std::int64_t>(sizeof(T));
    T* to = reinterpret_cast<T*>(tile.to + r * tile.to_row);
    for (std::int64_t c = 0; c < tile.columns; ++c)
      std::memcpy(to + c, from + c * tile.from_column, sizeof(T));
  }
}

#if HWY_TARGET == HWY_SCALAR

template <class T>
void transpose(const CopyTile& tile) {
  transpose_scalar<T>(tile, 0, tile.rows);
}

#else

/// A vector whose 128-bit block k is read from `from` + k * stride.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const std::uint8_t* from, std::int64_t stride) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(d) * sizeof(T) <= 16) {
    return hn::LoadU(d, reinterpret_cast<const T*>(from));
  } else {
    const hn::Half<D> half;
    const auto low = load_blocks(half, from, stride);
    const auto high = load_blocks(
        half, from + static_cast<std::int64_t>(hn::Lanes(half) * sizeof(T) / 16) * stride, stride);
    return hn::Combine(d, high, low);
  }
}

/// Transposes kBlock rows x lanes(d) columns, kBlock = elements in 128 bits.
template <class D>
HWY_INLINE void transpose_block(D d, const CopyTile& tile, std::int64_t row, std::int64_t column) {
  using T = hn::TFromD<D>;
  constexpr std::size_t kBlock = 16 / sizeof(T);
  const std::uint8_t* from =
      tile.from + row * static_cast<std::int64_t>(sizeof(T)) + column * tile.from_column;
  hn::Vec<D> a[kBlock], b[kBlock];
  for (std::size_t i = 0; i < kBlock; ++i) {
    a[i] = load_blocks(d, from + static_cast<std::int64_t>(i) * tile.from_column,
                       static_cast<std::int64_t>(kBlock) * tile.from_column);
  }
  // log2(n) perfect shuffles of n rows of n elements are a transpose.
  for (std::size_t stage = 1; stage < kBlock; stage *= 2) {
    for (std::size_t i = 0; i < kBlock / 2; ++i) {
      b[2 * i] = hn::InterleaveLower(d, a[i], a[i + kBlock / 2]);
      b[2 * i + 1] = hn::InterleaveUpper(d, a[i], a[i + kBlock / 2]);
    }
    for (std::size_t i = 0; i < kBlock; ++i) a[i] = b[i];
  }
  std::uint8_t* to = tile.to + row * tile.to_row + column * static_cast<std::int64_t>(sizeof(T));
  for (std::size_t i = 0; i < kBlock; ++i) {
    hn::StoreU(a[i], d, reinterpret_cast<T*>(to + static_cast<std::int64_t>(i) * tile.to_row));
  }
}

/// Start of the blocks of `size` that cover [0, count), the last one overlapping the one before.
template <class F>
HWY_INLINE void each_block(std::int64_t count, std::int64_t size, F&& f) {
  for (std::int64_t begin = 0; begin < count; begin += size) f(std::min(begin, count - size));
}

/// The whole tile in blocks of lanes(d) columns; false if it has fewer. Rows by rows, so that what
/// is written lies together; or `columns_first`, so that all that is loaded of a cache line is used
/// before another column takes its place.
template <class D>
HWY_INLINE bool transpose_blocks(D d, const CopyTile& tile, bool columns_first) {
  constexpr auto kBlock = static_cast<std::int64_t>(16 / sizeof(hn::TFromD<D>));
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (tile.columns < lanes) return false;
  if (columns_first) {
    each_block(tile.columns, lanes, [&](std::int64_t column) BRAZE_INLINE {
      each_block(tile.rows, kBlock,
                 [&](std::int64_t row) BRAZE_INLINE { transpose_block(d, tile, row, column); });
    });
  } else {
    each_block(tile.rows, kBlock, [&](std::int64_t row) BRAZE_INLINE {
      each_block(tile.columns, lanes,
                 [&](std::int64_t column) BRAZE_INLINE { transpose_block(d, tile, row, column); });
    });
  }
  return true;
}

/// Columns written together by consecutive rows, in all lines: n arrays become one of n-tuples.
/// False if they do not lie so, or are shorter than a vector.
template <int kColumns, class D>
bool zip(D d, const CopyTile& tile) {
  using T = hn::TFromD<D>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (tile.to_row != kColumns * static_cast<std::int64_t>(sizeof(T)) || tile.rows < lanes)
    return false;
  for (std::int64_t line = 0; line < tile.lines; ++line) {
    const std::uint8_t* const in = tile.from + line * tile.from_line;
    T* const to = reinterpret_cast<T*>(tile.to + line * tile.to_line);
    const auto from = [&](std::int64_t c, std::int64_t r) BRAZE_INLINE {
      return hn::LoadU(d, reinterpret_cast<const T*>(in + c * tile.from_column) + r);
    };
    each_block(tile.rows, lanes, [&](std::int64_t r) BRAZE_INLINE {
      T* const out = to + r * kColumns;
      if constexpr (kColumns == 2) store_pairs(d, from(0, r), from(1, r), out);
      if constexpr (kColumns == 3)
        hn::StoreInterleaved3(from(0, r), from(1, r), from(2, r), d, out);
      if constexpr (kColumns == 4)
        hn::StoreInterleaved4(from(0, r), from(1, r), from(2, r), from(3, r), d, out);
    });
  }
  return true;
}

template <class T>
bool zip_lines(const CopyTile& tile) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 16 / sizeof(T)> d128;
  switch (tile.columns) {
    case 2:
      return zip<2>(d, tile) || zip<2>(d128, tile);
    case 3:
      return zip<3>(d, tile) || zip<3>(d128, tile);
    case 4:
      return zip<4>(d, tile) || zip<4>(d128, tile);
    default:
      return false;
  }
}

/// The inverse: an array of n-tuples becomes n arrays, in all lines. False likewise.
template <int kRows, class D>
bool unzip(D d, const CopyTile& tile) {
  using T = hn::TFromD<D>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (tile.from_column != kRows * static_cast<std::int64_t>(sizeof(T))) return false;
  if constexpr (kRows == 2 && sizeof(T) == 4 && kExactMasks) {
    if (tile.columns < lanes && 2 * tile.columns >= lanes) {
      const auto n = static_cast<std::size_t>(tile.columns);
      for (std::int64_t line = 0; line < tile.lines; ++line) {
        std::uint8_t* const out = tile.to + line * tile.to_line;
        hn::Vec<D> a, b;
        load_pairs_n(d, reinterpret_cast<const T*>(tile.from + line * tile.from_line), n, a, b);
        store_n(a, d, reinterpret_cast<T*>(out), n);
        store_n(b, d, reinterpret_cast<T*>(out + tile.to_row), n);
      }
      return true;
    }
  }
  if (tile.columns < lanes) return false;
  for (std::int64_t line = 0; line < tile.lines; ++line) {
    const T* const from = reinterpret_cast<const T*>(tile.from + line * tile.from_line);
    std::uint8_t* const out = tile.to + line * tile.to_line;
    each_block(tile.columns, lanes, [&](std::int64_t c) BRAZE_INLINE {
      const T* const in = from + c * kRows;
      const auto store = [&](std::int64_t r, hn::Vec<D> v) BRAZE_INLINE {
        hn::StoreU(v, d, reinterpret_cast<T*>(out + r * tile.to_row) + c);
      };
      hn::Vec<D> v0, v1, v2, v3;
      if constexpr (kRows == 2) load_pairs(d, in, v0, v1);
      if constexpr (kRows == 3) hn::LoadInterleaved3(d, in, v0, v1, v2);
      if constexpr (kRows == 4) hn::LoadInterleaved4(d, in, v0, v1, v2, v3);
      store(0, v0);
      store(1, v1);
      if constexpr (kRows > 2) store(2, v2);
      if constexpr (kRows > 3) store(3, v3);
    });
  }
  return true;
}

template <class T>
bool unzip_lines(const CopyTile& tile) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 16 / sizeof(T)> d128;
  switch (tile.rows) {
    case 2:
      return unzip<2>(d, tile) || unzip<2>(d128, tile);
    case 3:
      return unzip<3>(d, tile) || unzip<3>(d128, tile);
    case 4:
      return unzip<4>(d, tile) || unzip<4>(d128, tile);
    default:
      return false;
  }
}

template <class T>
void transpose(const CopyTile& tile) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 16 / sizeof(T)> d128;
  constexpr auto kBlock = static_cast<std::int64_t>(16 / sizeof(T));
  if (tile.rows < kBlock) return transpose_scalar<T>(tile, 0, tile.rows);
  // A cache set has few places: columns a multiple of 4 KB apart all share one, of 512 bytes apart
  // every eighth.
  const bool crowded = tile.from_column % 512 == 0;
  const hn::CappedTag<T, 32 / sizeof(T)> d256;
  if (tile.from_column % 4096 == 0 && transpose_blocks(d256, tile, true)) return;
  if (transpose_blocks(d, tile, crowded) || transpose_blocks(d128, tile, crowded)) return;
  transpose_scalar<T>(tile, 0, tile.rows);
}

#endif

/// Each rectangle of the tile.
template <void (*kCopy)(const CopyTile&)>
void each_line(CopyTile& tile) {
  for (std::int64_t line = 0; line < tile.lines; ++line) {
    kCopy(tile);
    tile.from += tile.from_line;
    tile.to += tile.to_line;
  }
}

template <class T>
void transpose_lines(CopyTile& tile) {
#if HWY_TARGET != HWY_SCALAR
  if (zip_lines<T>(tile) || unzip_lines<T>(tile)) {
    tile.from += tile.lines * tile.from_line;
    tile.to += tile.lines * tile.to_line;
    return;
  }
#endif
  each_line<transpose<T>>(tile);
}

void runs_of_any_size(CopyTile& tile) {
  switch (tile.size) {
    case 1:
      return each_line<copy_runs<FixedRun<1>>>(tile);
    case 2:
      return each_line<copy_runs<FixedRun<2>>>(tile);
    case 4:
      return each_line<copy_runs<FixedRun<4>>>(tile);
    case 8:
      return each_line<copy_runs<FixedRun<8>>>(tile);
    case 16:
      return each_line<copy_runs<FixedRun<16>>>(tile);
    default:
      break;
  }
  if (tile.size > kLongRun || tile.size < 8) return each_line<copy_runs<AnyRun>>(tile);
  if (tile.size > 64) return each_line<copy_runs<VectorRun>>(tile);
  if (tile.size > 32) return each_line<copy_runs<OverlappingRun<32>>>(tile);
  if (tile.size > 16) return each_line<copy_runs<OverlappingRun<16>>>(tile);
  return each_line<copy_runs<OverlappingRun<8>>>(tile);
}

void copy_tile(CopyTile& tile) {
  if (tile.inner == StridedCopy::Inner::kRuns) return runs_of_any_size(tile);
  const bool fills = tile.inner == StridedCopy::Inner::kFill;
  switch (tile.size) {
    case 1:
      return fills ? each_line<fill<std::uint8_t>>(tile) : transpose_lines<std::uint8_t>(tile);
    case 2:
      return fills ? each_line<fill<std::uint16_t>>(tile) : transpose_lines<std::uint16_t>(tile);
    case 4:
      return fills ? each_line<fill<std::uint32_t>>(tile) : transpose_lines<std::uint32_t>(tile);
    default:
      return fills ? each_line<fill<std::uint64_t>>(tile) : transpose_lines<std::uint64_t>(tile);
  }
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {

HWY_EXPORT(copy_tile);

CopyTileFn copy_tile_function() { return BRAZE_DISPATCH(copy_tile); }

}  // namespace braze::cpu
#endif
