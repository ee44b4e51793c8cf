// Convolutions of conv_sm90 from patches (device/conv_patch_sm90.cuh): tiles, what they cost,
// build.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cuda/conv_sm90.hpp"
#include "kernels/cuda/kernel.hpp"

namespace braze::cuda {

/// A tile of `rows` times `columns` pixels, numbered through with the patch's pitch: `pixels` of
/// them are multiplied. 64 output channels; `split` blocks share the steps. Two warpgroups take
/// tiles in turn.
struct PatchTile {
  int rows = 0, columns = 0, pixels = 0, warpgroups = 1, split = 1;
};

/// The patch of a tile, and the block's shared memory.
struct PatchGeometry {
  int pitch = 0, patch_rows = 0;  // of a plane, pixels
  int planes[2] = {1, 1};         // along y, x
  int plane_bytes = 0, patch_bytes = 0, staged_bytes = 0, exchange_bytes = 0;
  int patch_stages = 0, weight_stages = 0, blocks_per_sm = 0, shared_bytes = 0;
  std::int64_t tiles = 0;         // of pixels and channels
  int warpgroups = 1, split = 1;  // of the tile

  /// Of the grid: one for each tile and part of its sum, or so many that stay, all of them with
  /// equally many tiles if that can be.
  [[nodiscard]] std::int64_t blocks(const Device& device) const;
  /// Whether everything fits, too.
  [[nodiscard]] bool possible() const { return weight_stages > 0; }
  /// Are all weights and patches of a block in shared memory at once?
  bool whole = false;
};
PatchGeometry patch_geometry(const ConvSm90Problem& problem, const PatchTile& tile, int staged);

/// All that can run the problem; none where its types or filter do not fit, or where one tap is all
/// (then there is no halo to share, and conv_sm90's tiles are better). `staged` as for
/// conv_sm90_tiles.
std::vector<PatchTile> patch_tiles(const ConvSm90Problem& problem, int staged);
/// Estimated time in the kernel, microseconds.
double patch_us(const ConvSm90Problem& problem, const PatchTile& tile, int staged,
                const Device& device);

/// The kernel. `pitch` are elements from pixel to pixel of the input.
Kernel build_patch(const Plan& plan, const KernelPlan& kernel, const PatchTile& tile,
                   std::int64_t pitch);

}  // namespace braze::cuda
