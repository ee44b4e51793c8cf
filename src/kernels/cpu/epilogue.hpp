// Runs an epilogue on a tile of fp32 accumulators while it is in L1.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/cpu/kernel.hpp"

namespace braze::cpu {

/// A rectangle of the output: channels [channel, channel + channels) of the pixels [pixel, pixel +
/// pixels) of image n, pixels counted linearly over the spatial axes. Element (p, c) of the tile is
/// data[p * stride_pixel + c * stride_channel]; one of the strides is 1.
struct Tile {
  float* data = nullptr;
  std::int64_t n = 0;
  std::int64_t pixel = 0, pixels = 0, stride_pixel = 0;
  std::int64_t channel = 0, channels = 0, stride_channel = 1;
};

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

/// y[r][c] = f(x[r][c]) and y[r][c] = clamp(f(a[r][c], b[r][c])): see pointwise_rows.hpp.
struct RowShape;
using UnaryRows = void (*)(RowShape shape, const float* x, std::int64_t x_row, float* y,
                           std::int64_t y_row, float alpha, float beta);
using BinaryRows = void (*)(RowShape shape, const float* a, std::int64_t a_row, const float* b,
                            std::int64_t b_row, float* y, std::int64_t y_row, Clamp clamp);

/// The epilogue of one group member, with its operands located. Immutable after construction.
class TileEpilogue {
 public:
  TileEpilogue() = default;
  /// Operands are found in kernel.group.inputs (run-time ones) or in the graph (constants, copied
  /// as fp32).
  TileEpilogue(const Plan& plan, const KernelPlan& kernel, const Group::Member& member);

  /// Removes leading steps that a Clamp can do (relu, clip with bounds) and returns them as one;
  /// the default Clamp if there are none.
  Clamp take_leading_clamp();
  [[nodiscard]] bool empty() const { return steps_.empty(); }

  /// Applies all steps to the tile in place. Never throws, never allocates.
  void apply(const KernelArguments& arguments, const Tile& tile) const noexcept;

  struct Step {
    bool is_unary = true;
    Unary unary;
    BinaryFn binary = BinaryFn::kAdd;
    bool swapped = false;
    int input = -1;  // index in arguments.inputs; -1: `constant`
    std::vector<float> constant;
    std::int64_t stride_n = 0, stride_pixel = 0,
                 stride_channel = 0;  // of the operand; 0 where it does not vary
    Clamp clamp;                      // of a binary step: the relu or clip that follows it
    UnaryRows unary_rows = nullptr;
    BinaryRows binary_rows = nullptr;         // operand beside the elements
    BinaryRows binary_rows_scalar = nullptr;  // one operand for each row
  };

 private:
  std::vector<Step> steps_;
};

}  // namespace braze::cpu
