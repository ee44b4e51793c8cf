// Convolution of few input channels, as of an image, on the tensor cores of sm_80 and up: see
// device/conv_stem.cuh.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "graph/window.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/conv_problem.hpp"
#include "kernels/cuda/device/conv_stem_parameters.h"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/pack.hpp"

namespace braze::cuda {
namespace {

constexpr std::string_view kName = "conv_stem";

/// What a block makes: rows of 16 pixels, output channels.
struct Tile {
  int rows = 0, outputs = 0;
  [[nodiscard]] int warps() const { return rows == 16 ? 8 : 4; }
  [[nodiscard]] int blocks_per_sm() const { return rows == 16 ? 2 : outputs == 32 ? 6 : 4; }
};
constexpr std::array kTiles = {Tile{8, 64}, Tile{16, 64}, Tile{4, 64},
                               Tile{8, 32}, Tile{16, 32}, Tile{4, 32}};

DType compute_of(const Graph& graph, const Node& node) { return graph.value(node.input(0)).dtype; }

/// Channels from pixel to pixel in shared memory: two elements of 16 bits are read at once, so
/// pixels of adjacent lanes are an even number of them apart.
int patch_channels(const ConvProblem& problem, DType dtype) {
  const std::int64_t odd = problem.channels * problem.stride[2] % 2;
  return static_cast<int>(problem.channels + (size_of(dtype) == 2 ? odd : 0));
}

device::StemSizes sizes_of(const ConvProblem& problem, DType dtype, const Tile& tile,
                           int lead = 0) {
  const auto of = [](const std::array<std::int64_t, 3>& axes, std::size_t axis) {
    return static_cast<int>(axes[axis]);
  };
  return {tile.rows,
          tile.outputs,
          static_cast<int>(size_of(dtype)),
          patch_channels(problem, dtype),
          lead,
          of(problem.kernel, 1),
          of(problem.kernel, 2),
          of(problem.stride, 1),
          of(problem.stride, 2),
          of(problem.dilation, 1),
          of(problem.dilation, 2)};
}

int shared_bytes(const device::StemSizes& sizes) { return sizes.weight_bytes + sizes.patch_bytes; }

/// Two blocks of a multiprocessor at least.
constexpr int kMostShared = 92 * 1024;
/// Steps of the sum are unrolled.
constexpr int kMostSteps = 64;

std::vector<Tile> tiles_of(const ConvProblem& problem, DType dtype) {
  std::vector<Tile> tiles;
  for (const Tile& tile : kTiles) {
    if ((tile.outputs > 32 && problem.outputs <= 32) ||
        (tile.rows > 4 && problem.out[1] <= tile.rows / 2) ||
        shared_bytes(sizes_of(problem, dtype, tile)) > kMostShared)
      continue;
    tiles.push_back(tile);
  }
  return tiles;
}

Support supports(const Graph& graph, const Node& node, const Device& device) {
  if (device.sm < 80) return Support::no("device", "needs sm_80");
  if (const Support support = supports_conv(graph, node); !support.ok) return support;
  const DType dtype = compute_of(graph, node);
  if (dtype == DType::kFloat32 && !device.tf32)
    return Support::no("precision", "products of floats would be rounded to tf32");
  if (!graph.value(node.input(1)).is_constant())
    return Support::no("weights", "the filter is not a constant");
  const Shape& x = graph.value(node.input(0)).shape;
  if (x.size() != 4)
    return Support::no("rank", fmt::format("input {}; 2 spatial axes", braze::to_string(x)));
  if (element_count(x) == 0 || element_count(graph.value(node.output()).shape) == 0)
    return Support::no("empty", "the input or the result has no elements");
  const ConvProblem problem = conv_problem(graph, node);
  if (problem.groups != 1)
    return Support::no("groups", fmt::format("{} groups; takes one", problem.groups));
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  if (problem.channels > 4 && problem.channels * size % 16 == 0)
    return Support::no("channels", fmt::format("{} channels are whole chunks of 16 bytes, which "
                                               "others read faster",
                                               problem.channels));
  if (problem.out[2] <= device::kStemWidth / 2)
    return Support::no("image", fmt::format("rows of {} pixels; more than {}", problem.out[2],
                                            device::kStemWidth / 2));
  // Sizes that cannot fit could overflow what counts them.
  const std::int64_t reach = (problem.kernel[2] - 1) * problem.dilation[2] + 1;
  const std::int64_t rows = (problem.kernel[1] - 1) * problem.dilation[1] + 1;
  if (std::max({reach, rows, problem.stride[1], problem.stride[2], problem.channels}) > 1024 ||
      (reach + 15 * problem.stride[2]) * problem.channels * (rows + 3 * problem.stride[1]) * size >
          kMostShared)
    return Support::no("patch", "the input under 4 rows of 16 pixels does not fit shared memory");
  const device::StemSizes least = sizes_of(problem, dtype, {4, 32});
  if (least.steps > kMostSteps)
    return Support::no("window",
                       fmt::format("a sum of {} elements in {} steps; at most {}",
                                   problem.channels * problem.taps(), least.steps, kMostSteps));
  if (shared_bytes(least) > kMostShared)
    return Support::no("patch", fmt::format("filter and patch take {} KiB of shared memory; at "
                                            "most {}",
                                            shared_bytes(least) / 1024, kMostShared / 1024));
  if (problem.batch * problem.pixels() > std::numeric_limits<std::int32_t>::max() / 64)
    return Support::no("extent", "the result has more than 2^25 pixels");
  return Support::yes();
}

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device&) {
  const Node& node = cpu::anchor_of(graph, group);
  std::vector<Candidate> list;
  for (const Tile& tile : tiles_of(conv_problem(graph, node), compute_of(graph, node)))
    list.push_back({{{"rows", tile.rows}, {"channels", tile.outputs}}});
  return list;
}

struct Tiles {
  std::int64_t rows, across, images, columns;
  [[nodiscard]] std::int64_t pixels() const { return rows * across * images; }
};
Tiles tiles_in(const ConvProblem& problem, const Tile& tile) {
  return {ceil_div(problem.out[1], tile.rows), ceil_div(problem.out[2], device::kStemWidth),
          problem.batch, ceil_div(problem.outputs, tile.outputs)};
}

/// Blocks stay and take tiles in turn, all of them equally many if that can be.
std::int64_t blocks_of(const Tiles& tiles, const Tile& tile, const device::StemSizes& sizes,
                       const Device& device) {
  // Of the shared memory of a multiprocessor, a block takes 1 KiB for itself.
  const auto fit = static_cast<std::int64_t>(device.onchip_bytes) / (shared_bytes(sizes) + 1024);
  const std::int64_t resident = std::clamp<std::int64_t>(fit, 1, tile.blocks_per_sm());
  const std::int64_t most = std::max<std::int64_t>(device.units * resident / tiles.columns, 1);
  return ceil_div(tiles.pixels(), ceil_div(tiles.pixels(), most));
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const Node& node = cpu::anchor_of(graph, group);
  const ConvProblem problem = conv_problem(graph, node);
  const DType dtype = compute_of(graph, node);
  const Tile tile{static_cast<int>(candidate.get("rows", 8)),
                  static_cast<int>(candidate.get("channels", 32))};
  const device::StemSizes sizes = sizes_of(problem, dtype, tile);
  const Tiles tiles = tiles_in(problem, tile);
  const std::int64_t blocks = blocks_of(tiles, tile, sizes, device);
  // Cycles that a tile keeps a multiprocessor busy: products (mma.sync: 2048 operations a cycle,
  // 1024 in tf32), reads of fragments (128 bytes a cycle), instructions that bring the patch and
  // finish the sums. A block alone waits for its own steps.
  const double mma = tile.rows * (tile.outputs / 8.0) * sizes.steps;
  const double products = mma * 2;
  const double fragments = sizes.steps * (tile.rows * 4.0 + tile.warps() * tile.outputs / 4.0);
  const double elements = static_cast<double>(sizes.patch_h) * sizes.patch_w * sizes.channels;
  const double finish = tile.rows * 16.0 * tile.outputs;
  const double busy = std::max(products, fragments) + elements * 0.12 + finish * 0.06;
  const double latency = 1200 + 0.35 * elements / (tile.warps() / 4.0) +
                         sizes.steps * (30 + mma / sizes.steps / tile.warps() * 6);
  constexpr double kBegin = 1500, kClock = 1.7e9;
  const double each = std::ceil(static_cast<double>(tiles.pixels()) / static_cast<double>(blocks));
  const double on_one = std::ceil(static_cast<double>(tiles.pixels() * tiles.columns) /
                                  static_cast<double>(device.units));
  Work work = cpu::streaming_work(graph, group, problem.flops());
  // Latencies, instructions and bytes hide each other in part only.
  const double transfer =
      work.dram_bytes /
      (work.dram_bytes < device.cache_bytes ? device.cache_bandwidth : device.dram_bandwidth);
  const double seconds =
      kBegin / kClock + std::hypot(each * latency / kClock, on_one * busy / kClock, transfer);
  const double peak = dtype == DType::kFloat32 ? device.flops_tf32 : device.flops_fp16;
  work.efficiency = std::clamp(problem.flops() / peak / seconds, 1e-6, 1.0);
  work.units = static_cast<double>(blocks * tiles.columns);
  return work;
}

/// Weights as the lanes of a warp read them: [column tile][step][pair of products][lane][16 bytes].
std::vector<std::byte> pack(const ConvProblem& problem, DType dtype, bool tf32,
                            const device::StemSizes& sizes, std::int64_t column_tiles,
                            const std::vector<float>& weights) {
  const auto size = static_cast<int>(size_of(dtype));
  const int each = 4 / size;  // elements of a register
  std::vector<std::byte> bytes(static_cast<std::size_t>(column_tiles * sizes.weight_bytes));
  std::byte* to = bytes.data();
  // Of one output channel, at one place of the depth: 0 where there is no tap.
  const auto weight = [&](std::int64_t k, int chunk, int element) {
    const int r = chunk / sizes.row_chunks;
    const int at = chunk % sizes.row_chunks * sizes.chunk + element - sizes.lead;
    if (chunk >= sizes.chunks || at < 0 || k >= problem.outputs) return 0.0F;
    const int tap = at / sizes.channels, c = at % sizes.channels;
    if (tap >= sizes.reach || tap % sizes.dilation_w != 0 || c >= problem.channels) return 0.0F;
    return weights[static_cast<std::size_t>(((k * problem.channels + c) * sizes.filter_h + r) *
                                                sizes.filter_w +
                                            tap / sizes.dilation_w)];
  };
  for (std::int64_t tile = 0; tile < column_tiles; ++tile) {
    for (int i = 0; i < sizes.steps * (sizes.outputs / 16) * 32 * 4; ++i) {
      const int half = i % 2, lane = i / 4 % 32;
      const int pair = i / 128 % (sizes.outputs / 16), step = i / 128 / (sizes.outputs / 16);
      const int product = 2 * pair + i / 2 % 2, column = lane / 4;
      const std::int64_t k =
          tile * sizes.outputs + product / 4 * 32 + column / 2 * 8 + product % 4 * 2 + column % 2;
      for (int e = 0; e < each; ++e, to += size)
        write_element(to, weight(k, 2 * step + half, lane % 4 * each + e), dtype, tf32);
    }
  }
  return bytes;
}

/// How the input is read: StemInput, elements at once, and what lies before a row's first pixel.
struct Reading {
  const char* input = "kChannels";
  int unit = 1, lead = 0;
};

Reading reading_of(const Plan& plan, ValueId x, const ConvProblem& problem, DType dtype) {
  const Value& value = plan.graph.value(x);
  const cpu::Image image = cpu::image_of(plan, x);
  const std::int64_t channels = problem.channels;
  if (image.stride_w != channels || (channels > 1 && image.stride_c != 1) ||
      patch_channels(problem, dtype) != channels)
    return {image.stride_c == 1 && channels > 1 ? "kChannels" : "kPixels", 1, 0};
  const auto stored = static_cast<std::int64_t>(size_of(value.dtype));
  const std::int64_t widest = std::max(stored, static_cast<std::int64_t>(size_of(dtype)));
  const Placement& placement = plan.placements[static_cast<std::size_t>(x)];
  for (std::int64_t unit = 16 / widest; unit > 1; unit /= 2) {
    const auto whole = [unit](std::int64_t elements) { return elements % unit == 0; };
    const std::int64_t pad = problem.pad[2] * channels;
    const std::int64_t lead = (unit - pad % unit) % unit;
    const auto chunks = [&](std::int64_t first) {
      return sizes_of(problem, dtype, {4, 32}, static_cast<int>(first)).row_chunks;
    };
    if (whole(image.stride_h) && whole(image.stride_n) && whole(problem.in[2] * channels) &&
        whole(device::kStemWidth * problem.stride[2] * channels) &&
        placement.offset % (unit * stored) == 0 && !value.is_constant() &&
        chunks(lead) == chunks(0))
      return {"kDense", static_cast<int>(unit), static_cast<int>(lead)};
  }
  return {"kDense", 1, 0};
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const Group::Member& member = group.members.front();
  const ConvProblem problem = conv_problem(plan.graph, node);
  const DType dtype = compute_of(plan.graph, node);
  const bool tf32 = dtype == DType::kFloat32;
  const ValueId x = loaded_value(plan, group, node.input(0));
  const Reading reading = reading_of(plan, x, problem, dtype);
  const Tile tile{static_cast<int>(kernel.candidate.get("rows", 4)),
                  static_cast<int>(kernel.candidate.get("channels", 32))};
  const device::StemSizes sizes = sizes_of(problem, dtype, tile, reading.lead);
  const Tiles tiles = tiles_in(problem, tile);
  const cpu::Image image = cpu::image_of(plan, x);

  Kernel result;
  device::ConvStemParameters p{};
  p.stride_n = image.stride_n;
  p.stride_h = image.stride_h;
  p.stride_w = image.stride_w;
  p.stride_c = image.stride_c;
  p.in_h = static_cast<int>(problem.in[1]);
  p.in_w = static_cast<int>(problem.in[2]);
  p.channels = static_cast<int>(problem.channels);
  p.pad_h = static_cast<int>(problem.pad[1]);
  p.pad_w = static_cast<int>(problem.pad[2]);
  p.out_h = static_cast<int>(problem.out[1]);
  p.out_w = static_cast<int>(problem.out[2]);
  p.tiles_h = static_cast<int>(tiles.rows);
  p.tiles_w = static_cast<int>(tiles.across);
  p.tiles = static_cast<int>(tiles.pixels());
  p.column_tiles = static_cast<int>(tiles.columns);
  p.y = output_parameters(plan, member.result);

  EpilogueEmitter epilogue(plan, kernel, result, 8);
  epilogue.add_bias(node.input(2));
  epilogue.add_steps(member);
  p.e = epilogue.parameters();

  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, node.input(0), result));
  parameters.point(
      p.weights,
      add_constant(result, pack(problem, dtype, tf32, sizes, tiles.columns,
                                load<float>(*plan.graph.value(node.input(1)).constant))));
  parameters.point(p.y.data, {Address::Of::kOutput, 0, 0});
  epilogue.point(parameters, p.e);
  parameters.move_to(result);

  const std::string call = fmt::format(
      "conv_stem<StemTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>, {}, StemInput::{}, {}, "
      "{}, Store::{}, Epilogue>",
      tf32 ? "tf32" : device_type(dtype), tile.rows, tile.warps(), tile.outputs, sizes.channels,
      sizes.lead, sizes.filter_h, sizes.filter_w, sizes.stride_h, sizes.stride_w, sizes.dilation_h,
      sizes.dilation_w, device_type(plan.graph.value(x).dtype), reading.input, reading.unit,
      device_type(plan.graph.value(member.result).dtype),
      takes_vectors(plan, member.result, 8) ? "kVector" : "kEach");
  emit(result, kName, {"conv_stem.cuh"}, epilogue.source(), "ConvStemParameters", call,
       32 * tile.warps(), tile.blocks_per_sm());
  result.grid.x =
      static_cast<std::uint32_t>(blocks_of(tiles, tile, sizes, plan.device) * tiles.columns);
  result.shared_bytes = static_cast<std::uint32_t>(shared_bytes(sizes));
  result.overlaps = true;
  return result;
}

}  // namespace

Row conv_stem() {
  KernelFamily family = image_family(kName);
  family.supports = supports;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
