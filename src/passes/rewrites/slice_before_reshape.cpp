// reshape(slice(reshape(x))) = reshape(slice(x)) where the slice takes whole rows of one axis of x.
// Channel halves that a model takes from a [2,C/2,H,W] view become slices along the channels.
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

/// Elements in one step along an axis.
std::int64_t stride_of(const Shape& shape, std::size_t axis) {
  std::int64_t stride = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) stride *= shape[i];
  return stride;
}

struct SliceBeforeReshape {
  struct Match {
    NodeId last = kNoNode;
    NodeId slice = kNoNode;
    NodeId first = kNoNode;
    Slice moved;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    if (graph.node(id).kind() != OpKind::kReshape) return std::nullopt;
    const NodeId node = if_op<Slice>(graph, sole_producer(graph, graph.node(id).input(0)));
    if (node == kNoNode) return std::nullopt;
    const ValueId view = graph.node(node).input(0);
    const NodeId first = if_op<Reshape>(graph, graph.producer(view));
    if (first == kNoNode) return std::nullopt;

    const Shape& from = graph.value(view).shape;
    const Shape& to = graph.value(graph.node(node).output()).shape;
    const Shape& x = graph.value(graph.node(first).input(0)).shape;
    if (element_count(to) == 0) return std::nullopt;
    const auto& slice = *graph.node(node).as<Slice>();
    std::optional<std::size_t> sliced;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i] == to[i] && slice.steps[i] == 1) continue;
      if (sliced || slice.steps[i] != 1) return std::nullopt;
      sliced = i;
    }
    if (!sliced) return std::nullopt;

    // The axis of x that covers the same elements: rows of `view` along the sliced axis are `rows`
    // rows of it.
    const std::int64_t stride = stride_of(from, *sliced);
    for (std::size_t axis = 0; axis < x.size(); ++axis) {
      const std::int64_t inner = stride_of(x, axis);
      if (x[axis] == 1 || x[axis] * inner != from[*sliced] * stride || stride % inner != 0)
        continue;
      const std::int64_t rows = stride / inner;
      Slice moved{Ints(x.size(), 0), x, {}, Ints(x.size(), 1)};
      moved.starts[axis] = slice.starts[*sliced] * rows;
      moved.ends[axis] = (slice.starts[*sliced] + to[*sliced]) * rows;
      return Match{id, node, first, moved};
    }
    return std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    const Node old = graph.node(match.slice);
    const ValueId x = graph.node(match.first).input(0);
    const ValueId slice = insert(graph, match.moved, {x}, old.id, old.origins);
    graph.node(match.last).inputs[0] = slice;
    graph.node(match.slice).origins.clear();
    graph.touch();
    absorb(graph, match.last, {match.slice});
    fold_if_unread(graph, match.first, graph.producer(slice));
  }
};

}  // namespace

int slice_before_reshape(Graph& graph) { return apply<SliceBeforeReshape>(graph); }

}  // namespace braze
