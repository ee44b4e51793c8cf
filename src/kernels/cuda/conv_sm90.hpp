// Convolutions by TMA and wgmma: what the files of the family share.
//
//   conv_sm90.cpp          the family's row: candidates, which kernel is built
//   conv_sm90_problem.cpp  what a node asks for, and what the family supports
//   conv_sm90_tiles.cpp    tiles of the kernel that gathers by im2col, and what they cost
//   conv_sm90_im2col.cpp   its packing and build
//   conv_sm90_patch.cpp    the kernel that reads patches: tiles, what they cost, packing, build
//   conv_sum_sm90.cpp      the family that adds two convolutions up: its row
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/kernel.hpp"
#include "plan/plan.hpp"
#include "target/problem.hpp"

namespace braze::cuda {

/// A transposed convolution as one of stride 1. Output o lies at u = o + pad = q stride + f, f the
/// phase. Its taps are those at f + j stride, j < T = kernel / stride rounded up, and read input
/// q - j dilation (of stride and dilation one is 1). So all phases are one convolution of T taps,
/// backwards, whose outputs are `columns` of each phase, phases counted along x first, and the q
/// its pixels. Phases from `whole` on have only T - 1 taps: not the first one, backwards.
struct ConvSm90Transposed {
  std::int64_t stride[2] = {1, 1}, kernel[2] = {1, 1}, whole[2] = {1, 1};
  std::int64_t outputs = 1, columns = 8;  // of a phase: real ones, and rounded up to vectors
  std::int64_t corner[2] = {0, 0};        // output of phase 0 of the first q
  std::int64_t out[2] = {1, 1};           // extents of the result

  /// Have phases taps of their own? Then a tile has columns of one phase.
  [[nodiscard]] bool unequal() const { return whole[0] < stride[0] || whole[1] < stride[1]; }
};

/// y[pixel, output] = sum over taps and channels of x[pixel moved by tap, channel] w[output, tap,
/// channel]. Axes are height, width. A matrix product has one tap, and rows for pixels.
struct ConvSm90Problem {
  DType dtype = DType::kFloat16;
  std::int64_t batch = 1, channels = 1, outputs = 1;
  std::int64_t in[2] = {1, 1}, out[2] = {1, 1}, kernel[2] = {1, 1};
  std::int64_t stride[2] = {1, 1}, dilation[2] = {1, 1}, pad[2] = {0, 0};
  std::int64_t output_stride = 1, channel_stride = 1;  // elements of weights; taps are adjacent
  std::optional<ConvSm90Transposed> transposed;
  // Of a second convolution whose result is added.
  std::int64_t more_steps = 0;
  double more_flops = 0;

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
  [[nodiscard]] std::int64_t steps() const { return taps() * channel_blocks() + more_steps; }
  /// Those of the phase that has fewest, and on average.
  [[nodiscard]] std::int64_t least_steps() const;
  [[nodiscard]] double mean_steps() const;
  /// Elements of the weights that are channel 0's of each tap of an output; none of outputs that
  /// only fill a phase up.
  [[nodiscard]] std::vector<std::int64_t> weights_of(std::int64_t output) const;
  /// With as many columns of a phase as tiles of so many channels have, where a tile has one phase.
  [[nodiscard]] ConvSm90Problem in_tiles_of(int channels) const;
};

/// A convolution that adds to a sum; `pitch` are elements from pixel to pixel of its input.
struct ConvSm90Term {
  const Node* node = nullptr;
  ConvSm90Problem problem;
  std::int64_t pitch = 0;
};
/// One convolution, or the sum of two whose results have one shape and whose steps are equally
/// long.
struct ConvSm90Sum {
  std::vector<ConvSm90Term> terms;
  Group::Member finish;  // what follows the sum

  /// The first term's, with the steps of all.
  [[nodiscard]] ConvSm90Problem problem() const;
};

/// Of an anchor that the family supports.
ConvSm90Problem conv_sm90_problem(const Graph& graph, const Node& node);

/// The bias as fp32, zeros where there is none, for `channels` or a multiple of them; of several,
/// their sum.
Address pack_biases(const Plan& plan, const std::vector<ValueId>& biases, std::int64_t channels,
                    Kernel& kernel);
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
/// How the blocks of a grid share the multiprocessors, for estimates of time.
struct ConvSm90Spread {
  double clock;             // Hz, from the peak of products
  double together, rounds;  // blocks of the busiest multiprocessor at a time, and one by one
  double l2;                // bytes per cycle from the L2 cache, of each multiprocessor
  bool fills;               // there is no place for as many blocks of the next kernel
  ConvSm90Spread(double blocks, int blocks_per_sm, int split, int shared_bytes,
                 const Device& device);
};
/// Estimated time in the kernel, microseconds.
double conv_sm90_us(const ConvSm90Problem& problem, const ConvSm90TileShape& tile, int staged,
                    const Device& device);

Candidate candidate_of(const ConvSm90TileShape& tile);
ConvSm90TileShape tile_of(const Candidate& candidate);
/// Work of a kernel on so many blocks that takes `us` where memory does not bound it.
Work conv_sm90_work(const Graph& graph, const Group& group, const ConvSm90Problem& problem,
                    double us, std::int64_t blocks, const Device& device);
Work conv_sm90_work(const Graph& graph, const Group& group, const ConvSm90Problem& problem,
                    const ConvSm90TileShape& tile, int staged, const Device& device);

/// What the family supports; elements from pixel to pixel of an input that the TMA can read, or
/// nothing.
Support supports_conv_sm90(const Graph& graph, const Node& node, const Device& device);
std::optional<std::int64_t> readable_pitch(const Plan& plan, ValueId id);
/// Bytes of an element of the widest operand of the epilogue that is as large as the result: 0
/// without one.
int staged_bytes(const Graph& graph, const Group::Member& member, bool converts);
/// Does its kernel stage one? Not where the pixels of a tile are not adjacent in the result.
inline bool stages_operand(const Node& anchor) { return anchor.kind() != OpKind::kConvTranspose; }

Kernel build_im2col(const Plan& plan, const KernelPlan& kernel, const ConvSm90TileShape& tile,
                    const ConvSm90Sum& sum);

}  // namespace braze::cuda
