// Convolutions by TMA and wgmma: what the files of the family share.
//
//   conv_sm90.cpp          the family's row: what it supports, candidates, which kernel is built
//   conv_sm90_problem.cpp  what a node asks for
//   conv_sm90_tiles.cpp    tiles of the kernel that gathers by im2col, and what they cost
//   conv_sm90_im2col.cpp   its packing and build
//   conv_sm90_patch.cpp    the kernel that reads patches: tiles, what they cost, packing, build
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/kernel.hpp"
#include "plan/plan.hpp"
#include "target/problem.hpp"

namespace braze::cuda {

/// y[pixel, output] = sum over taps and channels of x[pixel moved by tap, channel] w[output, tap,
/// channel]. Axes are height, width. A matrix product has one tap, and rows for pixels.
struct ConvSm90Problem {
  DType dtype = DType::kFloat16;
  std::int64_t batch = 1, channels = 1, outputs = 1;
  std::int64_t in[2] = {1, 1}, out[2] = {1, 1}, kernel[2] = {1, 1};
  std::int64_t stride[2] = {1, 1}, dilation[2] = {1, 1}, pad[2] = {0, 0};

  [[nodiscard]] std::int64_t taps() const { return kernel[0] * kernel[1]; }
  [[nodiscard]] std::int64_t pixels() const { return batch * out[0] * out[1]; }
  /// Every pixel of the result is the same pixel of the input.
  [[nodiscard]] bool pointwise() const;
  [[nodiscard]] double flops() const;
  /// Bytes of input channels in one step of the sum (128, 64 or 32: a swizzle), so that little of
  /// the last block of channels is wasted.
  [[nodiscard]] int step_bytes() const;
  [[nodiscard]] std::int64_t step_channels() const;
  [[nodiscard]] std::int64_t channel_blocks() const;
  [[nodiscard]] std::int64_t steps() const { return taps() * channel_blocks(); }
};

/// Of an anchor that the family supports.
ConvSm90Problem conv_sm90_problem(const Graph& graph, const Node& node);

/// Elements from one output, channel and tap to the next in the model's constant.
struct WeightStrides {
  std::int64_t output, channel, tap = 1;
};
WeightStrides weight_strides(const ConvSm90Problem& problem, const Node& node);

/// The bias as fp32, zeros where there is none, for `channels` or a multiple of them.
Address pack_bias(const Plan& plan, ValueId bias, std::int64_t channels, Kernel& kernel);

/// What a cluster of `split` blocks, which share the steps of the sum, works on at a time.
struct ConvSm90TileShape {
  int pixels = 0, channels = 0, split = 1;
  int blocks_per_sm = 1;  // 2: one begins while the other ends

  /// A warp loads; another one where an operand of the epilogue is staged.
  [[nodiscard]] int threads(bool stages) const {
    return math_threads() + (blocks_per_sm == 1 ? 128 : stages ? 64 : 32);
  }
  [[nodiscard]] int math_threads() const { return pixels > 64 ? 256 : 128; }
};

/// All that can run the problem; `staged` are the bytes of an element of the operand that the
/// epilogue may stage, 0 without one.
std::vector<ConvSm90TileShape> conv_sm90_tiles(const ConvSm90Problem& problem, int staged);
std::int64_t tile_count(const ConvSm90Problem& problem, const ConvSm90TileShape& tile);
/// Blocks stay and take tiles in turn, all of them equally many if that can be; sums that are split
/// are one tile for each cluster.
std::int64_t block_count(const ConvSm90Problem& problem, const ConvSm90TileShape& tile,
                         const Device& device);
/// Has each block one tile, or part of one, whose operands are in shared memory all at once?
bool fits_whole(const ConvSm90Problem& problem, const ConvSm90TileShape& tile, int staged,
                const Device& device);
/// Estimated time in the kernel, microseconds.
double conv_sm90_us(const ConvSm90Problem& problem, const ConvSm90TileShape& tile,
                    const Device& device);

/// The kernel. `pitch` are elements from pixel to pixel of the input.
Kernel build_im2col(const Plan& plan, const KernelPlan& kernel, const ConvSm90TileShape& tile,
                    std::int64_t pitch);

}  // namespace braze::cuda
