#include "kernels/cpu/chain_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "graph/window.hpp"

namespace braze::cpu {
namespace {

/// Part of the L2 that a step may take.
constexpr double kShare = 0.75;
constexpr std::int64_t kFewestRows = 2;

bool is_constant(const Graph& graph, const Node& node, std::size_t i) {
  return node.input(i) == kNoValue || graph.value(node.input(i)).is_constant();
}

Support takes_member(const Graph& graph, const Group::Member& member, const Device& device) {
  const Node& node = graph.node(member.anchor);
  if (node.kind() == OpKind::kConv &&
      (!is_constant(graph, node, 1) || !is_constant(graph, node, 2)))
    return Support::no("weights",
                       fmt::format("weights or bias of '{}' arrive at run time", node.id));
  if (row_of(graph, node, device) == nullptr && !is_row_pointwise(graph, node))
    return Support::no("", "");
  for (const EpilogueStep& step : member.epilogue.steps) {
    if (step.cast) return Support::no("", "");
  }
  return Support::yes();
}

Support joins(const Graph& graph, const Group& group, const Device& device) {
  int convolutions = 0;
  for (const Group::Member& member : group.members) {
    const Support support = takes_member(graph, member, device);
    if (!support.ok) return support;
    convolutions += graph.node(member.anchor).kind() == OpKind::kConv ? 1 : 0;
  }
  // Between kernels that only pass over their bytes there is nothing to keep from memory that an
  // epilogue does not.
  if (convolutions == 0 || !group.casts.empty()) return Support::no("", "");
  std::string why;
  const std::optional<GroupTiles> tiles = GroupTiles::of(graph, group, &why);
  if (!tiles) return Support::no("", "");
  for (std::size_t m = 0; m < group.members.size(); ++m) {
    if (part_of(graph, group, m).inputs.size() > 8) return Support::no("", "");
  }
  if (tiles->batch() == 0 || tiles->result().extent[0] < kFewestRows) return Support::no("", "");
  const double bytes = step_bytes(*tiles, kFewestRows);
  if (bytes > kShare * device.onchip_bytes) {
    return Support::no(
        "on-chip",
        fmt::format(
            "{} rows of all images take {:.0f} kB, more than {:.0f} % of the {:.0f} kB of the L2",
            kFewestRows, bytes / 1e3, 100 * kShare, device.onchip_bytes / 1e3));
  }
  return Support::yes();
}

Candidate candidate(std::int64_t rows, std::int64_t band) {
  return {{{"rows", rows}, {"band", band}}};
}

/// Convolutions of the direct family read and write either layout, and so does an epilogue read its
/// operands; all others, and what is stored besides the result, are channels-last.
std::optional<Layout> layout_of(const Graph& graph, const Group& group, ValueId id,
                                const Device& device) {
  if (group.outputs.size() > 1 && std::ranges::find(group.outputs, id) != group.outputs.end())
    return Layout::kChannelsLast;
  for (const Group::Member& member : group.members) {
    const Node& node = graph.node(member.anchor);
    const bool touched =
        member.result == id || std::ranges::find(node.inputs, id) != node.inputs.end();
    const Row* row = row_of(graph, node, device);
    if (touched && (row == nullptr || row->family.layouts != LayoutRule::kEach))
      return Layout::kChannelsLast;
  }
  return std::nullopt;
}

/// Rows at once: more of them read weights less often, fewer keep intermediates nearer; all of a
/// band are what the members' own kernels would do, one after another. Bands: as
/// many as give each worker one, two or four.
std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  const Shape& shape = graph.value(group.members.back().result).shape;
  const std::int64_t height = shape[2];
  const GroupTiles tiles = *GroupTiles::of(graph, group, nullptr);
  std::vector<std::int64_t> bands;
  for (const std::int64_t share : {1, 2, 4}) {
    const std::int64_t wanted = device.units == 1 ? 1 : ceil_div(device.units * share, shape[0]);
    const std::int64_t band = ceil_div(height, std::min(wanted, height));
    if (std::ranges::find(bands, band) == bands.end()) bands.push_back(band);
  }
  std::vector<Candidate> list;
  for (const std::int64_t band : bands) {
    std::int64_t last = 0;
    for (const std::int64_t wanted :
         {kFewestRows, std::int64_t{4}, std::int64_t{8}, std::int64_t{16}, band}) {
      const std::int64_t rows = ceil_div(band, ceil_div(band, wanted));  // equal steps
      const bool fits = step_bytes(tiles, rows) <= kShare * device.onchip_bytes;
      if (rows > last && (fits || last == 0)) list.push_back(candidate(rows, band));
      last = std::max(last, rows);
    }
  }
  return list;
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  std::vector<std::unique_ptr<RowKernel>> parts;
  for (std::size_t m = 0; m < kernel.group.members.size(); ++m) {
    KernelPlan part;
    part.group = part_of(plan.graph, kernel.group, m);
    const Node& node = plan.graph.node(kernel.group.members[m].anchor);
    const Row* row = row_of(plan.graph, node, plan.device);
    if (row == nullptr) {
      parts.push_back(row_pointwise(plan, part));
      continue;
    }
    std::unique_ptr<Kernel> built = row->build(plan, part);
    auto* const rows = dynamic_cast<RowKernel*>(built.get());
    ensure(rows != nullptr, "a member's kernel runs row by row");
    static_cast<void>(built.release());
    parts.emplace_back(rows);
  }
  const Tiling tile = chain_rows_tiling(plan.graph, kernel.group, kernel.candidate, plan.device);
  return chain_rows_kernel(plan, kernel, tile, std::move(parts));
}

}  // namespace

Row chain_rows() {
  KernelFamily family;
  family.name = "chain_rows";
  family.backend = "cpu";
  family.layouts = LayoutRule::kChannelsLast;
  family.epilogue = true;
  family.pitched = true;
  family.supports = [](const Graph&, const Node&, const Device&) {
    return Support::no("", "runs groups of several members only");
  };
  family.joins = joins;
  family.candidates = candidates;
  family.work = chain_rows_work;
  family.stores = true;
  family.layout_of = layout_of;
  family.tiling = chain_rows_tiling;
  return {family, build};
}

}  // namespace braze::cpu
