// Run-time parameters of copy.cuh and copy_tables.cuh.
#pragma once

namespace braze::device {

inline constexpr int kCopyAxes = 8;
inline constexpr int kCopyPieces = 16;

/// A box of elements copied to a box, axes outermost first; strides in bytes, signed. Where
/// `tiled`, the elements of the last axis but one lie together where they are read, those of the
/// last where they are written.
struct CopyPiece {
  const void* from;
  void* to;
  long long count;  // elements; blocks, where tiled
  long long from_stride[kCopyAxes], to_stride[kCopyAxes];
  int extent[kCopyAxes];
  int axes, tiled;
  int first_block, unused;
};

template <int kPieces>
struct CopyParameters {
  CopyPiece piece[kPieces];
};

/// One axis of a copy through tables: element i is read at table[i] bytes (-1: filled instead), or
/// without a table at i * from_stride.
struct CopyTableAxis {
  const long long* table;
  long long from_stride, to_stride;
  int extent, unused;
};

struct CopyTablesParameters {
  const void* from;
  void* to;
  long long count;
  CopyTableAxis axis[kCopyAxes];
  int axes, unused;
  alignas(16) unsigned char fill[16];
};

}  // namespace braze::device
