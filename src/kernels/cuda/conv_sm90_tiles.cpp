#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cuda/conv_sm90.hpp"
#include "kernels/cuda/device/conv_sm90_parameters.h"

namespace braze::cuda {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr std::array<std::array<int, 2>, 11> kTiles = {{{64, 32},
                                                        {64, 64},
                                                        {64, 96},
                                                        {64, 128},
                                                        {128, 64},
                                                        {128, 96},
                                                        {128, 128},
                                                        {128, 192},
                                                        {128, 256},
                                                        {256, 64},
                                                        {256, 128}}};

}  // namespace

std::vector<ConvSm90TileShape> conv_sm90_tiles(const ConvSm90Problem& problem) {
  std::vector<ConvSm90TileShape> tiles;
  for (const auto& [pixels, channels] : kTiles) {
    const std::int64_t narrower = channels == 32 ? 0 : channels == 256 ? 192 : channels - 64;
    if (problem.outputs <= narrower) continue;
    if (pixels > 64 && problem.pixels() <= pixels / 2) continue;
    for (const int split : {1, 2, 4, 8}) {
      if (split > 1 && (problem.steps() < 2 * split || problem.pixels() > 1 << 20)) continue;
      if (pixels / split < 8 || (split > 1 && pixels * channels > 128 * 128)) continue;
      if (split > 4 && pixels > 64) continue;
      if (device::ConvSm90Shared{pixels, channels, problem.step_bytes(), split}.stages < 3)
        continue;
      // Sharing filters between two blocks (multicast) took 1.3 to 2 times as long on an H200.
      tiles.push_back({pixels, channels, split, 1});
    }
  }
  return tiles;
}

std::int64_t tile_count(const ConvSm90Problem& problem, const ConvSm90TileShape& tile) {
  return ceil_div(ceil_div(problem.pixels(), tile.pixels), tile.share) *
         ceil_div(problem.outputs, tile.channels);
}

// A step of a block takes the longest of
//   its products: 4096 operations per cycle (fp16; tf32 half of it, of elements twice as wide);
//   reading operands from, and the TMA's writing of them to, shared memory: 128 bytes per cycle;
//   its bytes from the L2 cache, whose bandwidth the busy multiprocessors divide.
// A multiprocessor does its blocks' tiles one after another; epilogues run partly beside the
// products of the next tile. Left out: DRAM, which the planner adds.
double conv_sm90_us(const ConvSm90Problem& problem, const ConvSm90TileShape& tile,
                    const Device& device) {
  const double peak = problem.dtype == DType::kFloat32 ? 2 * device.flops_tf32 : device.flops_fp16;
  const double clock = peak / (device.units * 4096.0);  // Hz
  const double p = tile.pixels, k = tile.channels, row = problem.step_bytes();
  const double blocks = static_cast<double>(tile_count(problem, tile)) * tile.cluster();
  const double usable = tile.cluster() > 2 ? device.units * 10 / 11 : device.units;

  const double products = p * k * row / 4096;
  const double shared = (p / 64 * (row / 32) * (64 + k) * 32 + (p + k) * row) / 128;
  const double l2_share = std::min(64.0, device.cache_bandwidth / clock / std::min(blocks, usable));
  const double l2 = (p + k / tile.share) * row / l2_share;
  const double step = std::max({products, shared, l2, 40.0});
  const double steps = static_cast<double>(ceil_div(problem.steps(), tile.split));

  double epilogue = 300 + p * k / 16;
  if (tile.split > 1)
    epilogue = 1000 + p * k / 16 / tile.split + p * k * 4 / 16 * (tile.split - 1) / tile.split;
  const double in_turn = std::ceil(blocks / usable);
  constexpr double kBegin = 1500;  // cycles until the first operands are there
  const double cycles =
      kBegin + (in_turn - 1) * (steps * step + 0.6 * epilogue) + (steps * step + epilogue);
  return cycles / clock * 1e6;
}

}  // namespace braze::cuda
