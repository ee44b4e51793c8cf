// Operators that compute along given axes: quantization, products, normalisation, reductions.
#include <algorithm>
#include <numeric>

#include "graph/resolve/resolver.hpp"

namespace braze::graph {

Ints normal_axes(const NodeView& in, Ints axes, std::int64_t rank) {
  for (std::int64_t& axis : axes) axis = in.axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    in.invalid("axes {} name one axis twice", to_string(axes));
  }
  return axes;
}

namespace {

/// One scale for the whole tensor has no axis.
template <class Op>
Op resolve_quantization(Op op, const Resolver& node) {
  op.axis = element_count(node.shape(1)) == 1 ? 0 : node.in().axis(op.axis, node.rank(0));
  return op;
}

}  // namespace

Attributes resolve_op(Quantize op, Resolver& node) { return resolve_quantization(op, node); }
Attributes resolve_op(Dequantize op, Resolver& node) { return resolve_quantization(op, node); }
Attributes resolve_op(MatMul op, Resolver& /*node*/) { return op; }
Attributes resolve_op(Gemm op, Resolver& /*node*/) { return op; }
Attributes resolve_op(BatchNorm op, Resolver& /*node*/) { return op; }
Attributes resolve_op(InstanceNorm op, Resolver& /*node*/) { return op; }
Attributes resolve_op(Lrn op, Resolver& /*node*/) { return op; }

/// flatten: Softmax over the last axis of [prod of the axes before `axis`, prod of the others].
Attributes resolve_op(Softmax op, Resolver& node) {
  const Shape x = node.shape(0);
  const auto rank = std::ssize(x);
  if (rank == 0 && op.axis >= -1 && op.axis <= 0) {
    node.set_input(0, node.before(Reshape{{1}, false}, {node.input(0)}));
    node.set_input(0, node.before(Softmax{0, op.log, false}, {node.input(0)}));
    return Reshape{x, true};
  }
  const bool past_end = op.flatten && op.axis == rank;
  op.axis = past_end ? rank : node.in().axis(op.axis, rank);
  if (!op.flatten) return op;
  op.flatten = false;
  if (op.axis == rank - 1) return op;
  const Shape rows(x.begin(), x.begin() + op.axis);
  const Shape columns(x.begin() + op.axis, x.end());
  const Reshape matrix{{element_count(rows), element_count(columns)}, true};
  node.set_input(0, node.before(matrix, {node.input(0)}));
  node.set_input(0, node.before(Softmax{1, op.log, false}, {node.input(0)}));
  return Reshape{x, true};
}

Attributes resolve_op(Reduce op, Resolver& node) {
  const auto rank = node.rank(0);
  if (const auto axes = node.ints(1)) op.axes = *axes;
  node.drop_inputs(1);
  if (op.spatial) {
    if (rank < 3)
      node.in().invalid("x has shape {}, expected [N,C,spatial...]", to_string(node.shape(0)));
    op.axes.resize(static_cast<std::size_t>(rank - 2));
    std::iota(op.axes.begin(), op.axes.end(), 2);
  } else if (op.axes.empty() && !op.noop_with_empty_axes) {
    op.axes.resize(static_cast<std::size_t>(rank));
    std::iota(op.axes.begin(), op.axes.end(), 0);
  }
  op.spatial = false;
  op.noop_with_empty_axes = false;
  op.axes = normal_axes(node.in(), std::move(op.axes), rank);
  return op;
}

Attributes resolve_op(ArgReduce op, Resolver& node) {
  op.axis = node.in().axis(op.axis, node.rank(0));
  return op;
}

}  // namespace braze::graph
