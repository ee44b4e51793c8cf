// The kernel of conv_sm90 that gathers by im2col (device/conv_sm90.cuh): packing and build.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "graph/window.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/conv_sm90.hpp"
#include "kernels/cuda/device/conv_sm90_parameters.h"
#include "kernels/cuda/emit.hpp"

namespace braze::cuda {
namespace {

/// To the nearest number with a mantissa of 10 bits, ties away from zero.
std::uint32_t to_tf32(std::uint32_t bits) {
  const bool finite = (bits & 0x7f800000U) != 0x7f800000U;
  return finite ? (bits + 0x1000U) & ~0x1fffU : bits;
}

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
/// steps and groups of 32; columns are `width` channels long, these begin at `first`.
void pack(const ConvSm90Problem& problem, const Tensor& weights, std::int64_t first,
          std::int64_t width, std::vector<std::byte>& bytes) {
  const std::size_t size = size_of(problem.dtype);
  const std::int64_t padded = problem.channel_blocks() * problem.step_channels();
  const std::int64_t columns = padded_outputs(problem);
  const auto* from = static_cast<const std::byte*>(weights.data());
  for (std::int64_t column = 0; column < columns; ++column) {
    const std::int64_t k = output_of(column);
    if (k >= problem.outputs) continue;
    std::byte* to = bytes.data() + static_cast<std::size_t>(column * width + first) * size;
    for (const std::int64_t tap : problem.weights_of(k)) {
      for (std::int64_t c = 0; c < problem.channels; ++c) {
        const auto at = static_cast<std::size_t>(tap + c * problem.channel_stride);
        std::memcpy(to + static_cast<std::size_t>(c) * size, from + at * size, size);
      }
      to += static_cast<std::size_t>(padded) * size;
    }
  }
}

/// Those of all inputs of the sum.
std::vector<std::byte> pack_all(const Plan& plan, const ConvSm90Sum& sum) {
  const ConvSm90Problem all = sum.problem();
  const std::int64_t width = all.steps() * all.step_channels();
  std::vector<std::byte> bytes(static_cast<std::size_t>(padded_outputs(all) * width) *
                               size_of(all.dtype));
  std::int64_t first = 0;
  for (const ConvSm90Term& term : sum.terms) {
    pack(term.problem, *plan.graph.value(term.node->input(1)).constant, first, width, bytes);
    first += term.problem.steps() * all.step_channels();
  }
  if (all.dtype == DType::kFloat32) {
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

device::ConvSm90Source source_of(const ConvSm90Problem& problem) {
  device::ConvSm90Source source{};
  source.channel_blocks = static_cast<int>(problem.channel_blocks());
  source.filter_width = static_cast<int>(problem.kernel[1]);
  source.stride_y = static_cast<int>(problem.stride[0]);
  source.stride_x = static_cast<int>(problem.stride[1]);
  source.dilation_y = static_cast<int>(problem.dilation[0]);
  source.dilation_x = static_cast<int>(problem.dilation[1]);
  source.corner_y = static_cast<int>(-problem.pad[0]);
  source.corner_x = static_cast<int>(-problem.pad[1]);
  return source;
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

device::ConvSm90Phases phases_of(const ConvSm90Problem& problem, const ConvSm90TileShape& tile) {
  const ConvSm90Transposed& t = *problem.transposed;
  device::ConvSm90Phases phases{};
  phases.columns = divisor_of(t.columns);
  phases.pixels = divisor_of(problem.out[0] * problem.out[1]);
  phases.width = divisor_of(problem.out[1]);
  phases.stride_x = divisor_of(t.stride[1]);
  phases.stride_y = static_cast<int>(t.stride[0]);
  phases.corner_y = static_cast<int>(t.corner[0]);
  phases.corner_x = static_cast<int>(t.corner[1]);
  phases.result_height = static_cast<int>(t.out[0]);
  phases.result_width = static_cast<int>(t.out[1]);
  phases.whole_y = static_cast<int>(t.whole[0]);
  phases.whole_x = static_cast<int>(t.whole[1]);
  phases.filter_height = static_cast<int>(problem.kernel[0]);
  phases.pixel_tiles = static_cast<int>(ceil_div(problem.pixels(), tile.pixels));
  return phases;
}

/// The floats of a phase's outputs for all phases, then zeros as before.
void repeat(const ConvSm90Problem& problem, std::vector<std::byte>& floats) {
  const auto outputs = static_cast<std::ptrdiff_t>(problem.transposed->outputs * 4);
  const auto columns = static_cast<std::ptrdiff_t>(problem.transposed->columns * 4);
  for (std::ptrdiff_t at = columns; at < problem.outputs * 4; at += columns)
    std::copy(floats.begin(), floats.begin() + outputs, floats.begin() + at);
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

}  // namespace

Kernel build_im2col(const Plan& plan, const KernelPlan& kernel, const ConvSm90TileShape& tile,
                    const ConvSm90Sum& sum) {
  const Group& group = kernel.group;
  const ConvSm90Problem problem = sum.problem();
  const ConvSm90Term& first = sum.terms.front();
  Kernel result;
  device::ConvSm90Parameters p{};
  p.y = output_parameters(plan, sum.finish.result);
  p.pixels = static_cast<int>(problem.pixels());
  p.width = static_cast<int>(problem.out[1]);
  p.tiles = static_cast<int>(tile_count(problem, tile));
  p.channel_tiles = static_cast<int>(ceil_div(problem.outputs, tile.channels));
  p.steps = static_cast<int>(problem.steps());
  p.first_steps = static_cast<int>(first.problem.steps());
  p.source = source_of(first.problem);
  p.other = source_of(sum.terms.back().problem);
  if (problem.transposed) p.phases = phases_of(problem, tile);

  const auto shared_with = [&](int staged) {
    return device::ConvSm90Shared{tile.pixels, tile.channels,      problem.step_bytes(),
                                  tile.split,  tile.blocks_per_sm, staged};
  };
  EpilogueEmitter epilogue(plan, kernel, result, 8);
  if (stages_operand(*first.node)) {
    epilogue.stage_operand(
        [&](DType dtype) { return shared_with(static_cast<int>(size_of(dtype))).chunk_row; });
  }
  std::vector<ValueId> begins_with;  // constant biases
  for (const ConvSm90Term& term : sum.terms) {
    const ValueId bias = term.node->input(2);
    if (bias == kNoValue) continue;
    if (plan.graph.value(bias).is_constant()) {
      begins_with.push_back(bias);
    } else {
      epilogue.add_bias(bias);
    }
  }
  epilogue.add_steps(sum.finish);
  p.e = epilogue.parameters();
  const std::optional<StagedOperand>& staged = epilogue.staged();
  const device::ConvSm90Shared shared =
      shared_with(staged ? static_cast<int>(size_of(staged->dtype)) : 0);

  Parameters parameters(p);
  parameters.point(p.y.data, {Address::Of::kOutput, 0, 0});
  const Address bias_at = pack_biases(plan, begins_with, p.channel_tiles * tile.channels, result);
  if (problem.transposed)
    repeat(problem, result.constants[static_cast<std::size_t>(bias_at.index)]);
  deal(result.constants[static_cast<std::size_t>(bias_at.index)]);
  parameters.point(p.bias, bias_at);
  epilogue.point(parameters, p.e);
  const auto add_input = [&](const ConvSm90Term& term, const device::EncodedTensorMap* at) {
    TensorMap map = activations_map(term.problem, tile, term.pitch);
    map.at = parameters.offset_of(at);
    map.address = address_of(plan, group, term.node->input(0), result);
    result.maps.push_back(std::move(map));
  };
  add_input(first, &p.activations);
  if (sum.terms.size() > 1) add_input(sum.terms.back(), &p.others);
  TensorMap weights = weights_map(problem, tile);
  weights.at = parameters.offset_of(&p.weights);
  weights.address = add_constant(result, pack_all(plan, sum));
  result.maps.push_back(std::move(weights));
  if (staged) {
    result.maps.push_back(staged_map(problem, tile, shared, *staged));
    result.maps.back().at = parameters.offset_of(&p.staged);
  }
  parameters.move_to(result);

  const DType stored = plan.graph.value(sum.finish.result).dtype;
  const bool whole = fits_whole(problem, tile, shared.staged, plan.device);
  const std::string_view name = whole ? "conv_sm90_whole" : "conv_sm90";
  std::string other;
  if (sum.terms.size() > 1) {
    other = sum.terms.back().problem.pointwise() ? ", ConvSm90Input::kTiled"
                                                 : ", ConvSm90Input::kIm2col";
  }
  if (problem.transposed) {
    other = fmt::format(", ConvSm90Input::kNone, ConvSm90Columns::{}",
                        problem.transposed->unequal() ? "kUnequalPhases" : "kPhases");
  }
  const std::string call =
      fmt::format("{}<ConvSm90Tile<{}, {}, {}, {}, {}, {}, {}, {}{}>, Epilogue, {}, Store::{}>",
                  name, problem.dtype == DType::kFloat32 ? "tf32" : device_type(problem.dtype),
                  tile.pixels, tile.channels, problem.step_bytes(), tile.split, tile.blocks_per_sm,
                  shared.staged, !first.problem.pointwise(), other, device_type(stored),
                  takes_vectors(plan, sum.finish.result, 8) ? "kVector" : "kEach");
  emit(result, name, {fmt::format("{}.cuh", name)}, epilogue.source(), "ConvSm90Parameters", call,
       whole ? tile.math_threads() : tile.threads(staged.has_value()), tile.blocks_per_sm);

  result.grid.x = static_cast<std::uint32_t>(block_count(problem, tile, plan.device));
  result.cluster = static_cast<std::uint32_t>(tile.split);
  result.shared_bytes = static_cast<std::uint32_t>(shared.bytes);
  result.overlaps = true;
  return result;
}

}  // namespace braze::cuda
