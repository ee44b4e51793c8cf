// Box-to-box copies between strided arrays: relayouts, transposes, concats, slices. Elements may be
// converted on the way; where they are not, they may be wide ones (16 bytes that lie together in
// both boxes).
#pragma once

#include "braze/convert.cuh"
#include "braze/copy_parameters.h"

namespace braze::device {

/// Elements that are moved as they are, by size.
template <int kBytes>
struct alignas(kBytes) Bits {
  unsigned char byte[kBytes];
};
template <>
struct alignas(16) Bits<16> {
  u64 word[2];
};
template <>
struct alignas(8) Bits<8> {
  u64 word;
};
template <>
struct alignas(4) Bits<4> {
  u32 word;
};
template <>
struct alignas(2) Bits<2> {
  u16 word;
};

inline constexpr int kCopyThreads = 256;

template <class T>
inline constexpr int kCopyTile = sizeof(T) <= 2 ? 64 : 32;

/// Offsets of element `index` of the axes [0, axes).
template <class Index>
__device__ __forceinline__ void copy_offsets(const CopyPiece& piece, int axes, Index index,
                                             i64& from, i64& to) {
  for (int axis = axes - 1; axis >= 0; --axis) {
    Index here = index;
    if (axis > 0) {
      const Index extent = static_cast<Index>(piece.extent[axis]);
      index = here / extent;
      here -= index * extent;
    }
    from += here * piece.from_stride[axis];
    to += here * piece.to_stride[axis];
  }
}

template <class From, class To>
__device__ __forceinline__ void copy_element(const CopyPiece& piece, i64 from, i64 to) {
  const From x = *reinterpret_cast<const From*>(static_cast<const char*>(piece.from) + from);
  *reinterpret_cast<To*>(static_cast<char*>(piece.to) + to) = convert<To>(x);
}

/// Through a tile in shared memory, so that both sides are touched row by row.
template <class From, class To>
__device__ __forceinline__ void copy_tile(const CopyPiece& piece, u32 block,
                                          To (*tile)[kCopyTile<To> + 1]) {
  constexpr int kTile = kCopyTile<To>;
  constexpr int kRows = kCopyThreads / kTile;
  const int rows = piece.extent[piece.axes - 2], columns = piece.extent[piece.axes - 1];
  const i64 from_row = piece.from_stride[piece.axes - 2], to_row = piece.to_stride[piece.axes - 2];
  const i64 from_column = piece.from_stride[piece.axes - 1];
  const i64 to_column = piece.to_stride[piece.axes - 1];
  const u32 column_tiles = static_cast<u32>(ceil_div(columns, kTile));
  const u32 row_tiles = static_cast<u32>(ceil_div(rows, kTile));
  const int column = static_cast<int>(block % column_tiles) * kTile;
  block /= column_tiles;
  const int row = static_cast<int>(block % row_tiles) * kTile;
  i64 from = row * from_row + column * from_column, to = row * to_row + column * to_column;
  copy_offsets<u32>(piece, piece.axes - 2, block / row_tiles, from, to);

  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  BRAZE_UNROLL
  for (int c = y; c < kTile; c += kRows) {
    if (row + x >= rows || column + c >= columns) continue;
    const char* const at = static_cast<const char*>(piece.from) + from + x * from_row;
    tile[c][x] = convert<To>(*reinterpret_cast<const From*>(at + c * from_column));
  }
  __syncthreads();
  BRAZE_UNROLL
  for (int r = y; r < kTile; r += kRows) {
    if (row + r >= rows || column + x >= columns) continue;
    char* const at = static_cast<char*>(piece.to) + to + r * to_row;
    *reinterpret_cast<To*>(at + x * to_column) = tile[x][r];
  }
}

template <class From, class To, int kPieces, class Index, int kPerThread, bool kTiles>
__device__ __forceinline__ void copy(const CopyParameters<kPieces>& p) {
  launch_dependents();
  grid_dependency_wait();
  int which = 0;
  BRAZE_UNROLL
  for (int i = 1; i < kPieces; ++i) {
    if (static_cast<int>(blockIdx.x) >= p.piece[i].first_block) which = i;
  }
  const CopyPiece& piece = p.piece[which];
  const u32 block = blockIdx.x - static_cast<u32>(piece.first_block);
  if constexpr (kTiles) {
    __shared__ To tile[kCopyTile<To>][kCopyTile<To> + 1];
    if (piece.tiled) {
      copy_tile<From, To>(piece, block, tile);
      return;
    }
  }
  const i64 first = static_cast<i64>(block) * kCopyThreads * kPerThread + threadIdx.x;
  BRAZE_UNROLL
  for (int i = 0; i < kPerThread; ++i) {
    const i64 index = first + i * kCopyThreads;
    if (index >= piece.count) return;
    i64 from = 0, to = 0;
    copy_offsets<Index>(piece, piece.axes, static_cast<Index>(index), from, to);
    copy_element<From, To>(piece, from, to);
  }
}

}  // namespace braze::device
