#include <algorithm>
#include <array>
#include <cmath>

#include "graph/window.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/conv_sm90.hpp"
#include "kernels/cuda/device/conv_sm90_parameters.h"

namespace braze::cuda {
namespace {

constexpr std::array<std::array<int, 2>, 10> kTiles = {{{64, 32},
                                                        {64, 64},
                                                        {64, 128},
                                                        {128, 64},
                                                        {128, 96},
                                                        {128, 128},
                                                        {128, 192},
                                                        {128, 256},
                                                        {256, 64},
                                                        {256, 128}}};

}  // namespace

std::vector<ConvSm90TileShape> conv_sm90_tiles(const ConvSm90Problem& problem, int staged) {
  std::vector<ConvSm90TileShape> tiles;
  const bool unequal = problem.transposed && problem.transposed->unequal();
  const std::int64_t outputs = unequal ? problem.transposed->outputs : problem.outputs;
  for (const auto& [pixels, channels] : kTiles) {
    // Widths that are no power of two pay only where one tile has all outputs.
    const bool odd = channels == 96 || channels == 192;
    const int narrower = channels <= 64 ? 0 : odd ? channels * 2 / 3 : channels - 64;
    if (outputs <= narrower || (odd && outputs > channels)) continue;
    if (pixels > 64 && problem.pixels() <= pixels / 2) continue;
    // Two blocks share a multiprocessor's registers where their accumulators leave room.
    const int most = staged > 0 ? 128 * 96 : 128 * 128;
    const bool fits_twice = pixels * channels <= most, fits_once = pixels > 64;
    for (const int blocks : {1, 2}) {
      if (blocks == 1 ? !fits_once : !fits_twice) continue;
      for (const int split : {1, 2, 4, 8}) {
        if (split > 1 && (problem.least_steps() < 2 * split || problem.pixels() > 1 << 20))
          continue;
        if (split > 1 && (channels > 64 || pixels > 128 || split * pixels > 512)) continue;
        const device::ConvSm90Shared shared{pixels, channels, problem.step_bytes(),
                                            split,  blocks,   staged};
        if (shared.stages >= (staged > 0 ? 2 : 3))
          tiles.push_back({pixels, channels, split, blocks});
      }
    }
  }
  return tiles;
}

std::int64_t tile_count(const ConvSm90Problem& problem, const ConvSm90TileShape& tile) {
  return ceil_div(problem.pixels(), tile.pixels) *
         ceil_div(problem.in_tiles_of(tile.channels).outputs, tile.channels);
}

std::int64_t block_count(const ConvSm90Problem& problem, const ConvSm90TileShape& tile,
                         const Device& device) {
  const std::int64_t tiles = tile_count(problem, tile);
  if (tile.split > 1) return tiles * tile.split;
  const std::int64_t most = std::max<std::int64_t>(1, device.units * tile.blocks_per_sm);
  return ceil_div(tiles, ceil_div(tiles, most));
}

namespace {

device::ConvSm90Shared shared_of(const ConvSm90Problem& problem, const ConvSm90TileShape& tile,
                                 int staged) {
  return {tile.pixels, tile.channels, problem.step_bytes(), tile.split, tile.blocks_per_sm, staged};
}

}  // namespace

bool fits_whole(const ConvSm90Problem& problem, const ConvSm90TileShape& tile, int staged,
                const Device& device) {
  const device::ConvSm90Shared shared = shared_of(problem, tile, staged);
  return block_count(problem, tile, device) == tile_count(problem, tile) * tile.split &&
         ceil_div(problem.steps(), tile.split) <= shared.stages &&
         (staged == 0 || shared.chunks >= shared.tile_chunks);
}

ConvSm90Spread::ConvSm90Spread(double blocks, int blocks_per_sm, int split, int shared_bytes,
                               const Device& device)
    : clock(device.flops_fp16 / (device.units * 4096.0)) {
  const double usable = split > 2 ? device.units * 10.0 / 11 : device.units;
  const double on_one = std::ceil(blocks / usable);
  together = std::min<double>(on_one, blocks_per_sm);
  rounds = std::ceil(on_one / blocks_per_sm);
  l2 = device.cache_bandwidth / clock / std::min(blocks, usable);
  constexpr double kReserved = 1024;  // bytes of each block
  fills = 2 * blocks >
          device.units * std::floor((device.onchip_bytes + kReserved) / (shared_bytes + kReserved));
}

namespace {

// Fitted to times of 343 kernels on an H200, each after itself (cycles, as below). From the end of
// the kernel before: the first operands, then
//   bytes of all steps from the L2 cache: of activations, since most weights come before; and
//   products, which follow each other, at the rate of the tensor cores or one by one: what is
//   shorter hides most of itself;
//   the exchange of a split sum; the epilogue and its stores;
// and what others after this kernel wait for, if there is no place for their blocks beside its own.
double whole_us(const ConvSm90Problem& problem, const ConvSm90TileShape& tile, int staged,
                const Device& device) {
  const double p = tile.pixels, k = tile.channels, row = problem.step_bytes();
  const ConvSm90Spread on(static_cast<double>(tile_count(problem, tile) * tile.split),
                          tile.blocks_per_sm, tile.split, shared_of(problem, tile, staged).bytes,
                          device);
  const auto steps = static_cast<double>(ceil_div(problem.steps(), tile.split));
  const double load = steps * (p + 0.13 * k) * row * on.together / (1.46 * on.l2);
  const double latency = 56.8 * (1 + row / 128), products = 0.84 * p * k * row / 4096;
  const double chain =
      steps * std::pow(std::pow(latency, 4) + std::pow(on.together * products, 4), 0.25);
  const double exchange =
      tile.split > 1 ? (42 * tile.split + 0.387 * p * k) * (1 + 0.69 * (on.together - 1)) : 0;
  const double stored = std::min(k, static_cast<double>(problem.outputs));
  const double epilogue =
      p / tile.split * (0.046 * k + 0.0354 * stored + 2 * stored * on.together * 0.83 / on.l2) +
      (staged > 0 ? 153 : 0);
  constexpr double kBegin = 1882;
  const double cycles = kBegin + (problem.pointwise() ? 0 : 172) + (on.fills ? 98 : 0) +
                        on.rounds * (std::hypot(load, chain) + exchange + epilogue) +
                        (on.rounds - 1) * 0.7 * kBegin;
  return cycles / on.clock * 1e6;
}

}  // namespace

// Fitted to times of 905 kernels on an H200 (cycles; a clock from the peak of products). A step of
// the sum takes the longest of
//   its products: 4096 operations per cycle (fp16; tf32 half of it, of elements twice as wide);
//   reading operands from, and the TMA's writing of them to, shared memory: 128 bytes per cycle;
//   the TMA's walk over pixels;
//   its bytes from the L2 cache, whose bandwidth the busy multiprocessors divide; weights, which
//   all of them read at once, count more;
// each times the blocks that share a multiprocessor; or of the latency of a block's own chain. A
// multiprocessor does its blocks' tiles one after another. Left out: DRAM.
double conv_sm90_us(const ConvSm90Problem& problem, const ConvSm90TileShape& tile, int staged,
                    const Device& device) {
  if (fits_whole(problem, tile, staged, device)) return whole_us(problem, tile, staged, device);
  const double peak = problem.dtype == DType::kFloat32 ? 2 * device.flops_tf32 : device.flops_fp16;
  const double clock = peak / (device.units * 4096.0);  // Hz
  const double p = tile.pixels, k = tile.channels, row = problem.step_bytes(), split = tile.split;
  const double tiles = static_cast<double>(tile_count(problem, tile));
  const double each = tile.split > 1 ? 1 : std::ceil(tiles / (device.units * tile.blocks_per_sm));
  const double blocks = std::ceil(tiles / each) * split;
  const double usable = tile.split > 2 ? device.units * 10.0 / 11 : device.units;
  const double on_one = std::ceil(blocks / usable);  // blocks of the busiest multiprocessor
  const double together = std::min<double>(on_one, tile.blocks_per_sm);
  const double rounds = tile.split > 1 ? std::ceil(on_one / tile.blocks_per_sm) : each;

  const double products = 0.92 * p * k * row / 4096;
  const double shared = 0.69 * (p / 64 * (row / 32) * (64 + k) * 32 + (p + k) * row) / 128;
  const double walk = (problem.pointwise() ? 1.06 : 1.54) * p;
  const double l2_part =
      std::min(85.0, 2.76 * device.cache_bandwidth / clock / std::min(blocks, usable));
  const double l2 = (p + 1.2 * k) * row / l2_part;
  const double latency = 138 + (tile.pixels == 64 ? 0.75 : 0.19) * k;
  const double step = std::max(together * std::max({products, shared, walk, l2}), latency);
  // Of several tiles of a block, some have fewer.
  const double steps =
      each > 1 ? problem.mean_steps() : static_cast<double>(ceil_div(problem.steps(), tile.split));

  double epilogue = 572 + 0.1 * p * k;
  if (tile.split > 1) epilogue = 1070 + (0.052 / split + 0.218) * p * k;
  epilogue *= 1 + 0.28 * (together - 1);
  constexpr double kBegin = 1790;  // until the first operands are there
  const double cycles = kBegin + rounds * steps * step + (1 + 1.45 * (rounds - 1)) * epilogue;
  return cycles / clock * 1e6;
}

Candidate candidate_of(const ConvSm90TileShape& tile) {
  return {{{"pixels", tile.pixels},
           {"channels", tile.channels},
           {"split", tile.split},
           {"blocks", tile.blocks_per_sm}}};
}

ConvSm90TileShape tile_of(const Candidate& candidate) {
  const auto get = [&](const char* name) { return static_cast<int>(candidate.get(name, 1)); };
  return {get("pixels"), get("channels"), get("split"), get("blocks")};
}

Work conv_sm90_work(const Graph& graph, const Group& group, const ConvSm90Problem& problem,
                    double us, std::int64_t blocks, const Device& device) {
  const double peak = problem.dtype == DType::kFloat32 ? device.flops_tf32 : device.flops_fp16;
  Work work = cpu::streaming_work(graph, group, problem.flops(), 1);
  // Memory and the rest overlap, but not wholly: of candidates that memory bounds, too, the faster
  // one is to be seen.
  const double bandwidth =
      work.dram_bytes < device.cache_bytes ? device.cache_bandwidth : device.dram_bandwidth;
  const double memory_us = work.dram_bytes / bandwidth * 1e6;
  const double all_us = std::max(memory_us, us) + 0.1 * std::min(memory_us, us);
  work.efficiency = problem.flops() / (all_us * 1e-6 * peak);
  work.units = static_cast<double>(blocks);
  return work;
}

Work conv_sm90_work(const Graph& graph, const Group& group, const ConvSm90Problem& problem,
                    const ConvSm90TileShape& tile, int staged, const Device& device) {
  return conv_sm90_work(graph, group, problem, conv_sm90_us(problem, tile, staged, device),
                        block_count(problem, tile, device), device);
}

}  // namespace braze::cuda
