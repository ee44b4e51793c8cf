// Runs an epilogue on a tile of fp32 accumulators while it is in L1.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/kernel.hpp"
#include "kernels/cpu/pointwise_rows.hpp"

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
    // Of the operand; 0 where it does not vary.
    std::int64_t stride_n = 0, stride_pixel = 0, stride_channel = 0;
    Clamp clamp;  // of a binary step: the relu or clip that follows it
    UnaryRows unary_rows = nullptr;
    BinaryTile binary_tile;
  };

 private:
  std::vector<Step> steps_;
};

}  // namespace braze::cpu
