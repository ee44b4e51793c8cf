#include "kernels/cuda/conv_sm90_patch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "graph/window.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/device/conv_patch_sm90_parameters.h"
#include "kernels/cuda/emit.hpp"

namespace braze::cuda {
namespace {

constexpr std::int64_t kStepChannels = 64, kTileChannels = 64;
/// Bytes of a pixel in shared memory, and of an element.
constexpr int kRow = 128, kElement = 2;
/// Columns of a product: those that device/ptx_sm90.cuh has.
constexpr std::array kPixels = {32, 64, 112, 128, 192, 224, 240};

int to_int(std::int64_t n) { return static_cast<int>(n); }
int round_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

std::int64_t channel_blocks(const ConvSm90Problem& problem) {
  return ceil_div(problem.channels, kStepChannels);
}
std::int64_t steps(const ConvSm90Problem& problem) {
  return channel_blocks(problem) * problem.taps();
}

/// Of the last tap along an axis, past the first: whole strides, and the rest.
struct Reach {
  int strides, planes;
};
Reach reach(const ConvSm90Problem& problem, std::size_t axis) {
  Reach reach{0, 1};
  for (std::int64_t tap = 0; tap < problem.kernel[axis]; ++tap) {
    const std::int64_t at = tap * problem.dilation[axis];
    reach.strides = std::max(reach.strides, to_int(at / problem.stride[axis]));
    reach.planes = std::max(reach.planes, to_int(at % problem.stride[axis]) + 1);
  }
  return reach;
}

bool takes(const ConvSm90Problem& problem) {
  return !problem.transposed && size_of(problem.dtype) == kElement && problem.taps() > 1 &&
         problem.taps() <= device::kMaxPatchTaps && problem.stride[0] == problem.stride[1] &&
         problem.stride[0] <= 8 && problem.pixels() <= std::int64_t{1} << 30;
}

}  // namespace

std::int64_t PatchGeometry::blocks(const Device& device) const {
  if (warpgroups == 1) return tiles * split;
  return ceil_div(tiles, ceil_div(tiles, device.units));
}

PatchGeometry patch_geometry(const ConvSm90Problem& problem, const PatchTile& tile, int staged) {
  PatchGeometry g;
  g.warpgroups = tile.warpgroups, g.split = tile.split;
  const Reach y = reach(problem, 0), x = reach(problem, 1);
  const int stride = to_int(problem.stride[0]);
  g.pitch = tile.columns + x.strides;
  g.patch_rows = tile.rows + y.strides;
  g.planes[0] = y.planes, g.planes[1] = x.planes;
  g.tiles = ceil_div(problem.out[0], tile.rows) * ceil_div(problem.out[1], tile.columns) *
            problem.batch * ceil_div(problem.outputs, kTileChannels);
  // A box of the TMA has at most 256 positions along an axis.
  if (g.pitch * stride > 256 || g.patch_rows * stride > 256) return g;

  g.plane_bytes = round_up(g.pitch * g.patch_rows * kRow, 1024);
  g.patch_bytes = g.plane_bytes * y.planes * x.planes;
  g.staged_bytes = staged > 0 ? round_up(tile.rows * g.pitch * kRow, 1024) : 0;
  g.exchange_bytes = tile.split > 1 ? tile.pixels * 256 : 0;
  const auto part = to_int(ceil_div(steps(problem), tile.split));
  // All patches of the block where they are small, else two of them.
  const int all = std::min<int>(to_int(ceil_div(part - 1, problem.taps()) + 1),
                                to_int(channel_blocks(problem)));
  const bool in_turn = tile.warpgroups == 2;
  for (const int blocks : {2, 1}) {
    if (blocks == 2 && in_turn) continue;
    const int budget = (blocks == 2 ? 112 : 225) * 1024 - device::kPatchBarriers -
                       tile.warpgroups * g.staged_bytes - g.exchange_bytes;
    const int weights = std::min(part, 6) * device::kPatchWeights;
    const int fit = (budget - weights) / g.patch_bytes;
    if (fit < (in_turn ? 2 : std::min(all, blocks == 2 ? 2 : 1))) continue;
    g.blocks_per_sm = blocks;
    g.patch_stages = std::min({in_turn ? fit : all, fit, device::kMostPatchStages});
    const int fit_weights = (budget - g.patch_stages * g.patch_bytes) / device::kPatchWeights;
    g.whole = !in_turn && g.patch_stages == all && fit_weights >= part;
    g.weight_stages =
        g.whole ? part
                : std::min({in_turn ? 2 * part : part, fit_weights, device::kMostWeightStages});
    break;
  }
  g.shared_bytes = device::kPatchBarriers + tile.warpgroups * g.staged_bytes + g.exchange_bytes +
                   g.patch_stages * g.patch_bytes + g.weight_stages * device::kPatchWeights;
  return g;
}

std::vector<PatchTile> patch_tiles(const ConvSm90Problem& problem, int staged) {
  std::vector<PatchTile> tiles;
  if (!takes(problem) || (staged != 0 && staged != kElement)) return tiles;
  const int reach_x = reach(problem, 1).strides;
  const std::int64_t width = problem.out[1], height = problem.out[0];
  for (const int pixels : kPixels) {
    // The widest tiles, of equal widths, with the most rows that the product has columns for.
    const int columns = to_int(ceil_div(width, ceil_div(width, pixels - 8)));
    const auto fit = (pixels - columns) / (columns + reach_x) + 1;
    const int rows = to_int(std::min<std::int64_t>(fit, height));
    const int covered = (rows - 1) * (columns + reach_x) + columns;
    if (pixels > kPixels.front() && covered <= pixels * 2 / 3) continue;
    const auto add = [&](int warpgroups, int split) {
      const PatchTile tile{rows, columns, pixels, warpgroups, split};
      const PatchGeometry geometry = patch_geometry(problem, tile, staged);
      if (geometry.possible() && (warpgroups == 1 || geometry.tiles > 1)) tiles.push_back(tile);
    };
    for (const int split : {1, 2, 4, 8}) {
      if (pixels <= 128 && (split == 1 || steps(problem) >= 2 * split)) add(1, split);
    }
    add(2, 1);
  }
  return tiles;
}

namespace {

// Fitted to times of 34 kernels on an H200, as in conv_sm90_tiles.cpp. One copy brings all weights,
// most of them before the kernel's turn; each plane of a patch is a copy of its own.
double whole_us(const ConvSm90Problem& problem, const PatchTile& tile, int staged,
                const PatchGeometry& g, const Device& device) {
  const ConvSm90Spread on(static_cast<double>(g.tiles) * tile.split, g.blocks_per_sm, tile.split,
                          g.shared_bytes, device);
  const double part = std::ceil(static_cast<double>(steps(problem)) / tile.split);
  const double bytes =
      static_cast<double>(g.patch_stages) * g.patch_bytes + 0.57 * part * device::kPatchWeights;
  const double copies = 117.0 * g.planes[0] * g.planes[1] * g.patch_stages;
  const double load =
      on.together * std::pow(std::pow(bytes / (1.7 * on.l2), 4) + std::pow(copies, 4), 0.25);
  const double products = 1.06 * 2 * tile.pixels * on.together;
  const double chain = part * std::pow(std::pow(124, 4) + std::pow(products, 4), 0.25);
  const double exchange = tile.split > 1 ? 231 + 15.5 * tile.pixels : 0;
  const double epilogue =
      (8.45 * tile.pixels / tile.split + (staged > 0 ? 78 : 0)) * (1 + 0.79 * (on.together - 1));
  constexpr double kBegin = 1838;
  const double cycles = kBegin + (on.fills ? 68 : 0) +
                        on.rounds * (std::hypot(load, chain) + exchange + epilogue) +
                        (on.rounds - 1) * 0.7 * kBegin;
  return cycles / on.clock * 1e6;
}

}  // namespace

// Fitted to times of 363 kernels on an H200 (cycles; a clock from the peak of products), as in
// conv_sm90_tiles.cpp.
double patch_us(const ConvSm90Problem& problem, const PatchTile& tile, int staged,
                const Device& device) {
  const PatchGeometry g = patch_geometry(problem, tile, staged);
  if (g.whole) return whole_us(problem, tile, staged, g, device);
  const double clock = device.flops_fp16 / (device.units * 4096.0);  // Hz
  const double blocks = static_cast<double>(g.tiles) * tile.split;
  const double usable = tile.split > 2 ? device.units * 10.0 / 11 : device.units;
  const double products = 2.0 * tile.pixels;
  const double bytes = device::kPatchWeights +
                       static_cast<double>(g.patch_bytes) / static_cast<double>(problem.taps());
  const double l2_part = 1.54 * device.cache_bandwidth / clock / std::min(blocks, usable);
  const double part = std::ceil(static_cast<double>(steps(problem)) / tile.split);
  const double ends = 2285 + 15.7 * tile.pixels + (tile.split > 1 ? 834 + 1.4 * tile.pixels : 0);
  double cycles = 0;
  if (tile.warpgroups == 2) {
    const double step = std::max({1.07 * products, bytes / l2_part, 140 + 0.8 * products});
    cycles = std::ceil(blocks / usable) * std::max(part * step, (part * step + ends) / 2) + ends;
  } else {
    // Clusters do not share multiprocessors well.
    const double shared = tile.split > 1 ? 1 : g.blocks_per_sm;
    const double together = std::min(shared, std::ceil(blocks / usable));
    const double step =
        std::max({1.07 * products * together, bytes * together / l2_part, 140 + 0.8 * products});
    cycles = std::ceil(blocks / (usable * shared)) * (part * step + ends);
  }
  return cycles / clock * 1e6;
}

namespace {

std::uint64_t u64(std::int64_t n) { return static_cast<std::uint64_t>(n); }
std::uint32_t u32(std::int64_t n) { return static_cast<std::uint32_t>(n); }

/// Images of shared memory, [64 outputs][channel block][tap]: rows of 64 channels, swizzled. Of 16
/// outputs, the even ones come first.
std::vector<std::byte> pack(const ConvSm90Problem& problem, const Tensor& weights) {
  const std::int64_t all = steps(problem);
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(ceil_div(problem.outputs, kTileChannels) * all) *
      device::kPatchWeights);
  const auto* const from = static_cast<const std::byte*>(weights.data());
  for (std::int64_t k = 0; k < problem.outputs; ++k) {
    const std::int64_t row = k % kTileChannels / 16 * 16 + k % 2 * 8 + k % 16 / 2;
    for (std::int64_t c = 0; c < problem.channels; ++c) {
      const std::int64_t byte = c % kStepChannels * kElement;
      const std::int64_t in_row = (byte / 16 ^ row % 8) * 16 + byte % 16;
      for (std::int64_t tap = 0; tap < problem.taps(); ++tap) {
        const std::int64_t block =
            k / kTileChannels * all + c / kStepChannels * problem.taps() + tap;
        std::memcpy(
            &bytes[static_cast<std::size_t>(block * device::kPatchWeights + row * kRow + in_row)],
            from + (k * problem.output_stride + c * problem.channel_stride + tap) * kElement,
            kElement);
      }
    }
  }
  return bytes;
}

/// [n, y, x, c] of a tensor with this many pixels, in boxes of rows times columns every `stride`.
TensorMap pixels_map(DType dtype, std::int64_t channels, std::int64_t width, std::int64_t height,
                     std::int64_t images, std::int64_t pitch, int columns, int rows,
                     std::int64_t stride) {
  TensorMap map;
  map.dtype = dtype;
  map.swizzle_bytes = kRow;
  const std::int64_t row = pitch * width * kElement;
  map.extents = {u64(channels), u64(width), u64(height), u64(images)};
  map.strides = {u64(pitch * kElement), u64(row), u64(row * height)};
  map.box = {kRow / kElement, u32(columns * stride), u32(rows * stride), 1};
  map.steps = {1, u32(stride), u32(stride), 1};
  return map;
}

}  // namespace

Kernel build_patch(const Plan& plan, const KernelPlan& kernel, const PatchTile& tile,
                   std::int64_t pitch) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const Group::Member& member = group.members.front();
  const ConvSm90Problem problem = conv_sm90_problem(plan.graph, node);
  Kernel result;
  device::ConvPatchParameters p{};
  EpilogueEmitter epilogue(plan, kernel, result, 8);
  epilogue.stage_operand([](DType) { return kRow; }, kElement);
  const ValueId bias = node.input(2);
  const bool adds_bias = bias == kNoValue || plan.graph.value(bias).is_constant();
  if (!adds_bias) epilogue.add_bias(bias);
  epilogue.add_steps(member);
  const std::optional<StagedOperand>& staged = epilogue.staged();

  const PatchGeometry g = patch_geometry(problem, tile, staged ? kElement : 0);
  p.y = output_parameters(plan, member.result);
  p.e = epilogue.parameters();
  p.tiles = to_int(g.tiles);
  p.channel_tiles = to_int(ceil_div(problem.outputs, kTileChannels));
  p.height = to_int(problem.out[0]), p.width = to_int(problem.out[1]);
  p.rows = tile.rows, p.columns = tile.columns;
  p.tiles_x = to_int(ceil_div(p.width, p.columns));
  p.tiles_y = to_int(ceil_div(p.height, p.rows));
  p.pitch = g.pitch;
  p.pitch_inverse = (1 << 20) / g.pitch + 1;
  p.steps = to_int(steps(problem));
  p.taps = to_int(problem.taps());
  p.stride = to_int(problem.stride[0]);
  p.corner_y = to_int(-problem.pad[0]), p.corner_x = to_int(-problem.pad[1]);
  p.planes_y = g.planes[0], p.planes_x = g.planes[1];
  p.plane_bytes = g.plane_bytes, p.plane_loaded = g.pitch * g.patch_rows * kRow;
  p.patch_bytes = g.patch_bytes, p.patch_stages = g.patch_stages;
  p.weight_stages = g.weight_stages;
  p.staged_bytes = g.staged_bytes, p.staged_loaded = tile.rows * g.pitch * kRow;
  for (std::int64_t i = 0; i < problem.kernel[0]; ++i) {
    for (std::int64_t j = 0; j < problem.kernel[1]; ++j) {
      const std::int64_t y = i * problem.dilation[0], x = j * problem.dilation[1];
      const std::int64_t plane = y % p.stride * p.planes_x + x % p.stride;
      p.tap_at[i * problem.kernel[1] + j] = static_cast<short>(
          plane * (g.plane_bytes / kRow) + y / p.stride * g.pitch + x / p.stride);
    }
  }

  Parameters parameters(p);
  parameters.point(p.y.data, {Address::Of::kOutput, 0, 0});
  parameters.point(p.weights,
                   add_constant(result, pack(problem, *plan.graph.value(node.input(1)).constant)));
  parameters.point(p.bias, pack_bias(plan, adds_bias ? bias : kNoValue,
                                     p.channel_tiles * kTileChannels, result));
  epilogue.point(parameters, p.e);
  TensorMap activations = pixels_map(problem.dtype, problem.channels, problem.in[1], problem.in[0],
                                     problem.batch, pitch, g.pitch, g.patch_rows, p.stride);
  activations.at = parameters.offset_of(&p.activations);
  activations.address = address_of(plan, group, node.input(0), result);
  result.maps.push_back(std::move(activations));
  if (staged) {
    TensorMap map = pixels_map(staged->dtype, problem.outputs, problem.out[1], problem.out[0],
                               problem.batch, staged->pitch, g.pitch, tile.rows, 1);
    map.at = parameters.offset_of(&p.staged);
    map.address = staged->address;
    result.maps.push_back(std::move(map));
  }
  parameters.move_to(result);

  const std::string_view name = g.whole ? "conv_patch_sm90_whole" : "conv_patch_sm90";
  const std::string call =
      fmt::format("{}<ConvPatchTile<{}, {}, {}, {}, {}>, Epilogue, {}, Store::{}>", name,
                  device_type(problem.dtype), tile.pixels, tile.warpgroups, tile.split,
                  staged.has_value(), device_type(plan.graph.value(member.result).dtype),
                  takes_vectors(plan, member.result, 8) ? "kVector" : "kEach");
  emit(result, name, {fmt::format("{}.cuh", name)}, epilogue.source(), "ConvPatchParameters", call,
       tile.warpgroups == 2 ? 384
       : g.whole            ? 128
                            : 160,
       g.blocks_per_sm);
  result.grid.x = u32(g.blocks(plan.device));
  result.cluster = u32(tile.split);
  result.shared_bytes = u32(g.shared_bytes);
  result.overlaps = true;
  return result;
}

}  // namespace braze::cuda
