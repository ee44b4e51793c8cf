// The inner two axes of a strided copy, for the instruction set that runs.
#pragma once

#include <cstdint>

#include "kernels/cpu/strided_copy.hpp"

namespace braze::cpu {

/// `lines` rectangles of elements of `size` bytes; the last column has last_size. Strides in bytes.
struct CopyTile {
  StridedCopy::Inner inner = StridedCopy::Inner::kRuns;
  std::int64_t size = 0, last_size = 0;
  const std::uint8_t* from = nullptr;
  std::uint8_t* to = nullptr;
  std::int64_t rows = 0, from_row = 0, to_row = 0;
  std::int64_t columns = 0, from_column = 0, to_column = 0;
  std::int64_t lines = 1, from_line = 0, to_line = 0;
};

/// Leaves from and to behind the last line.
using CopyTileFn = void (*)(CopyTile& tile);

/// Of the instruction set in force.
CopyTileFn copy_tile_function();

}  // namespace braze::cpu
