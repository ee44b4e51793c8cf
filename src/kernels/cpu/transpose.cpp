// Transpose, DepthToSpace, SpaceToDepth, ChannelShuffle: each is a permutation of the axes of a
// reshaped array, and so a strided copy between any two layouts.
#include <utility>

#include "base/error.hpp"
#include "kernels/cpu/copy_kernel.hpp"
#include "kernels/cpu/families.hpp"

namespace braze::cpu {
namespace {

/// Bytes from one index to the next of each axis of a [N, C, H, W] (or [N, C, ...]) image.
struct ImageStrides {
  explicit ImageStrides(const View& view) : n(view.strides[0]), c(view.strides[1]) {
    if (view.strides.size() == 4) h = view.strides[2], w = view.strides[3];
  }
  std::int64_t n, c, h = 0, w = 0;
};

std::vector<CopyAxis> axes_of(const Transpose& op, const View& from, const View& to) {
  std::vector<CopyAxis> axes;
  for (std::size_t axis = 0; axis < to.shape.size(); ++axis) {
    axes.push_back(
        {to.shape[axis], from.strides[static_cast<std::size_t>(op.perm[axis])], to.strides[axis]});
  }
  return axes;
}

/// Pixel (b h + i, b w + j) of the space image is channel (i, j, c) of the depth image at (h, w);
/// (c, i, j) if channels_first.
std::vector<CopyAxis> depth_and_space(const View& depth_view, const View& space_view,
                                      std::int64_t block, bool channels_first, bool depth_is_from) {
  const ImageStrides depth(depth_view), space(space_view);
  const std::int64_t channels = space_view.shape[1];
  const std::int64_t depth_c = channels_first ? block * block * depth.c : depth.c;
  const std::int64_t depth_j = channels_first ? depth.c : channels * depth.c;
  std::vector<CopyAxis> axes = {{depth_view.shape[0], depth.n, space.n},
                                {channels, depth_c, space.c},
                                {block, block * depth_j, space.h},
                                {block, depth_j, space.w},
                                {depth_view.shape[2], depth.h, block * space.h},
                                {depth_view.shape[3], depth.w, block * space.w}};
  if (!depth_is_from) {
    for (CopyAxis& axis : axes) std::swap(axis.from, axis.to);
  }
  return axes;
}

std::vector<CopyAxis> axes_of(const DepthToSpace& op, const View& from, const View& to) {
  return depth_and_space(from, to, op.block, op.column_row_depth, true);
}

std::vector<CopyAxis> axes_of(const SpaceToDepth& op, const View& from, const View& to) {
  return depth_and_space(to, from, op.block, false, false);
}

/// [N, groups, C / groups, ...] becomes [N, C / groups, groups, ...].
std::vector<CopyAxis> axes_of(const ChannelShuffle& op, const View& from, const View& to) {
  const std::int64_t each = to.shape[1] / op.groups;
  std::vector<CopyAxis> axes = {{to.shape[0], from.strides[0], to.strides[0]},
                                {op.groups, each * from.strides[1], to.strides[1]},
                                {each, from.strides[1], op.groups * to.strides[1]}};
  for (std::size_t axis = 2; axis < to.shape.size(); ++axis) {
    axes.push_back({to.shape[axis], from.strides[axis], to.strides[axis]});
  }
  return axes;
}

bool is_permutation(const Node& node) {
  const OpKind kind = node.kind();
  return kind == OpKind::kTranspose || kind == OpKind::kDepthToSpace ||
         kind == OpKind::kSpaceToDepth || kind == OpKind::kChannelShuffle;
}

Support supports(const Graph&, const Node& node, const Device&) {
  if (is_permutation(node)) return Support::yes();
  return Support::no("operator", "permutes axes only");
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  const ValueId to_id = stored_output(plan.graph, kernel.group);
  const View from = view_of(plan, node.input(0)), to = view_of(plan, to_id);
  auto copy = std::make_unique<CopyKernel>();
  copy->add(operand_of(plan, kernel.group, node.input(0)), output_index(kernel.group, to_id),
            StridedCopy(to.element_bytes, permutation_axes(node, from, to)));
  return copy;
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  return streaming_work(graph, group, 0);
}

}  // namespace

std::vector<CopyAxis> permutation_axes(const Node& node, const View& from, const View& to) {
  if (const auto* transpose = node.as<Transpose>()) return axes_of(*transpose, from, to);
  if (const auto* depth_to_space = node.as<DepthToSpace>())
    return axes_of(*depth_to_space, from, to);
  if (const auto* space_to_depth = node.as<SpaceToDepth>())
    return axes_of(*space_to_depth, from, to);
  return axes_of(*node.as<ChannelShuffle>(), from, to);
}

Row transpose() {
  KernelFamily family;
  family.name = "transpose";
  family.backend = "cpu";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
