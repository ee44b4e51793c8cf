#include <fmt/format.h>

#include <cstring>

#include "base/error.hpp"
#include "graph/window.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/chain_sm90.hpp"
#include "kernels/cuda/emit.hpp"
#include "plan/stages.hpp"
#include "target/image_conv.hpp"

namespace braze::cuda::chain90 {
namespace {

constexpr int kRow = 128;
constexpr std::int64_t kElement = 2;
constexpr int kVector = 8;  // channels of a thread in a depthwise stage

int to_int(std::int64_t n) { return static_cast<int>(n); }
std::uint64_t u64(std::int64_t n) { return static_cast<std::uint64_t>(n); }
std::uint32_t u32(std::int64_t n) { return static_cast<std::uint32_t>(n); }

/// Images of shared memory, [stage][64 outputs][plane][tap]: rows of 64 channels, swizzled; of a
/// depthwise stage [steps][plane][tap][64 channels].
std::vector<std::byte> pack(const Graph& graph, const ChainProblem& problem, const Geometry& g) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(g.steps) * device::kChainWeights);
  std::int64_t first = 0;
  const auto put = [&](std::int64_t step, std::int64_t byte, const std::byte* from) {
    std::memcpy(&bytes[static_cast<std::size_t>((first + step) * device::kChainWeights + byte)],
                from, kElement);
  };
  for (std::size_t i = 0; i < problem.stages.size(); ++i) {
    const ChainStage& stage = problem.stages[i];
    const std::int64_t taps = stage.taps(), planes = g.stages[i].planes;
    const auto* const from =
        static_cast<const std::byte*>(graph.value(stage.weights).constant->data());
    if (stage.kind == StageKind::kDepthwise) {
      const std::int64_t filters = g.stages[i].filters;
      for (std::int64_t c = 0; c < stage.channels; ++c) {
        const std::int64_t plane = c / 64;
        for (std::int64_t tap = 0; tap < taps; ++tap)
          put(plane / filters, (plane % filters * taps + tap) * kRow + c % 64 * kElement,
              from + (c * stage.output_stride + tap) * kElement);
      }
      first += ceil_div(planes, filters);
      continue;
    }
    for (std::int64_t k = 0; k < stage.outputs; ++k) {
      for (std::int64_t c = 0; c < stage.channels; ++c) {
        const std::int64_t row = k % 64, byte = c % 64 * kElement;
        const std::int64_t in_row = (byte / 16 ^ row % 8) * 16 + byte % 16;
        for (std::int64_t tap = 0; tap < taps; ++tap)
          put((k / 64 * planes + c / 64) * taps + tap, row * kRow + in_row,
              from + (k * stage.output_stride + c * stage.channel_stride + tap) * kElement);
      }
    }
    first += g.stages[i].blocks * planes * taps;
  }
  return bytes;
}

/// [n, y, x, c] in boxes of 64 channels of rows x columns, every `stride`.
TensorMap pixels_map(const Plan& plan, ValueId id, std::int64_t rows, std::int64_t columns,
                     const std::array<std::int64_t, 2>& stride) {
  const Value& value = plan.graph.value(id);
  const ImageShape image = *image_shape(value.shape);
  const auto [height, width] = image.extent;
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  const std::int64_t pitch =
      placement.layout == Layout::kChannelsLast ? placement.pitch : image.channels;
  const std::int64_t row = pitch * width * kElement;
  TensorMap map;
  map.dtype = value.dtype;
  map.swizzle_bytes = kRow;
  map.extents = {u64(image.channels), u64(width), u64(height), u64(image.n)};
  map.strides = {u64(pitch * kElement), u64(row), u64(row * height)};
  map.box = {kRow / kElement, u32(columns * stride[1]), u32(rows * stride[0]), 1};
  map.steps = {1, u32(stride[1]), u32(stride[0]), 1};
  return map;
}

/// Can the TMA reach every pixel of it?
bool is_reachable(const Plan& plan, ValueId id) {
  const Value& value = plan.graph.value(id);
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  const bool channels_last = placement.layout == Layout::kChannelsLast;
  const std::int64_t pitch = channels_last ? placement.pitch : value.shape[1];
  return (channels_last || !is_image(value) || is_layout_neutral(value)) &&
         pitch * kElement % 16 == 0 && placement.offset % 16 == 0;
}

class Builder {
 public:
  Builder(const Plan& plan, const KernelPlan& kernel, const Tile& tile)
      : plan_(plan),
        kernel_(kernel),
        tile_(tile),
        problem_(read_chain(plan.graph, kernel.group)),
        result_type_(plan.graph.value(problem_.last().result).dtype),
        storage_(storage_of(problem_, result_type_)),
        g_(geometry(problem_, storage_, tile)) {}

  Kernel build() {
    ensure(g_.possible(), "the tiles of a planned chain fit");
    ensure(is_reachable(plan_, problem_.input), "a chain reads images channels-last");
    const ValueId y = problem_.last().result;
    const bool by_tma = storage_.by_tma && is_reachable(plan_, y);
    for (std::size_t i = 0; i < problem_.stages.size(); ++i) {
      const bool has_place = i + 1 < problem_.stages.size() || by_tma;
      if (storage_.loads(i) && (!has_place || !is_loadable(i))) storage_.held[i] = nullptr;
    }
    Kernel result;
    device::ChainSm90Parameters p{};
    p.y = output_parameters(plan_, y);
    set_extents(p);
    std::string source, stages;
    std::vector<EpilogueEmitter> epilogues;
    for (std::size_t i = 0; i < problem_.stages.size(); ++i) {
      epilogues.push_back(epilogue_of(i, result));
      const std::string name = fmt::format("Epilogue{}", i);
      source += epilogues.back().source(name) + "\n";
      stages += ", " + stage_type(i, name);
      set_stage(p.stage[index(i)], i);
      p.stage[index(i)].e = epilogues.back().parameters();
    }
    Parameters parameters(p);
    parameters.point(p.y.data, {Address::Of::kOutput, cpu::output_index(kernel_.group, y), 0});
    parameters.point(p.weights, add_constant(result, pack(plan_.graph, problem_, g_)));
    for (std::size_t i = 0; i < epilogues.size(); ++i) {
      epilogues[i].point(parameters, p.stage[index(i)].e);
      if (!is_stored(i)) continue;
      const int output = cpu::output_index(kernel_.group, problem_.stages[i].result);
      parameters.point(p.stage[i].stored.data, {Address::Of::kOutput, output, 0});
    }
    TensorMap input =
        pixels_map(plan_, problem_.input, g_.phase_rows, g_.phase_pitch, problem_.stages[0].stride);
    input.at = parameters.offset_of(&p.input);
    input.address = address_of(plan_, kernel_.group, problem_.input, result);
    result.maps.push_back(std::move(input));
    if (by_tma) {
      TensorMap output = pixels_map(plan_, y, tile_.rows, tile_.columns, {1, 1});
      output.at = parameters.offset_of(&p.output);
      output.address = {Address::Of::kOutput, cpu::output_index(kernel_.group, y), 0};
      result.maps.push_back(std::move(output));
    }
    for (std::size_t i = 0; i < problem_.stages.size(); ++i) {
      if (!storage_.loads(i)) continue;
      const bool last = i + 1 == problem_.stages.size();
      const StageTile& s = g_.stages[i];
      TensorMap operand =
          pixels_map(plan_, storage_.held[i]->id, s.rows, last ? s.columns : s.pitch, {1, 1});
      operand.at = parameters.offset_of(&p.operand[index(i)]);
      operand.address = address_of(plan_, kernel_.group, storage_.held[i]->id, result);
      result.maps.push_back(std::move(operand));
    }
    parameters.move_to(result);

    const int warpgroups = tile_.teams * tile_.warpgroups;
    const std::string call =
        fmt::format("chain_sm90<ChainSm90Tile<{}, {}, {}, {}{}>, {}, Store::{}>",
                    device_type(problem_.dtype), tile_.teams, tile_.warpgroups, tile_.resident,
                    stages, device_type(result_type_), by_tma ? "kVector" : "kEach");
    emit(result, "chain_sm90", {"chain_sm90.cuh"}, source, "ChainSm90Parameters", call,
         warpgroups > 1 ? 128 * (warpgroups + 1) : 192);
    result.grid.x = u32(block_count(g_, tile_, plan_.device.units));
    result.shared_bytes = u32(g_.shared_bytes);
    result.overlaps = true;
    return result;
  }

 private:
  /// The last stage has the last place.
  std::size_t index(std::size_t stage) const {
    return stage + 1 == problem_.stages.size() ? device::kMostChainStages - 1 : stage;
  }

  /// On the way: the last stage's result is the kernel's.
  bool is_stored(std::size_t stage) const {
    return problem_.stages[stage].stored && stage + 1 < problem_.stages.size();
  }

  /// May the operand that the stage would load come by TMA?
  bool is_loadable(std::size_t stage) const {
    const ValueId id = storage_.held[stage]->id;
    return plan_.graph.value(id).dtype == problem_.dtype && is_reachable(plan_, id);
  }
  std::string operand_of(std::size_t stage) const {
    const bool none = storage_.held[stage] == nullptr;
    return fmt::format("ChainOperand::{}", none                    ? "kNone"
                                           : storage_.loads(stage) ? "kLoaded"
                                                                   : "kKept");
  }

  std::string stage_type(std::size_t i, const std::string& epilogue) const {
    const ChainStage& stage = problem_.stages[i];
    std::string type = stage.kind == StageKind::kDepthwise
                           ? fmt::format("ChainSm90Depthwise<{}, {}>",
                                         is_adjacent(stage) ? stage.kernel[1] : 0, epilogue)
                           : fmt::format("ChainSm90Stage<{}, {}, {}, {}>", g_.stages[i].pixels,
                                         g_.stages[i].slices, operand_of(i), epilogue);
    if (!is_stored(i)) return type;
    return fmt::format("ChainSm90Stored<{}, Store::{}>", type,
                       takes_vectors(plan_, stage.result, kVector) ? "kVector" : "kEach");
  }

  void set_extents(device::ChainSm90Parameters& p) const {
    const ChainStage& first = problem_.stages.front();
    const ChainStage& last = problem_.last();
    p.tiles = to_int(g_.tiles);
    p.teams = tile_.teams;
    p.tiles_x = to_int(ceil_div(last.out[1], tile_.columns));
    p.tiles_y = to_int(ceil_div(last.out[0], tile_.rows));
    p.stride = to_int(first.stride[0]);
    p.corner_y = to_int(-first.pad[0]) - g_.stages[0].top * p.stride;
    p.corner_x = to_int(-first.pad[1]) - g_.stages[0].left * p.stride;
    p.phases_y = g_.phases[0], p.phases_x = g_.phases[1];
    p.phase_bytes = g_.phase_bytes;
    p.phase_loaded = g_.phase_rows * g_.phase_pitch * kRow;
    p.plane_bytes = g_.plane_bytes;
    p.input_slots = g_.input_slots;
    p.steps = g_.steps, p.weight_slots = g_.weight_slots;
    for (const StageTile& stage : g_.stages) p.turns += stage.filters > 0 ? 0 : stage.blocks;
    p.team_bytes = g_.team_bytes;
    p.staged = g_.staged, p.staged_bytes = g_.staged_bytes;
    p.staged_buffers = g_.staged_buffers;
    p.staged_beyond = g_.staged_beyond;
    p.columns_inverse = (1 << 20) / tile_.columns + 1;
    p.overwrites = g_.overwrites;
  }

  void set_stage(device::ChainSm90StageParameters& p, std::size_t i) const {
    const ChainStage& stage = problem_.stages[i];
    const StageTile& s = g_.stages[i];
    p.planes = s.planes, p.taps = to_int(stage.taps());
    p.blocks = s.blocks, p.channels = to_int(stage.outputs);
    p.group_bytes = s.group_bytes;
    p.pitch = s.pitch, p.pitch_inverse = (1 << 20) / s.pitch + 1;
    p.rows = s.rows, p.columns = s.columns;
    p.filters = s.filters;
    p.runs = to_int(ceil_div(s.columns, device::kChainRun));
    p.runs_inverse = (1 << 20) / p.runs + 1;
    p.height = to_int(stage.out[0]), p.width = to_int(stage.out[1]);
    p.top = s.top, p.left = s.left;
    const int steps = s.planes * to_int(stage.taps());
    p.lead = tile_.resident ? steps : std::clamp(g_.weight_slots / 2, 1, steps);
    p.to = s.to, p.to_plane = s.to_plane;
    if (i > 0) p.from = g_.stages[i - 1].to, p.from_plane = g_.stages[i - 1].to_plane;
    if (i + 1 < problem_.stages.size()) {
      const ChainStage& next = problem_.stages[i + 1];
      p.zeros = next.taps() > 1 || next.pad[0] != 0 || next.pad[1] != 0 || next.in != next.out;
    }
    if (storage_.loads(i)) {
      p.loaded_bytes = s.rows * (i + 1 < problem_.stages.size() ? s.pitch : s.columns) * kRow;
    } else if (storage_.held[i] != nullptr) {
      const StageTile& from = g_.stages[storage_.held[i]->source.stage];
      p.held = from.to, p.held_plane = from.to_plane;
      p.held_pitch = from.pitch;
      p.held_pixel = (from.top - s.top) * from.pitch + from.left - s.left;
    }
    if (is_stored(i)) p.stored = output_parameters(plan_, stage.result);
    set_taps(p, i);
  }

  void set_taps(device::ChainSm90StageParameters& p, std::size_t i) const {
    const ChainStage& stage = problem_.stages[i];
    const std::int64_t pitch = i == 0 ? g_.phase_pitch : g_.stages[i - 1].pitch;
    std::size_t tap = 0;
    for (std::int64_t ky = 0; ky < stage.kernel[0]; ++ky) {
      for (std::int64_t kx = 0; kx < stage.kernel[1]; ++kx, ++tap) {
        const std::int64_t y = ky * stage.dilation[0], x = kx * stage.dilation[1];
        const std::int64_t phase = y % stage.stride[0] * g_.phases[1] + x % stage.stride[1];
        p.tap_at[tap] = to_int((i == 0 ? phase * (g_.phase_bytes / 16) : 0) +
                               (y / stage.stride[0] * pitch + x / stage.stride[1]) * (kRow / 16));
      }
    }
  }

  EpilogueEmitter epilogue_of(std::size_t i, Kernel& result) const {
    const ChainStage& stage = problem_.stages[i];
    const Group::Member member = member_of(kernel_.group, stage);
    const int vector = stage.kind == StageKind::kDepthwise ? kVector : 1;
    EpilogueEmitter epilogue(plan_, kernel_, member, result, vector);
    if (const ChainOperand* const held = storage_.held[i]) {
      epilogue.keep_on_chip(
          held->id, fmt::format("float x[V]; load_held<{}>(x, at);", device_type(problem_.dtype)));
    }
    epilogue.add_bias(stage.bias);
    epilogue.add_steps(member);
    return epilogue;
  }

  const Plan& plan_;
  const KernelPlan& kernel_;
  Tile tile_;
  ChainProblem problem_;
  DType result_type_;
  Storage storage_;
  Geometry g_;
};

}  // namespace

Kernel build(const Plan& plan, const KernelPlan& kernel, const Tile& tile) {
  return Builder(plan, kernel, tile).build();
}

}  // namespace braze::cuda::chain90
