// Dense Conv, and products with a constant matrix, for sm_90a: see device/conv_sm90.cuh.
#include "kernels/cuda/conv_sm90.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/conv_problem.hpp"
#include "kernels/cuda/conv_sm90_patch.hpp"
#include "kernels/cuda/device/conv_sm90_parameters.h"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "plan/stages.hpp"

namespace braze::cuda {
namespace {

constexpr std::string_view kName = "conv_sm90";

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// What the TMA takes (CUDA driver API, cuTensorMapEncodeIm2col): steps up to 8, corners of the
/// box of pixels in 8 bits with sign, offsets of taps in 8 bits.
Support supports_window(const ConvSm90Problem& problem) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (problem.stride[axis] > 8)
      return Support::no("stride", fmt::format("stride {}; at most 8", problem.stride[axis]));
    const std::int64_t last =
        (problem.out[axis] - 1) * problem.stride[axis] - problem.pad[axis] - (problem.in[axis] - 1);
    const std::int64_t reach = (problem.kernel[axis] - 1) * problem.dilation[axis];
    if (problem.pad[axis] > 128 || last < -128 || last > 127 || reach > 255)
      return Support::no("window", fmt::format("the filter reaches {} pixels with {} of padding; "
                                               "at most 127 and 128",
                                               reach, problem.pad[axis]));
  }
  return Support::yes();
}

/// c of a Gemm as a bias: nothing, or one value for each column.
bool is_bias(const Graph& graph, const Node& node, std::int64_t columns) {
  const ValueId c = node.input(2);
  if (c == kNoValue) return true;
  const Shape& shape = graph.value(c).shape;
  return !shape.empty() && shape.back() == columns && element_count(shape) == columns;
}

Support supports_product(const Graph& graph, const Node& node) {
  const Shape& a = graph.value(node.input(0)).shape;
  const Shape& b = graph.value(node.input(1)).shape;
  if (a.size() != 2 || b.size() != 2)
    return Support::no("rank", "only products of matrices of rank 2");
  if (const auto* gemm = node.as<Gemm>()) {
    if (gemm->trans_a) return Support::no("transposed", "reads the first matrix by rows");
    if (gemm->alpha != 1 || gemm->beta != 1) return Support::no("scale", "alpha and beta are 1");
    if (!is_bias(graph, node, b[gemm->trans_b ? 0 : 1]))
      return Support::no("addend", "adds a vector along columns only");
  }
  return Support::yes();
}

Support supports(const Graph& graph, const Node& node, const Device& device) {
  if (device.sm != 90) return Support::no("device", "needs sm_90");
  const bool conv = node.kind() == OpKind::kConv;
  if (!conv && node.kind() != OpKind::kMatMul && node.kind() != OpKind::kGemm)
    return Support::no("operator", "runs Conv, MatMul and Gemm only");
  const Value& x = graph.value(node.input(0));
  const Value& w = graph.value(node.input(1));
  if (x.dtype != DType::kFloat16 && x.dtype != DType::kBFloat16 &&
      !(x.dtype == DType::kFloat32 && device.tf32)) {
    return Support::no("dtype", fmt::format("{} is {}; takes float16, bfloat16, and float where "
                                            "products may be rounded to tf32",
                                            x.name, to_string(x.dtype)));
  }
  if (!w.is_constant() || w.dtype != x.dtype)
    return Support::no("weights",
                       fmt::format("{} is not a constant {}", w.name, to_string(x.dtype)));
  if (element_count(x.shape) == 0 || element_count(w.shape) == 0 ||
      element_count(graph.value(node.output()).shape) == 0)
    return Support::no("empty", "an operand or the result has no elements");
  if (conv) {
    if (const Support general = supports_conv(graph, node); !general.ok) return general;
    if (x.shape.size() > 4)
      return Support::no("rank", fmt::format("input {}; 1 or 2 spatial axes", to_string(x.shape)));
    if (node.as<Conv>()->group != 1)
      return Support::no("groups", fmt::format("{} groups", node.as<Conv>()->group));
  } else if (const Support product = supports_product(graph, node); !product.ok) {
    return product;
  }
  const ConvSm90Problem problem = conv_sm90_problem(graph, node);
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  if (problem.channels * size % 16 != 0)
    return Support::no("channels", fmt::format("{} channels of {}; takes multiples of 16 bytes",
                                               problem.channels, to_string(x.dtype)));
  if (problem.pixels() > std::numeric_limits<std::int32_t>::max() - 1024 ||
      problem.outputs > 1 << 24 || problem.steps() > 1 << 20)
    return Support::no("extent", "too large for 32-bit coordinates");
  return problem.pointwise() ? Support::yes() : supports_window(problem);
}

ConvSm90TileShape tile_of(const Candidate& candidate) {
  const auto get = [&](const char* name) { return static_cast<int>(candidate.get(name, 1)); };
  return {get("pixels"), get("channels"), get("split"), get("blocks")};
}

/// Bytes of an element of the widest operand that is as large as the result: 0 without one.
int staged_bytes(const Graph& graph, const Group& group) {
  const Group::Member& member = group.members.front();
  std::size_t bytes = 0;
  for (const EpilogueStep& step : member.epilogue.steps) {
    if (step.cast || step.unary) continue;
    const Value& operand = graph.value(step.operand);
    // What a kernel converts while it loads may be fp32.
    if (!operand.is_constant() && operand.shape == graph.value(member.result).shape)
      bytes = std::max(bytes, group.casts.empty() ? size_of(operand.dtype) : sizeof(float));
  }
  return static_cast<int>(bytes);
}

/// Tiles of the kernel that reads patches have rows.
std::optional<PatchTile> patch_of(const Candidate& candidate) {
  const auto get = [&](const char* name) { return static_cast<int>(candidate.get(name, 0)); };
  if (get("rows") == 0) return std::nullopt;
  return PatchTile{get("rows"), get("columns"), get("pixels"), get("warpgroups"), get("split")};
}

/// Blocks stay and take tiles in turn, all of them equally many if that can be; sums that are split
/// are one tile for each cluster.
std::int64_t block_count(const ConvSm90Problem& problem, const ConvSm90TileShape& tile,
                         const Device& device) {
  const std::int64_t tiles = tile_count(problem, tile);
  if (tile.split > 1) return tiles * tile.split;
  const std::int64_t most = std::max<std::int64_t>(1, device.units * tile.blocks_per_sm);
  return ceil_div(tiles, ceil_div(tiles, most));
}

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device&) {
  std::vector<Candidate> list;
  const ConvSm90Problem problem = conv_sm90_problem(graph, cpu::anchor_of(graph, group));
  const int staged = staged_bytes(graph, group);
  for (const ConvSm90TileShape& tile : conv_sm90_tiles(problem, staged)) {
    list.push_back({{{"pixels", tile.pixels},
                     {"channels", tile.channels},
                     {"split", tile.split},
                     {"blocks", tile.blocks_per_sm}}});
  }
  for (const PatchTile& tile : patch_tiles(problem, staged)) {
    list.push_back({{{"rows", tile.rows},
                     {"columns", tile.columns},
                     {"pixels", tile.pixels},
                     {"warpgroups", tile.warpgroups},
                     {"split", tile.split}}});
  }
  return list;
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const ConvSm90Problem problem = conv_sm90_problem(graph, cpu::anchor_of(graph, group));
  const double peak = problem.dtype == DType::kFloat32 ? device.flops_tf32 : device.flops_fp16;
  Work work = cpu::streaming_work(graph, group, problem.flops(), 1);
  // Memory and the rest overlap, but not wholly: of candidates that memory bounds, too, the faster
  // one is to be seen.
  const double bandwidth =
      work.dram_bytes < device.cache_bytes ? device.cache_bandwidth : device.dram_bandwidth;
  const double memory_us = work.dram_bytes / bandwidth * 1e6;
  const std::optional<PatchTile> patch = patch_of(candidate);
  const double other_us = patch ? patch_us(problem, *patch, staged_bytes(graph, group), device)
                                : conv_sm90_us(problem, tile_of(candidate), device);
  const double us = std::max(memory_us, other_us) + 0.1 * std::min(memory_us, other_us);
  work.efficiency = problem.flops() / (us * 1e-6 * peak);
  work.units = static_cast<double>(
      patch ? patch_geometry(problem, *patch, staged_bytes(graph, group)).blocks(device)
            : block_count(problem, tile_of(candidate), device));
  return work;
}

/// Elements between adjacent pixels of an image that the TMA can read; nothing if it cannot: not
/// channels-last, or pixels that do not begin at multiples of 16 bytes.
std::optional<std::int64_t> readable_pitch(const Plan& plan, ValueId id) {
  const Value& value = plan.graph.value(id);
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  const bool channels_last = placement.layout == Layout::kChannelsLast;
  if (!channels_last && value.shape.size() > 2 && !is_layout_neutral(value)) return std::nullopt;
  const std::int64_t pitch = channels_last ? placement.pitch : value.shape[1];
  if (pitch * static_cast<std::int64_t>(size_of(value.dtype)) % 16 != 0 ||
      placement.offset % 16 != 0)
    return std::nullopt;
  return pitch;
}

/// To the nearest number with a mantissa of 10 bits, ties away from zero.
std::uint32_t to_tf32(std::uint32_t bits) {
  const bool finite = (bits & 0x7f800000U) != 0x7f800000U;
  return finite ? (bits + 0x1000U) & ~0x1fffU : bits;
}

}  // namespace

WeightStrides weight_strides(const ConvSm90Problem& problem, const Node& node) {
  const auto* gemm = node.as<Gemm>();
  if (node.kind() == OpKind::kMatMul || (gemm != nullptr && !gemm->trans_b))
    return {1, problem.outputs};
  return {problem.channels * problem.taps(), problem.taps()};
}

Address pack_bias(const Plan& plan, ValueId bias, std::int64_t channels, Kernel& kernel) {
  if (bias != kNoValue) return add_floats(kernel, *plan.graph.value(bias).constant, channels);
  return add_constant(kernel, std::vector<std::byte>(static_cast<std::size_t>(channels) * 4));
}

namespace {

std::int64_t padded_outputs(const ConvSm90Problem& problem) {
  return ceil_div(problem.outputs, 32) * 32;
}
/// The output whose weights are column `column` of the product: of 32, lane t of four, which has
/// columns 8 j + 2 t and the next, gets outputs 8 t to 8 t + 7.
std::int64_t output_of(std::int64_t column) {
  const std::int64_t j = column % 32 / 8, t = column % 8 / 2;
  return column / 32 * 32 + 8 * t + 2 * j + column % 2;
}

/// Weights in the order [column][tap][channel], channels and columns padded with zeros to whole
/// steps and groups of 32.
std::vector<std::byte> pack(const ConvSm90Problem& problem, const Node& node,
                            const Tensor& weights) {
  const WeightStrides strides = weight_strides(problem, node);
  const std::size_t size = size_of(problem.dtype);
  const std::int64_t padded = problem.channel_blocks() * problem.step_channels();
  const std::int64_t columns = padded_outputs(problem);
  std::vector<std::byte> bytes(static_cast<std::size_t>(columns * problem.taps() * padded) * size);
  const auto* from = static_cast<const std::byte*>(weights.data());
  for (std::int64_t column = 0; column < columns; ++column) {
    const std::int64_t k = output_of(column);
    if (k >= problem.outputs) continue;
    for (std::int64_t t = 0; t < problem.taps(); ++t) {
      std::byte* row =
          bytes.data() + static_cast<std::size_t>((column * problem.taps() + t) * padded) * size;
      for (std::int64_t c = 0; c < problem.channels; ++c) {
        const auto at = static_cast<std::size_t>(k * strides.output + c * strides.channel + t);
        std::memcpy(row + static_cast<std::size_t>(c) * size, from + at * size, size);
      }
    }
  }
  if (problem.dtype == DType::kFloat32) {
    for (std::size_t at = 0; at < bytes.size(); at += 4) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &bytes[at], 4);
      bits = to_tf32(bits);
      std::memcpy(&bytes[at], &bits, 4);
    }
  }
  return bytes;
}

std::uint64_t u64(std::int64_t n) { return static_cast<std::uint64_t>(n); }
std::uint32_t u32(std::int64_t n) { return static_cast<std::uint32_t>(n); }

TensorMap activations_map(const ConvSm90Problem& problem, const ConvSm90TileShape& tile,
                          std::int64_t pitch) {
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  TensorMap map;
  map.dtype = problem.dtype;
  map.swizzle_bytes = static_cast<std::uint32_t>(problem.step_bytes());
  if (problem.pointwise()) {
    map.extents = {u64(problem.channels), u64(problem.pixels())};
    map.strides = {u64(pitch * size)};
    map.box = {u32(problem.step_channels()), u32(tile.pixels)};
    map.steps = {1, 1};
    return map;
  }
  map.kind = TensorMap::Kind::kIm2col;
  const std::int64_t row = pitch * problem.in[1];
  map.extents = {u64(problem.channels), u64(problem.in[1]), u64(problem.in[0]), u64(problem.batch)};
  map.strides = {u64(pitch * size), u64(row * size), u64(row * problem.in[0] * size)};
  map.steps = {1, u32(problem.stride[1]), u32(problem.stride[0]), 1};
  for (const std::size_t axis : {1U, 0U}) {
    // The box holds the positions of the filter's first tap: the last of them is inside, the next
    // would not be.
    const std::int64_t last = (problem.out[axis] - 1) * problem.stride[axis] - problem.pad[axis];
    map.lower.push_back(static_cast<int>(-problem.pad[axis]));
    map.upper.push_back(static_cast<int>(last - (problem.in[axis] - 1)));
  }
  map.channels = u32(problem.step_channels());
  map.pixels = u32(tile.pixels);
  return map;
}

TensorMap weights_map(const ConvSm90Problem& problem, const ConvSm90TileShape& tile) {
  const std::int64_t width = problem.steps() * problem.step_channels();
  TensorMap map;
  map.dtype = problem.dtype;
  map.swizzle_bytes = static_cast<std::uint32_t>(problem.step_bytes());
  map.extents = {u64(width), u64(padded_outputs(problem))};
  map.strides = {u64(width) * size_of(problem.dtype)};
  map.box = {u32(problem.step_channels()), u32(tile.channels)};
  map.steps = {1, 1};
  return map;
}

/// Where the placement of the input turned out to be unreadable: the next family that takes it.
Kernel build_otherwise(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = cpu::anchor_of(plan.graph, kernel.group);
  for (const Row& row : rows()) {
    if (row.family.name == kName || !row.family.supports(plan.graph, node, plan.device).ok)
      continue;
    KernelPlan other = kernel;
    other.family = row.family.name;
    other.candidate = {};
    double best = -1;
    if (row.family.candidates != nullptr) {
      for (const Candidate& candidate :
           row.family.candidates(plan.graph, kernel.group, plan.device)) {
        const Work work = row.family.work(plan.graph, kernel.group, candidate, plan.device);
        if (work.efficiency <= best) continue;
        best = work.efficiency;
        other.candidate = candidate;
      }
    }
    return row.build(plan, other);
  }
  fail(ErrorCode::kInternal, "internal error: no other kernel runs '{}'", node.id);
}

/// Floats of outputs to those of columns.
void deal(std::vector<std::byte>& floats) {
  const std::vector<std::byte> outputs = floats;
  for (std::size_t column = 0; column < floats.size() / 4; ++column) {
    const auto from = static_cast<std::size_t>(output_of(static_cast<std::int64_t>(column)));
    std::memcpy(&floats[column * 4], &outputs[from * 4], 4);
  }
}

TensorMap staged_map(const ConvSm90Problem& problem, const ConvSm90TileShape& tile,
                     const device::ConvSm90Shared& shared, const StagedOperand& operand) {
  TensorMap map;
  map.dtype = operand.dtype;
  map.swizzle_bytes = static_cast<std::uint32_t>(shared.chunk_row);
  map.extents = {u64(problem.outputs), u64(problem.pixels())};
  map.strides = {u64(operand.pitch) * size_of(operand.dtype)};
  map.box = {static_cast<std::uint32_t>(shared.chunk_channels),
             static_cast<std::uint32_t>(tile.pixels / tile.split)};
  map.steps = {1, 1};
  map.address = operand.address;
  return map;
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const Group::Member& member = group.members.front();
  const ConvSm90Problem problem = conv_sm90_problem(plan.graph, node);
  const ValueId x = loaded_value(plan, group, node.input(0));
  const std::optional<std::int64_t> pitch = readable_pitch(plan, x);
  if (!pitch || x != node.input(0)) return build_otherwise(plan, kernel);

  if (const std::optional<PatchTile> patch = patch_of(kernel.candidate))
    return build_patch(plan, kernel, *patch, *pitch);
  const ConvSm90TileShape tile = tile_of(kernel.candidate);
  const std::int64_t tiles = tile_count(problem, tile);
  Kernel result;
  device::ConvSm90Parameters p{};
  p.y = output_parameters(plan, member.result);
  p.pixels = static_cast<int>(problem.pixels());
  p.width = static_cast<int>(problem.out[1]);
  p.tiles = static_cast<int>(tiles);
  p.channel_tiles = static_cast<int>(ceil_div(problem.outputs, tile.channels));
  p.steps = static_cast<int>(problem.steps());
  p.channel_blocks = static_cast<int>(problem.channel_blocks());
  p.filter_width = static_cast<int>(problem.kernel[1]);
  p.stride_y = static_cast<int>(problem.stride[0]);
  p.stride_x = static_cast<int>(problem.stride[1]);
  p.dilation_y = static_cast<int>(problem.dilation[0]);
  p.dilation_x = static_cast<int>(problem.dilation[1]);
  p.corner_y = static_cast<int>(-problem.pad[0]);
  p.corner_x = static_cast<int>(-problem.pad[1]);

  const auto shared_with = [&](int staged) {
    return device::ConvSm90Shared{tile.pixels, tile.channels,      problem.step_bytes(),
                                  tile.split,  tile.blocks_per_sm, staged};
  };
  EpilogueEmitter epilogue(plan, kernel, result, 8);
  epilogue.stage_operand(
      [&](DType dtype) { return shared_with(static_cast<int>(size_of(dtype))).chunk_row; });
  const ValueId bias = node.input(2);
  const bool begins_with_bias = bias == kNoValue || plan.graph.value(bias).is_constant();
  if (!begins_with_bias) epilogue.add_bias(bias);
  epilogue.add_steps(member);
  p.e = epilogue.parameters();
  const std::optional<StagedOperand>& staged = epilogue.staged();
  const device::ConvSm90Shared shared =
      shared_with(staged ? static_cast<int>(size_of(staged->dtype)) : 0);

  Parameters parameters(p);
  parameters.point(p.y.data, {Address::Of::kOutput, 0, 0});
  Address bias_at =
      pack_bias(plan, begins_with_bias ? bias : kNoValue, p.channel_tiles * tile.channels, result);
  deal(result.constants[static_cast<std::size_t>(bias_at.index)]);
  parameters.point(p.bias, bias_at);
  epilogue.point(parameters, p.e);
  TensorMap activations = activations_map(problem, tile, *pitch);
  activations.at = parameters.offset_of(&p.activations);
  activations.address = address_of(plan, group, node.input(0), result);
  TensorMap weights = weights_map(problem, tile);
  weights.at = parameters.offset_of(&p.weights);
  weights.address =
      add_constant(result, pack(problem, node, *plan.graph.value(node.input(1)).constant));
  result.maps = {std::move(activations), std::move(weights)};
  if (staged) {
    result.maps.push_back(staged_map(problem, tile, shared, *staged));
    result.maps.back().at = parameters.offset_of(&p.staged);
  }
  parameters.move_to(result);

  const DType stored = plan.graph.value(member.result).dtype;
  const std::string call = fmt::format(
      "conv_sm90<ConvSm90Tile<{}, {}, {}, {}, {}, {}, {}, {}>, Epilogue, {}, Store::{}>",
      problem.dtype == DType::kFloat32 ? "tf32" : device_type(problem.dtype), tile.pixels,
      tile.channels, problem.step_bytes(), tile.split, tile.blocks_per_sm, shared.staged,
      !problem.pointwise(), device_type(stored),
      takes_vectors(plan, member.result, 8) ? "kVector" : "kEach");
  emit(result, kName, {"conv_sm90.cuh"}, epilogue.source(), "ConvSm90Parameters", call,
       tile.threads(staged.has_value()), tile.blocks_per_sm);

  result.grid.x = static_cast<std::uint32_t>(block_count(problem, tile, plan.device));
  result.cluster = static_cast<std::uint32_t>(tile.split);
  result.shared_bytes = static_cast<std::uint32_t>(shared.bytes);
  result.overlaps = true;
  return result;
}

}  // namespace

bool ConvSm90Problem::pointwise() const {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (kernel[axis] != 1 || stride[axis] != 1 || pad[axis] != 0 || in[axis] != out[axis])
      return false;
  }
  return true;
}

double ConvSm90Problem::flops() const {
  return 2.0 * static_cast<double>(pixels()) * static_cast<double>(outputs) *
         static_cast<double>(channels * taps());
}

int ConvSm90Problem::step_bytes() const {
  // A step costs about as much as 32 bytes more of channels.
  const std::int64_t bytes = channels * static_cast<std::int64_t>(size_of(dtype));
  int best = 128;
  for (const int step : {64, 32}) {
    if (ceil_div(bytes, step) * (step + 32) < ceil_div(bytes, best) * (best + 32)) best = step;
  }
  return best;
}

std::int64_t ConvSm90Problem::step_channels() const {
  return step_bytes() / static_cast<std::int64_t>(size_of(dtype));
}

std::int64_t ConvSm90Problem::channel_blocks() const { return ceil_div(channels, step_channels()); }

ConvSm90Problem conv_sm90_problem(const Graph& graph, const Node& node) {
  ConvSm90Problem problem;
  const Value& x = graph.value(node.input(0));
  problem.dtype = x.dtype;
  if (node.kind() == OpKind::kConv) {
    const ConvProblem conv = conv_problem(graph, node);
    problem.batch = conv.batch;
    problem.channels = conv.channels;
    problem.outputs = conv.outputs;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      problem.in[axis] = conv.in[axis + 1];
      problem.out[axis] = conv.out[axis + 1];
      problem.kernel[axis] = conv.kernel[axis + 1];
      problem.stride[axis] = conv.stride[axis + 1];
      problem.dilation[axis] = conv.dilation[axis + 1];
      problem.pad[axis] = conv.pad[axis + 1];
    }
  } else {
    problem.in[1] = problem.out[1] = x.shape[0];
    problem.channels = x.shape[1];
    problem.outputs = graph.value(node.output()).shape[1];
  }
  return problem;
}

Row conv_sm90() {
  KernelFamily family = image_family(kName);
  family.supports = supports;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
