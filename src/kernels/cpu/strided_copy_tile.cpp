#include "kernels/cpu/strided_copy_tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/strided_copy_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/cpu/isa.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/simd.hpp"

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
struct AnyRun {
  static HWY_INLINE void copy(std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
    std::memcpy(to, from, size);
  }
};

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

/// Two to four columns written together by consecutive rows: n arrays become one of n-tuples. False
/// if they do not lie so, or are shorter than a vector.
template <class D>
bool zip(D d, const CopyTile& tile) {
  using T = hn::TFromD<D>;
  if (tile.to_row != tile.columns * static_cast<std::int64_t>(sizeof(T))) return false;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto from = [&](std::int64_t c, std::int64_t r) {
    return hn::LoadU(d, reinterpret_cast<const T*>(tile.from + c * tile.from_column) + r);
  };
  if (tile.rows < lanes) return false;
  T* to = reinterpret_cast<T*>(tile.to);
  for (std::int64_t begin = 0; begin < tile.rows; begin += lanes) {
    const std::int64_t r =
        std::min(begin, tile.rows - lanes);  // the last ones overlap those before
    T* out = to + r * tile.columns;
    if (tile.columns == 2) hn::StoreInterleaved2(from(0, r), from(1, r), d, out);
    if (tile.columns == 3) hn::StoreInterleaved3(from(0, r), from(1, r), from(2, r), d, out);
    if (tile.columns == 4)
      hn::StoreInterleaved4(from(0, r), from(1, r), from(2, r), from(3, r), d, out);
  }
  return true;
}

/// The inverse: an array of 2- to 4-tuples becomes that many arrays. False likewise.
template <class D>
bool unzip(D d, const CopyTile& tile) {
  using T = hn::TFromD<D>;
  if (tile.from_column != tile.rows * static_cast<std::int64_t>(sizeof(T))) return false;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* from = reinterpret_cast<const T*>(tile.from);
  const auto to = [&](std::int64_t r, std::int64_t c) {
    return reinterpret_cast<T*>(tile.to + r * tile.to_row) + c;
  };
  if (tile.columns < lanes) return false;
  for (std::int64_t begin = 0; begin < tile.columns; begin += lanes) {
    const std::int64_t c = std::min(begin, tile.columns - lanes);
    const T* in = from + c * tile.rows;
    hn::Vec<D> v0, v1, v2, v3;
    if (tile.rows == 2) hn::LoadInterleaved2(d, in, v0, v1);
    if (tile.rows == 3) hn::LoadInterleaved3(d, in, v0, v1, v2);
    if (tile.rows == 4) hn::LoadInterleaved4(d, in, v0, v1, v2, v3);
    hn::StoreU(v0, d, to(0, c));
    hn::StoreU(v1, d, to(1, c));
    if (tile.rows > 2) hn::StoreU(v2, d, to(2, c));
    if (tile.rows > 3) hn::StoreU(v3, d, to(3, c));
  }
  return true;
}

template <class T>
void transpose(const CopyTile& tile) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 16 / sizeof(T)> d128;
  constexpr auto kBlock = static_cast<std::int64_t>(16 / sizeof(T));
  if (tile.columns >= 2 && tile.columns <= 4 && (zip(d, tile) || zip(d128, tile))) return;
  if (tile.rows >= 2 && tile.rows <= 4 && (unzip(d, tile) || unzip(d128, tile))) return;
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
  if (tile.size > 64 || tile.size < 8) return each_line<copy_runs<AnyRun>>(tile);
  if (tile.size > 32) return each_line<copy_runs<OverlappingRun<32>>>(tile);
  if (tile.size > 16) return each_line<copy_runs<OverlappingRun<16>>>(tile);
  return each_line<copy_runs<OverlappingRun<8>>>(tile);
}

void copy_tile(CopyTile& tile) {
  if (tile.inner == StridedCopy::Inner::kRuns) return runs_of_any_size(tile);
  const bool fills = tile.inner == StridedCopy::Inner::kFill;
  switch (tile.size) {
    case 1:
      return fills ? each_line<fill<std::uint8_t>>(tile) : each_line<transpose<std::uint8_t>>(tile);
    case 2:
      return fills ? each_line<fill<std::uint16_t>>(tile)
                   : each_line<transpose<std::uint16_t>>(tile);
    case 4:
      return fills ? each_line<fill<std::uint32_t>>(tile)
                   : each_line<transpose<std::uint32_t>>(tile);
    default:
      return fills ? each_line<fill<std::uint64_t>>(tile)
                   : each_line<transpose<std::uint64_t>>(tile);
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
