// The reference for groups that run tile by tile: any such plan, executed exactly as planned, with
// no kernel.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace braze {

/// Runs a group in the tiles of `tiling`: for each tile every member computes, from those elements
/// alone that were computed for this tile (or, in a band, are still kept from the tile above), the
/// part of its result that the tile needs. An element that a member reads
/// and nobody computed is NaN. `values`: by ValueId, what the group reads from memory. Returns the
/// group's outputs, rounded to their dtypes after each node as the interpreter does.
/// kInternal if the group is not of images (GroupTiles::of).
std::vector<Tensor> interpret_tiles(const Graph& graph, const Group& group, const Tiling& tiling,
                                    std::span<const Tensor> values);

}  // namespace braze
