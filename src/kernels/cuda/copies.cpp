// Families that copy boxes: relayouts, Concat, permutations of axes, Slice, Split, Expand, Tile.
// Pad is in copy_tables.cpp.
#include <algorithm>

#include "base/error.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cuda/copy_emitter.hpp"
#include "kernels/cuda/families.hpp"

namespace braze::cuda {
namespace {

using cpu::View;

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  Work work = cpu::streaming_work(graph, group, 0);
  double written = 0;
  for (const ValueId id : group.outputs) written += cpu::bytes_of(graph, id);
  work.dram_bytes = std::min(work.dram_bytes, 2 * written);
  return work;
}

Support too_many(const char* what, std::size_t count) {
  if (count <= device::kCopyPieces) return Support::yes();
  return Support::no(what, fmt::format("{} pieces; takes {}", count, device::kCopyPieces));
}

Support rank_fits(const Graph& graph, const Node& node) {
  for (const ValueId id : {node.input(0), node.output(0)}) {
    if (graph.value(id).shape.size() > device::kCopyAxes)
      return Support::no("rank", "more than 8 axes");
  }
  return Support::yes();
}

Kernel build_relayout(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const ValueId id =
      group.members.empty() ? group.inputs.at(0) : cpu::anchor_of(plan.graph, group).input(0);
  const ValueId to_id = group.outputs.at(0);
  const View from = loaded_view(plan, group, id), to = cpu::view_of(plan, to_id);
  CopyEmitter copy(plan, kernel);
  if (from.shape == to.shape) {
    copy.add(id, to_id, box_of(from, to));
  } else if (element_count(to.shape) > 0) {
    auto axes = cpu::reshape_axes(from, to);
    if (!axes) {  // [6,4] to [8,3], neither row-major: rare, and small where it is met
      Kernel host;
      host.host = cpu::relayout().build(plan, kernel);
      return host;
    }
    copy.add(id, to_id, *std::move(axes));
  }
  return copy.build();
}

Kernel build_concat(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = cpu::anchor_of(plan.graph, kernel.group);
  const auto axis = static_cast<std::size_t>(node.as<Concat>()->axis);
  const ValueId to_id = cpu::stored_output(plan.graph, kernel.group);
  View part = cpu::view_of(plan, to_id);
  CopyEmitter copy(plan, kernel);
  std::int64_t start = 0;
  for (const ValueId id : node.inputs) {
    const View from = loaded_view(plan, kernel.group, id);
    part.shape = from.shape;
    copy.add(id, to_id, box_of(from, part), 0, start * part.strides[axis]);
    start += from.shape[axis];
  }
  return copy.build();
}

Kernel build_permutation(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = cpu::anchor_of(plan.graph, kernel.group);
  const ValueId to_id = cpu::stored_output(plan.graph, kernel.group);
  CopyEmitter copy(plan, kernel);
  copy.add(node.input(0), to_id,
           cpu::permutation_axes(node, loaded_view(plan, kernel.group, node.input(0)),
                                 cpu::view_of(plan, to_id)));
  return copy.build();
}

Kernel build_slice(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const ValueId from_id = node.input(0);
  const View from = loaded_view(plan, group, from_id);
  CopyEmitter copy(plan, kernel);
  if (const auto* split = node.as<Split>()) {
    const auto axis = static_cast<std::size_t>(split->axis);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < split->sizes.size(); ++i) {
      const ValueId to_id = cpu::stored_output(plan.graph, group, i);
      if (to_id != kNoValue)
        copy.add(from_id, to_id, box_of(from, cpu::view_of(plan, to_id)),
                 start * from.strides[axis]);
      start += split->sizes[i];
    }
    return copy.build();
  }
  const ValueId to_id = cpu::stored_output(plan.graph, group);
  const View to = cpu::view_of(plan, to_id);
  std::vector<cpu::CopyAxis> axes;
  std::int64_t offset = 0;
  const std::size_t missing = to.shape.size() - from.shape.size();  // Expand: leading axes
  for (std::size_t axis = 0; axis < to.shape.size(); ++axis) {
    const bool exists = axis >= missing;
    const std::int64_t extent = exists ? from.shape[axis - missing] : 1;
    const std::int64_t stride = exists ? from.strides[axis - missing] : 0;
    if (const auto* slice = node.as<Slice>()) {
      axes.push_back({to.shape[axis], slice->steps[axis] * stride, to.strides[axis]});
      offset += slice->starts[axis] * stride;
    } else if (const auto* tile = node.as<braze::Tile>()) {
      axes.push_back({tile->repeats[axis], 0, extent * to.strides[axis]});
      axes.push_back({extent, stride, to.strides[axis]});
    } else {
      axes.push_back({to.shape[axis], extent == 1 ? 0 : stride, to.strides[axis]});
    }
  }
  copy.add(from_id, to_id, std::move(axes), offset);
  return copy.build();
}

KernelFamily family_of_copies(std::string_view name) {
  KernelFamily family;
  family.name = name;
  family.backend = "cuda";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.candidates = cpu::only_candidate;
  family.work = work;
  return family;
}

}  // namespace

Row relayout() {
  KernelFamily family = family_of_copies("relayout");
  family.converts = true;
  family.supports = [](const Graph&, const Node& node, const Device&) {
    return node.kind() == OpKind::kReshape || node.kind() == OpKind::kIdentity
               ? Support::yes()
               : Support::no("operator", "a copy runs Identity and Reshape only");
  };
  return {family, build_relayout};
}

Row concat() {
  KernelFamily family = family_of_copies("concat");
  family.supports = [](const Graph& graph, const Node& node, const Device&) {
    if (node.kind() != OpKind::kConcat) return Support::no("operator", "runs Concat only");
    const Support rank = rank_fits(graph, node);
    return rank.ok ? too_many("inputs", node.inputs.size()) : rank;
  };
  return {family, build_concat};
}

Row transpose() {
  KernelFamily family = family_of_copies("transpose");
  family.converts = true;
  family.supports = [](const Graph& graph, const Node& node, const Device&) {
    const OpKind kind = node.kind();
    const bool permutes = kind == OpKind::kTranspose || kind == OpKind::kDepthToSpace ||
                          kind == OpKind::kSpaceToDepth || kind == OpKind::kChannelShuffle;
    return permutes ? rank_fits(graph, node) : Support::no("operator", "permutes axes only");
  };
  return {family, build_permutation};
}

Row slice() {
  KernelFamily family = family_of_copies("slice");
  family.supports = [](const Graph& graph, const Node& node, const Device&) {
    const OpKind kind = node.kind();
    if (kind != OpKind::kSlice && kind != OpKind::kSplit && kind != OpKind::kExpand &&
        kind != OpKind::kTile)
      return Support::no("operator", "copies boxes only");
    // Each axis of a Tile is two.
    if (kind == OpKind::kTile && 2 * graph.value(node.input(0)).shape.size() > device::kCopyAxes)
      return Support::no("rank", "repeats more than 4 axes");
    const Support rank = rank_fits(graph, node);
    return rank.ok ? too_many("outputs", node.outputs.size()) : rank;
  };
  return {family, build_slice};
}

}  // namespace braze::cuda
