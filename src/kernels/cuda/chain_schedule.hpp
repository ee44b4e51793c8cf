// How a chain is run by blocks: the part of each image that a tile needs, where it lies in shared
// memory, which tiles of products make it, in what order weights are used.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/cuda/chain_problem.hpp"
#include "kernels/cuda/device/chain_parameters.h"
#include "kernels/cuda/product.hpp"

namespace braze::cuda {

/// A tile of a product, by the warps (kFma: threads) of a block.
struct ChainProduct {
  int rows, columns;
  int down, across;  // warps or threads along rows and columns
  double rate;       // of the peak rate that it reaches, one block on an SM
};

/// The part of an image that a tile needs.
struct ChainPart {
  std::int64_t rows = 0, columns = 0;
  std::array<std::int64_t, 2> first{0, 0}, step{0, 0};  // of tile t: pixel first + t * step
  std::int64_t held = 0;                                // channels in shared memory, or at once
  std::int64_t pitch = 0, at = 0, bytes = 0;            // in shared memory
  bool on_chip = false;
};

struct ChainStep {
  ChainProduct product{};  // dense
  std::int64_t line = 1, rows = 1, row_tiles = 1, column_tiles = 1;
  std::int64_t of_tap = 0, depth = 0;  // steps of 32 bytes
  std::int64_t table = 0;
  std::int64_t slab = 0;    // depthwise: channels of a slot
  std::int64_t passes = 1;  // of the loop that the stage is in
};

/// Stages first .. last are repeated for parts of the channels that the last sums over, after the
/// input has been loaded likewise where `load`.
struct ChainLoop {
  std::size_t first = 0, last = 0;
  bool load = false;
};

struct ChainSchedule {
  std::int64_t rows = 1, columns = 1, down = 1, across = 1;  // of a tile; tiles of an image
  std::int64_t pass = 0;                                     // channels of a pass
  std::int64_t tiles = 0;                                    // of all images
  bool resident = false;                                     // weights stay
  std::vector<ChainPart> parts;                              // the input's, then each stage's
  std::vector<ChainStep> steps;                              // by stage
  std::vector<ChainLoop> loops;
  std::int64_t scratch_at = 0, weights_at = 0, table_at = 0, shared_bytes = 0;
  std::int64_t table_entries = 0, slots = 0, weight_bytes = 0;
  int blocks_per_sm = 1;
  /// From the end of this stage on, nothing reads the input's part or lies in its place.
  std::size_t input_free = 0;

  /// The loop that a stage is in; nullptr: none.
  [[nodiscard]] const ChainLoop* loop_of(std::size_t stage) const;
};

/// The schedule that a candidate means; nothing if the device cannot run it.
std::optional<ChainSchedule> chain_schedule(const ChainProblem& problem,
                                            const Arithmetic& arithmetic,
                                            const Candidate& candidate, const Device& device);
/// Candidates worth trying, the best by estimate first.
std::vector<Candidate> chain_candidates(const ChainProblem& problem, const Arithmetic& arithmetic,
                                        const Device& device);
/// Microseconds of a kernel but its launch.
double chain_us(const ChainProblem& problem, const ChainSchedule& schedule,
                const Arithmetic& arithmetic, const Device& device);

/// Slots that a stage's weights take: of a column tile or slab, which in a loop belongs to a pass.
std::int64_t chain_steps_of_slot(const ChainStep& step);
/// fn(stage, pass, tile) for every use of a run of slots by a tile, in order: a dense stage's
/// depth for one tile of columns, or a slab of a depthwise stage. Outside of loops pass is 0.
void for_each_use(const ChainProblem& problem, const ChainSchedule& schedule,
                  const std::function<void(std::size_t, std::int64_t, std::int64_t)>& fn);

/// Weights as device/chain_weights.cuh takes them.
struct ChainWeights {
  std::vector<std::byte> bytes;
  std::vector<device::ChainSlot> order;
};
ChainWeights pack_chain(const Graph& graph, const ChainProblem& problem,
                        const ChainSchedule& schedule, const Arithmetic& arithmetic);

}  // namespace braze::cuda
