// Chains of convolutions by TMA and wgmma: what the files of the family share.
//
//   chain_sm90.cpp        the family's row: what it takes, candidates, work
//   chain_sm90_tiles.cpp  tiles, where they lie in shared memory, what they cost
//   chain_sm90_build.cpp  packing and build
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cuda/chain_problem.hpp"
#include "kernels/cuda/device/chain_sm90_parameters.h"
#include "kernels/cuda/kernel.hpp"
#include "plan/plan.hpp"

namespace braze::cuda::chain90 {

/// What a block does: `teams` tiles of rows x columns of the last result at a time, each by
/// `warpgroups` that share its pixels.
struct Tile {
  int rows = 0, columns = 0, teams = 1, warpgroups = 1;
  bool resident = true;  // weights stay in shared memory; else they come again for each tile
};

/// How a problem is run, besides its tiles: which operands of epilogues are read from shared
/// memory, by stage, either results of stages before or tensors in memory, which are loaded to
/// where the stage's result will be; the last result leaves by TMA.
struct Storage {
  std::array<const ChainOperand*, device::kMostChainStages> held{};
  bool by_tma = false;
  bool staged = false;  // the last result leaves by way of shared memory, by TMA or copied
  [[nodiscard]] bool loads(std::size_t stage) const {
    return held[stage] != nullptr && held[stage]->source.of != ChainSource::Of::kStage;
  }
};
/// `problem` outlives it.
Storage storage_of(const ChainProblem& problem, DType result);

/// A stage's tile. Byte offsets are in a team's memory.
struct StageTile {
  int rows = 0, columns = 0, pitch = 0, top = 0, left = 0;
  int pixels = 0;   // columns of a warpgroup's product
  int filters = 0;  // of a depthwise stage: planes whose filters are a step
  int slices = 4;   // of 16 channels in a plane of what it reads
  int planes = 1, blocks = 1;
  int group_bytes = 1024;
  int to = 0, to_plane = 0;
};

struct Geometry {
  std::vector<StageTile> stages;
  std::int64_t tiles = 0;
  int phases[2] = {1, 1};                // of the input: rows, columns
  int phase_rows = 0, phase_pitch = 0;   // pixels
  int phase_bytes = 0, plane_bytes = 0;  // of the input
  int input_slots = 0;                   // of a team
  int steps = 0, weight_slots = 0;
  int team_bytes = 0, staged = 0, staged_bytes = 0, staged_buffers = 0;
  int staged_beyond = 0;    // in pixels, the place of what is none
  bool overwrites = false;  // the last result takes the place of what it is made of
  int shared_bytes = 0;

  [[nodiscard]] bool possible() const { return shared_bytes > 0; }
};
Geometry geometry(const ChainProblem& problem, const Storage& storage, const Tile& tile);

/// Of a grid that fills `units` multiprocessors, all with as many rounds.
std::int64_t block_count(const Geometry& geometry, const Tile& tile, int units);

/// Are the taps in a row of a depthwise stage's filter adjacent pixels, few enough for registers?
bool is_adjacent(const ChainStage& stage);

/// Estimated time in the kernel, microseconds.
double time_us(const ChainProblem& problem, const Storage& storage, const Tile& tile,
               const Geometry& geometry, const Device& device);

/// Tiles that fit, the fastest by estimate first.
std::vector<Tile> tiles_of(const ChainProblem& problem, const Storage& storage,
                           const Device& device, std::size_t most);
/// Is there any?
bool fits(const ChainProblem& problem, const Storage& storage);

Kernel build(const Plan& plan, const KernelPlan& kernel, const Tile& tile);

}  // namespace braze::cuda::chain90
