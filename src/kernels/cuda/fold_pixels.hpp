// Adjacent pixels of few channels as one pixel of many. Channels-last, t pixels of C channels are
// t C elements in a row: [N, H, W, C] is [N, H, W / t, t C] as well. A convolution of the one is a
// convolution of the other, whose weights know which of the t pixels they are for:
//
//   w'[j K + k, i C + c, y, x] = w[k, c, y, t (x - p') + i - j + p],  p' = ceil(p / t)
//
// (p: padding on the left; 0 where w has no such tap). It multiplies zeros, but a kernel that works
// on 64 channels at a time has less to load, store and convert.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.hpp"
#include "target/problem.hpp"

namespace braze::cuda {

/// How many pixels (a power of two) of every image of a group of convolutions make `channels`
/// channels or less; 1 where none do or where it cannot be done: all convolutions along columns
/// have stride 1, no dilation and constant weights, all images have rows of whole t pixels,
/// epilogues have operands as large as the result, and constants of one value or one a channel, and
/// only the last result is stored.
std::int64_t foldable_pixels(const Graph& graph, const Group& group, std::int64_t channels);

/// A group of its own that computes the same, with the same inputs and outputs in their order.
struct FoldedGroup {
  Graph graph;
  Group group;
  std::vector<ValueId> from;  // by value: what it is in the graph that was folded, or kNoValue
};
/// `with_weights`: else weights are zeros, which planning does not read.
FoldedGroup fold_pixels(const Graph& graph, const Group& group, std::int64_t times,
                        bool with_weights);

/// A plan of a folded group alone; nothing where an image in memory has gaps between pixels or
/// another layout.
struct FoldedKernel {
  Plan plan;
  KernelPlan kernel;
};
std::optional<FoldedKernel> fold_kernel(const Plan& plan, const KernelPlan& kernel,
                                        std::int64_t times);

}  // namespace braze::cuda
