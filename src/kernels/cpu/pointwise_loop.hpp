// The loops of an element-by-element kernel: any rank, any broadcast, any strides.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/kernel.hpp"
#include "kernels/strides.hpp"

namespace braze::cpu {

/// Up to 3 operands.
inline constexpr std::size_t kOperands = 3;

/// A rectangle of the result. Rows and columns are whole or parts of two of its axes; offsets and
/// strides are in elements. Columns of the result are adjacent.
struct Chunk {
  RowShape shape;
  std::int64_t y = 0, y_row = 0;  // offset of its first element, and from row to row
  std::array<std::int64_t, kOperands> x{}, x_row{}, x_col{};
  Tile tile;  // the same rectangle for an epilogue, without the pointer
};

/// Cuts a result into chunks that stay in L1. In memory order of the result; axes are joined
/// wherever every operand allows.
class PointwiseLoop {
 public:
  PointwiseLoop() = default;
  /// Element strides for each axis of `shape`: y of the result, x of the operands. `tiles`: chunks
  /// never mix images, nor pixels that are not adjacent, so that Chunk::tile is right.
  PointwiseLoop(const Shape& shape, const Ints& y, std::span<const Ints> x, bool tiles);

  [[nodiscard]] std::int64_t chunks() const { return chunks_; }
  /// Chunks that are worth handing to a worker at once.
  [[nodiscard]] std::int64_t chunks_per_task() const { return chunks_per_task_; }
  [[nodiscard]] Chunk chunk(std::int64_t index) const;

 private:
  struct Axis {
    std::int64_t extent = 1, y = 0;
    std::array<std::int64_t, kOperands> x{};
    // Where one step along the axis goes in an epilogue's coordinates: one of them is not 0.
    std::int64_t n = 0, channel = 0, pixel = 0;
  };
  static bool joins(const Axis& outer, const Axis& inner);

  std::vector<Axis> axes_;                    // outermost first; the last two are rows and columns
  std::int64_t run_rows_ = 1, run_cols_ = 1;  // of a whole chunk
  std::int64_t row_chunks_ = 1, col_chunks_ = 1;
  std::int64_t chunks_ = 0, chunks_per_task_ = 1;
};

}  // namespace braze::cpu
