// Depthwise convolution on CUDA: what is computed, and how much of it a thread makes.
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace braze::cuda {

inline constexpr int kDepthwiseThreads = 128;

/// Extents and strides of height and width; of one spatial axis, height is 1.
struct DepthwiseProblem {
  std::int64_t n = 1, channels = 1, multiplier = 1;
  std::int64_t height = 1, width = 1;  // of the output, height with depth
  int kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  std::int64_t taps = 1;         // of the whole filter
  bool flat = true;              // no depth
  int x_bytes = 2, y_bytes = 2;  // of an element
  int epilogue = 0;              // instructions for an element, about

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(taps * n * channels * height * width);
  }
};
/// Of a group whose anchor the family supports.
DepthwiseProblem depthwise_problem(const Graph& graph, const Group& group);

/// A thread makes `vector` channels of `pixels` adjacent pixels of `rows` rows:
/// conv_depthwise_strip where rows are several, else conv_depthwise_window.
struct DepthwiseTile {
  int vector = 0, pixels = 1, rows = 1;
  /// The kernel for any geometry, which chooses for itself.
  [[nodiscard]] bool any() const { return vector == 0; }
};

/// The likely ones, best guess first; at least one.
std::vector<DepthwiseTile> depthwise_tiles(const DepthwiseProblem& problem, const Device& device);

/// A guess at the time that instructions, latencies and bytes take.
double depthwise_seconds(const DepthwiseProblem& problem, const DepthwiseTile& tile,
                         const Device& device);

/// Blocks of conv_depthwise_strip whose registers fit a multiprocessor.
int depthwise_blocks_per_sm(const DepthwiseProblem& problem, const DepthwiseTile& tile);

}  // namespace braze::cuda
