// Element-by-element functions of fp32 on rows of a tile: what epilogues and pointwise kernels are
// made of.
#pragma once

#include <cstdint>

#include "graph/op.hpp"
#include "kernels/cpu/epilogue.hpp"

namespace braze::cpu {

/// Element (r, c) of an array is at p[r * row + c], r < rows, c < cols.
///   UnaryRows:  y[r][c] = f(x[r][c]; alpha, beta)
///   BinaryRows: y[r][c] = clamp(f(a[r][c], b)) where b is b[r][c], or b[r][0] ("per row")
/// y may be x, a or b (not b per row), but must not overlap them otherwise.
struct RowShape {
  std::int64_t rows = 0, cols = 0;
};

/// For the instruction set in force. Null for kNot and kIsNaN, whose results are no floats.
UnaryRows unary_rows(UnaryFn fn);

/// f(b, a) when `swapped`. Null for comparisons and logical functions.
BinaryRows binary_rows(BinaryFn fn, bool swapped, bool per_row);

}  // namespace braze::cpu
