// Dense Conv, transposed or not, and products with a constant matrix, for sm_90a: the family's row.
#include "kernels/cuda/conv_sm90.hpp"

#include <optional>

#include "base/error.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/conv_sm90_patch.hpp"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "plan/stages.hpp"

namespace braze::cuda {
namespace {

constexpr std::string_view kName = "conv_sm90";

int staged_of(const Graph& graph, const Group& group) {
  if (!stages_operand(cpu::anchor_of(graph, group))) return 0;
  return staged_bytes(graph, group.members.front(), !group.casts.empty());
}

/// Tiles of the kernel that reads patches have rows.
std::optional<PatchTile> patch_of(const Candidate& candidate) {
  const auto get = [&](const char* name) { return static_cast<int>(candidate.get(name, 0)); };
  if (get("rows") == 0) return std::nullopt;
  return PatchTile{get("rows"), get("columns"), get("pixels"), get("warpgroups"), get("split")};
}

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device&) {
  std::vector<Candidate> list;
  const ConvSm90Problem problem = conv_sm90_problem(graph, cpu::anchor_of(graph, group));
  const int staged = staged_of(graph, group);
  for (const ConvSm90TileShape& tile : conv_sm90_tiles(problem, staged)) {
    list.push_back(candidate_of(tile));
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
  const std::optional<PatchTile> patch = patch_of(candidate);
  const int staged = staged_of(graph, group);
  if (!patch) return conv_sm90_work(graph, group, problem, tile_of(candidate), staged, device);
  return conv_sm90_work(graph, group, problem, patch_us(problem, *patch, staged, device),
                        patch_geometry(problem, *patch, staged).blocks(device), device);
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

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = cpu::anchor_of(plan.graph, kernel.group);
  const ValueId x = loaded_value(plan, kernel.group, node.input(0));
  const std::optional<std::int64_t> pitch = readable_pitch(plan, x);
  if (!pitch || x != node.input(0)) return build_otherwise(plan, kernel);
  if (const std::optional<PatchTile> patch = patch_of(kernel.candidate))
    return build_patch(plan, kernel, *patch, *pitch);
  const ConvSm90TileShape tile = tile_of(kernel.candidate);
  const ConvSm90Sum sum{
      {{&node, conv_sm90_problem(plan.graph, node).in_tiles_of(tile.channels), *pitch}},
      kernel.group.members.front()};
  return build_im2col(plan, kernel, tile, sum);
}

}  // namespace

Row conv_sm90() {
  KernelFamily family = image_family(kName);
  family.supports = supports_conv_sm90;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
