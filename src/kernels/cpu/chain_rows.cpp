#include "kernels/cpu/chain_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "graph/window.hpp"
#include "plan/parts.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t kFewestRows = 2;

bool is_constant(const Graph& graph, const Node& node, std::size_t i) {
  return node.input(i) == kNoValue || graph.value(node.input(i)).is_constant();
}

/// Why a node that moves elements is none that is copied row by row; no reason for others.
Support moves_other_than_rows(const Graph& graph, const Node& node) {
  std::string why;
  if (node.as<Resize>() != nullptr && !region_read(graph, node, 0, &why))
    return Support::no("resize", std::move(why));
  const bool moves =
      node.as<Slice>() != nullptr || node.as<Split>() != nullptr || node.as<Concat>() != nullptr;
  if (moves && !moves_channels(graph, node))
    return Support::no("channels",
                       fmt::format("'{}' cuts or joins along another axis than channels", node.id));
  return Support::no("", "");
}

Support takes_member(const Graph& graph, const Group::Member& member, const Device& device) {
  const Node& node = graph.node(member.anchor);
  if (node.kind() == OpKind::kConv &&
      (!is_constant(graph, node, 1) || !is_constant(graph, node, 2)))
    return Support::no("weights",
                       fmt::format("weights or bias of '{}' arrive at run time", node.id));
  if (row_of(graph, node, device) == nullptr && !is_row_pointwise(graph, node) &&
      !is_row_copy(graph, member))
    return moves_other_than_rows(graph, node);
  for (const EpilogueStep& step : member.epilogue.steps) {
    if (step.cast) return Support::no("", "");
  }
  return Support::yes();
}

Support joins(const Graph& graph, const Group& group, const Device& device) {
  int convolutions = 0;
  for (const Group::Member& member : group.members) {
    const Support support = takes_member(graph, member, device);
    if (!support.ok) {
      // What lies in a long stretch would hide what is said of its parts.
      const bool told = support.rule == "weights" || group.members.size() == 2;
      return told ? support : Support::no("", "");
    }
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
  return Support::yes();
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

/// Rows at once: more of them read weights less often, fewer keep intermediates nearer; all of them
/// are what the members' own kernels would do, one after another.
std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device&) {
  const std::int64_t height = graph.value(group.members.back().result).shape[2];
  std::vector<Candidate> list;
  for (std::int64_t rows = kFewestRows; rows < height && rows <= 16; rows *= 2)
    list.push_back({{{"rows", rows}}});
  list.push_back({{{"rows", height}}});
  return list;
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  std::map<ValueId, ValueId> inside;
  for (const auto& [id, part] : parts_of(plan.graph, kernel.group)) {
    if (lies_inside(plan, id, part.whole)) inside[id] = part.whole;
  }
  std::vector<std::unique_ptr<RowKernel>> parts;
  for (std::size_t m = 0; m < kernel.group.members.size(); ++m) {
    KernelPlan part;
    part.group = part_of(plan.graph, kernel.group, m);
    const Node& node = plan.graph.node(kernel.group.members[m].anchor);
    if (is_zipped(plan.graph, kernel.group, node)) {
      parts.push_back(row_nothing());
    } else if (const Node* concat = zipped_concat(plan.graph, kernel.group, node)) {
      parts.push_back(row_zip(plan, part, *concat));
    } else if (is_row_copy(plan.graph, kernel.group.members[m])) {
      parts.push_back(row_copy(plan, part, inside));
    } else if (const Row* row = row_of(plan.graph, node, plan.device)) {
      parts.emplace_back(dynamic_cast<RowKernel*>(row->build(plan, part).release()));
      ensure(parts.back() != nullptr, "a member's kernel runs row by row");
    } else {
      parts.push_back(row_pointwise(plan, part));
    }
  }
  const Tiling tile = chain_rows_tiling(plan.graph, kernel.group, kernel.candidate, plan.device);
  return chain_rows_kernel(plan, kernel, tile, std::move(parts));
}

}  // namespace

bool lies_inside(const Plan& plan, ValueId part, ValueId whole) {
  const Placement& inner = plan.placements[static_cast<std::size_t>(part)];
  const Placement& outer = plan.placements[static_cast<std::size_t>(whole)];
  return inner.layout == Layout::kChannelsLast && outer.layout == Layout::kChannelsLast &&
         inner.pitch == outer.pitch;
}

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
