// Operators that move elements: Concat, Split, Slice, Pad, Transpose, Gather, Expand, Tile and
// those of the depth axis.
#include <algorithm>
#include <numeric>

#include "graph/resolve/resolver.hpp"
#include "graph/window.hpp"

namespace braze::graph {

Attributes resolve_op(Concat op, Resolver& node) {
  op.axis = node.in().axis(op.axis, node.rank(0));
  return op;
}

/// Without sizes: parts of equal extent, the last one takes what is left.
Attributes resolve_op(Split op, Resolver& node) {
  op.axis = node.in().axis(op.axis, node.rank(0));
  if (const auto sizes = node.ints(1)) op.sizes = *sizes;
  node.drop_inputs(1);
  if (!op.sizes.empty()) return op;
  const auto parts = static_cast<std::int64_t>(node.in().output_count());
  std::int64_t left = node.shape(0)[static_cast<std::size_t>(op.axis)];
  const std::int64_t part = ceil_div(left, parts);
  for (std::int64_t i = 0; i < parts; ++i) {
    op.sizes.push_back(std::min(part, left));
    left -= op.sizes.back();
  }
  return op;
}

/// ONNX's clamping: starts into [0, n] (negative step: [0, n-1]), ends into [0, n] (negative step:
/// [-1, n-1]).
Attributes resolve_op(Slice op, Resolver& node) {
  if (const auto values = node.ints(1)) op.starts = *values;
  if (const auto values = node.ints(2)) op.ends = *values;
  if (const auto values = node.ints(3)) op.axes = *values;
  if (const auto values = node.ints(4)) op.steps = *values;
  node.drop_inputs(1);
  const NodeView in = node.in();
  const Shape x = node.shape(0);
  const std::size_t count = op.starts.size();
  if (op.axes.empty()) {
    op.axes.resize(count);
    std::iota(op.axes.begin(), op.axes.end(), 0);
  }
  if (op.steps.empty()) op.steps.assign(count, 1);
  if (op.ends.size() != count || op.axes.size() != count || op.steps.size() != count) {
    in.invalid("has {} starts, {} ends, {} axes and {} steps", count, op.ends.size(),
               op.axes.size(), op.steps.size());
  }
  normal_axes(in, op.axes, std::ssize(x));

  Slice whole{Ints(x.size(), 0), x, {}, Ints(x.size(), 1)};
  for (std::size_t i = 0; i < count; ++i) {
    const auto axis = static_cast<std::size_t>(in.axis(op.axes[i], std::ssize(x)));
    const std::int64_t n = x[axis];
    const auto from_end = [n](std::int64_t position) {
      return position < 0 ? position + n : position;
    };
    const std::int64_t farthest = std::max<std::int64_t>(n, 1);
    if (op.steps[i] == 0) in.invalid("the step of axis {} is 0", axis);
    const bool forward = op.steps[i] > 0;
    const std::int64_t last = forward ? n : n - 1;
    whole.steps[axis] = std::clamp(op.steps[i], -farthest, farthest);
    whole.starts[axis] = std::min(std::max<std::int64_t>(from_end(op.starts[i]), 0), last);
    whole.ends[axis] =
        std::min(std::max<std::int64_t>(from_end(op.ends[i]), forward ? 0 : -1), last);
    if (n == 0) whole.starts[axis] = whole.ends[axis] = 0;
  }
  return whole;
}

Attributes resolve_op(Pad op, Resolver& node) {
  const NodeView in = node.in();
  const auto rank = static_cast<std::size_t>(node.rank(0));
  if (const auto pads = node.ints(1)) op.pads = *pads;
  if (const auto value = node.doubles(2); value && !value->empty()) op.value = value->front();
  if (const auto axes = node.ints(3)) {
    if (op.pads.size() != 2 * axes->size()) {
      in.invalid("has {} pads for {} axes, expected two per axis", op.pads.size(), axes->size());
    }
    normal_axes(in, *axes, std::ssize(node.shape(0)));
    Ints all(2 * rank, 0);
    for (std::size_t i = 0; i < axes->size(); ++i) {
      const auto axis = static_cast<std::size_t>(in.axis((*axes)[i], std::ssize(node.shape(0))));
      all[axis] = op.pads[i];
      all[rank + axis] = op.pads[axes->size() + i];
    }
    op.pads = all;
  }
  node.drop_inputs(1);
  if (op.pads.size() != 2 * rank) {
    in.invalid("has {} pads, expected two for each of the {} axes of x", op.pads.size(), rank);
  }
  constexpr std::int64_t kLargest = std::int64_t{1} << 48;
  for (const std::int64_t pad : op.pads) {
    if (pad < -kLargest || pad > kLargest) in.invalid("cannot pad by {}", pad);
  }
  return op;
}

Attributes resolve_op(Transpose op, Resolver& node) {
  const auto rank = static_cast<std::size_t>(node.rank(0));
  if (op.perm.empty()) {
    op.perm.resize(rank);
    std::iota(op.perm.rbegin(), op.perm.rend(), 0);
  }
  return op;
}

Attributes resolve_op(Gather op, Resolver& node) {
  op.axis = node.in().axis(op.axis, node.rank(0));
  return op;
}

Attributes resolve_op(Expand op, Resolver& node) {
  if (const auto dims = node.ints(1)) op.dims = *dims;
  for (const std::int64_t extent : op.dims) {
    if (extent < 0) node.in().invalid("the shape {} has a negative extent", to_string(op.dims));
  }
  op.dims = broadcast_shape(node.shape(0), op.dims, node.in().where());
  node.drop_inputs(1);
  return op;
}

Attributes resolve_op(Tile op, Resolver& node) {
  if (const auto repeats = node.ints(1)) op.repeats = *repeats;
  node.drop_inputs(1);
  return op;
}

Attributes resolve_op(DepthToSpace op, Resolver& /*node*/) { return op; }
Attributes resolve_op(SpaceToDepth op, Resolver& /*node*/) { return op; }
Attributes resolve_op(ChannelShuffle op, Resolver& /*node*/) { return op; }

}  // namespace braze::graph
