// Element-by-element functions of fp32 on rows of a tile: what epilogues and pointwise kernels are
// made of.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "graph/op.hpp"

namespace braze::cpu {

/// min(max(x, lo), hi) with NaN kept: what a kernel can do to its accumulators in registers before
/// it stores them.
struct Clamp {
  float lo = -std::numeric_limits<float>::infinity();
  float hi = std::numeric_limits<float>::infinity();
};
/// f(f(x; first); second) as one clamp.
Clamp compose(const Clamp& first, const Clamp& second);
/// The clamp that a relu, or a clip whose bounds are numbers, is; nullopt for every other function.
std::optional<Clamp> as_clamp(const Unary& unary);

/// Element (r, c) of an array is at p[r * row + c], r < rows, c < cols.
///   UnaryRows:  y[r][c] = f(x[r][c]; alpha, beta)
///   BinaryRows: y[r][c] = clamp(f(x[r][c], b)) where b is b[r][c], or b[r][0] ("per row")
/// y may be x or b (not b per row), but must not overlap them otherwise.
struct RowShape {
  std::int64_t rows = 0, cols = 0;
};
using UnaryRows = void (*)(RowShape shape, const float* x, std::int64_t x_row, float* y,
                           std::int64_t y_row, float alpha, float beta);
using BinaryRows = void (*)(RowShape shape, const float* x, std::int64_t x_row, const float* b,
                            std::int64_t b_row, float* y, std::int64_t y_row, Clamp clamp);

/// For the instruction set in force. Null for kNot and kIsNaN, whose results are no floats.
UnaryRows unary_rows(UnaryFn fn);

/// f(b, x) when `swapped`. Null for comparisons and logical functions.
BinaryRows binary_rows(BinaryFn fn, bool swapped, bool per_row);

/// y[r][c] = clamp(f(x[r][c], b[r * b_row + c * b_col])) for b of any strides; y may be x.
class BinaryTile {
 public:
  BinaryTile() = default;
  BinaryTile(BinaryFn fn, bool swapped)
      : beside_(binary_rows(fn, swapped, false)), per_row_(binary_rows(fn, swapped, true)) {}
  [[nodiscard]] bool defined() const { return beside_ != nullptr; }
  void operator()(RowShape shape, const float* x, std::int64_t x_row, const float* b,
                  std::int64_t b_row, std::int64_t b_col, float* y, std::int64_t y_row,
                  Clamp clamp) const noexcept;

 private:
  BinaryRows beside_ = nullptr;
  BinaryRows per_row_ = nullptr;
};

}  // namespace braze::cpu
