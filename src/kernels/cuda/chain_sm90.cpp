// Two to four convolutions, dense and depthwise, in one kernel for sm_90a: the family's row.
#include "kernels/cuda/chain_sm90.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cpu/group.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/fold_pixels.hpp"

namespace braze::cuda {
namespace {

using namespace chain90;

constexpr std::size_t kMostCandidates = 12;
constexpr std::int64_t kMostChannels = 1024;
constexpr std::int64_t kPlane = 64;  // channels that a product has, used or not

DType result_type(const Graph& graph, const ChainProblem& problem) {
  return graph.value(problem.last().result).dtype;
}

/// May stage i of a chain be run by the family?
Support supports_stage(const Graph& graph, const ChainProblem& problem, std::size_t i) {
  const ChainStage& stage = problem.stages[i];
  const std::string& name = graph.value(stage.result).name;
  if (!stage.is_conv()) return Support::no("", "");
  const ChainSource before{i == 0 ? ChainSource::Of::kInput : ChainSource::Of::kStage,
                           i == 0 ? 0 : i - 1};
  if (!(stage.reads == before))
    return Support::no("other-image",
                       fmt::format("'{}' does not read what the convolution before makes", name));
  if (i > 0 && (stage.stride[0] != 1 || stage.stride[1] != 1))
    return Support::no("stride", fmt::format("stride {}x{} of '{}'; only the first convolution of "
                                             "a chain has strides",
                                             stage.stride[0], stage.stride[1], name));
  if (stage.stride[0] != stage.stride[1] || stage.stride[0] > 8)
    return Support::no("stride", fmt::format("stride {}x{} of '{}'; takes equal ones up to 8",
                                             stage.stride[0], stage.stride[1], name));
  if (stage.taps() > device::kMostChainTaps)
    return Support::no("window",
                       fmt::format("filter {}x{} of '{}'; at most {} taps", stage.kernel[0],
                                   stage.kernel[1], name, device::kMostChainTaps));
  if (stage.channels > kMostChannels || stage.outputs > kMostChannels)
    return Support::no("channels", fmt::format("'{}' makes {} channels of {}; at most {}", name,
                                               stage.outputs, stage.channels, kMostChannels));
  const auto on_chip = std::ranges::count_if(stage.operands, [](const ChainOperand& one) {
    return one.source.of == ChainSource::Of::kStage;
  });
  if (stage.kind == StageKind::kDepthwise && !stage.operands.empty())
    return Support::no("operands",
                       fmt::format("the epilogue of '{}' has an operand as large as its "
                                   "result; none after depthwise convolutions",
                                   name));
  if (on_chip > 1)
    return Support::no("operands", fmt::format("{} operands in the epilogue of '{}' stay on chip; "
                                               "at most one",
                                               on_chip, name));
  return Support::yes();
}

Support joins(const Graph& graph, const Group& group, const Device& device) {
  if (device.sm != 90) return Support::no("", "");
  if (group.members.size() > device::kMostChainStages) return Support::no("", "");
  Support why;
  const std::optional<ChainProblem> problem = read_chain(graph, group, why);
  if (!problem) return why;
  for (std::size_t i = 0; i < problem->stages.size(); ++i) {
    if (Support stage = supports_stage(graph, *problem, i); !stage.ok) return stage;
  }
  if (problem->dtype != DType::kFloat16 && problem->dtype != DType::kBFloat16)
    return Support::no("dtype",
                       fmt::format("{}; takes float16 and bfloat16", to_string(problem->dtype)));
  if (!group.casts.empty()) return Support::no("casts", "an operand is converted while it is read");
  if (problem->channels % 8 != 0)
    return Support::no("channels",
                       fmt::format("{} channels of '{}'; takes multiples of 8", problem->channels,
                                   graph.value(problem->input).name));
  if (problem->batch == 0) return Support::no("empty", "there are no images");
  const Storage storage = storage_of(*problem, result_type(graph, *problem));
  if (!fits(*problem, storage))
    return Support::no("on-chip", "not even small tiles of all results fit in shared memory");
  return Support::yes();
}

/// In pixels as the kernel has them.
Tile tile_of(const Candidate& candidate) {
  const auto get = [&](const char* name) { return static_cast<int>(candidate.get(name, 1)); };
  return {get("rows"), get("columns"), get("teams"), get("warpgroups"), get("resident") != 0};
}
/// Of how many of the image's pixels one is made (fold_pixels.hpp).
std::int64_t fold_of(const Candidate& candidate) { return candidate.get("fold", 1); }

std::int64_t foldable(const Graph& graph, const Group& group) {
  const ChainProblem problem = read_chain(graph, group);
  const bool by_tma = storage_of(problem, result_type(graph, problem)).by_tma;
  return by_tma ? foldable_pixels(graph, group, kPlane) : 1;
}

/// The chain as the kernel has it.
ChainProblem problem_of(const Graph& graph, const Group& group, std::int64_t fold) {
  if (fold == 1) return read_chain(graph, group);
  const FoldedGroup folded = fold_pixels(graph, group, fold, false);
  return read_chain(folded.graph, folded.group);
}

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  std::vector<Candidate> list;
  const auto add = [&](std::int64_t fold) {
    const ChainProblem problem = problem_of(graph, group, fold);
    const Storage storage = storage_of(problem, graph.value(group.members.back().result).dtype);
    for (const Tile& tile : tiles_of(problem, storage, device, kMostCandidates)) {
      list.push_back({{{"rows", tile.rows},
                       {"columns", tile.columns},
                       {"teams", tile.teams},
                       {"warpgroups", tile.warpgroups},
                       {"resident", tile.resident ? 1 : 0}}});
      if (fold > 1) list.back().parameters.push_back({"fold", fold});
    }
  };
  if (const std::int64_t fold = foldable(graph, group); fold > 1) add(fold);
  add(1);
  return list;
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const ChainProblem problem = read_chain(graph, group);
  const Tile tile = tile_of(candidate);
  const std::int64_t fold = fold_of(candidate);
  const ChainProblem run = problem_of(graph, group, fold);
  const Storage storage = storage_of(run, result_type(graph, problem));
  const Geometry g = geometry(run, storage, tile);
  const std::vector<double> repeated = problem.tiles.recomputed(tile.rows, fold * tile.columns);
  double flops = 0;
  for (std::size_t i = 0; i < problem.stages.size(); ++i) {
    const ChainStage& stage = problem.stages[i];
    flops += repeated[i] * stage.flops(static_cast<double>(problem.batch * stage.out[0]) *
                                       static_cast<double>(stage.out[1]));
  }
  Work work = cpu::streaming_work(graph, group, flops, 1);
  // As in conv_sm90.cpp: memory and the rest overlap, but not wholly.
  const double bandwidth =
      work.dram_bytes < device.cache_bytes ? device.cache_bandwidth : device.dram_bandwidth;
  const double memory_us = work.dram_bytes / bandwidth * 1e6;
  const double other_us = time_us(run, storage, tile, g, device);
  const double us = std::max(memory_us, other_us) + 0.1 * std::min(memory_us, other_us);
  work.efficiency = flops / (us * 1e-6 * device.flops_fp16);
  work.units = static_cast<double>(block_count(g, tile, device.units));
  return work;
}

Kernel build_planned(const Plan& plan, const KernelPlan& kernel) {
  const std::int64_t fold = fold_of(kernel.candidate);
  const Tile tile = tile_of(kernel.candidate);
  if (fold == 1) return chain90::build(plan, kernel, tile);
  if (const auto folded = fold_kernel(plan, kernel, fold))
    return chain90::build(folded->plan, folded->kernel, tile);
  // Pixels do not lie side by side after all.
  const ChainProblem problem = read_chain(plan.graph, kernel.group);
  const Storage storage = storage_of(problem, result_type(plan.graph, problem));
  return chain90::build(plan, kernel, tiles_of(problem, storage, plan.device, 1).front());
}

}  // namespace

Row chain_sm90() {
  KernelFamily family;
  family.name = "chain_sm90";
  family.backend = "cuda";
  family.layouts = LayoutRule::kChannelsLast;
  family.epilogue = true;
  family.supports = [](const Graph&, const Node&, const Device&) {
    return Support::no("members", "");  // runs groups of several only
  };
  family.stores = true;
  family.joins = joins;
  family.candidates = candidates;
  family.work = work;
  family.tiling = [](const Graph&, const Group&, const Candidate& candidate, const Device&) {
    const Tile tile = tile_of(candidate);
    return Tiling{tile.rows, fold_of(candidate) * tile.columns, 0};
  };
  return {family, build_planned};
}

}  // namespace braze::cuda
