// Squeeze and excitation as numbers: what a group does, how images are dealt out to blocks, how
// long that takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/window.hpp"
#include "target/problem.hpp"

namespace braze::cuda::squeezing {

inline constexpr int kThreads = 512, kBlocksPerSm = 2;
inline constexpr int kWidest = 8;  // channels that a thread reads at once, at most

inline std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return ceil_div(n, multiple) * multiple;
}

/// The members' parts in it; nullptr: without.
struct Problem {
  const Node* pool = nullptr;
  const Group::Member* squeeze = nullptr;
  const Group::Member* excite = nullptr;
  const Group::Member* scale = nullptr;
  ValueId x = kNoValue;     // the image, where there is one
  ValueId mean = kNoValue;  // what is read instead of it
  std::int64_t images = 1, channels = 1, hidden = 1, pixels = 1;
  DType dtype = DType::kFloat32;  // of the weights
};

/// The group as a problem; nothing if it has another shape, and then `why` has a rule if it nearly
/// had this one.
std::optional<Problem> read(const Graph& graph, const Group& group, Support& why);
/// Of a group that joins() takes.
Problem read(const Graph& graph, const Group& group);

/// How an image is dealt out to blocks. Blocks that exchange sums are a cluster: all of an image
/// where the kernel makes the mean, else those of a range.
struct Split {
  std::int64_t slices = 1, ranges = 1;  // of the channels; of the pixels

  [[nodiscard]] std::int64_t cluster(const Problem& problem) const {
    return problem.pool != nullptr ? slices * ranges : slices;
  }
  [[nodiscard]] std::int64_t slice(const Problem& problem) const {
    return round_up(ceil_div(problem.channels, slices), kWidest);
  }
  [[nodiscard]] std::int64_t range(const Problem& problem) const {
    return ceil_div(problem.pixels, ranges);
  }
};

/// All splits that a device can run.
std::vector<Split> splits_of(const Problem& problem, const Device& device);
Support joins(const Graph& graph, const Group& group, const Device& device);

/// A block's shared memory, in bytes.
struct Arena {
  std::int64_t weights = 0, excite_at = 0;
  std::int64_t partial_at = 0, groups_at = 0, totals_at = 0, mean_at = 0, parts_at = 0,
               hidden_at = 0, gate_at = 0, exchanged_at = 0, held_at = 0;
};
Arena arena_of(const Problem& problem, const Split& split);

/// Vectors of `vector` channels of the image, whose elements are of x's type, that each thread
/// keeps in shared memory between mean and scaling.
std::int64_t vectors_held(const Problem& problem, const Split& split, int vector, DType x,
                          const Device& device);

/// Microseconds of a kernel but its launch. Of a block: trips to memory, exchanges, products and a
/// sum of all threads take as long as they do on an empty GPU; bytes come from the L2 cache at a
/// fraction of the rate of shared memory, or slower where many blocks ask at once.
double time_us(const Problem& problem, const Split& split, DType x, const Device& device);

}  // namespace braze::cuda::squeezing
