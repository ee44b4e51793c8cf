#include "passes/shuffle.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "passes/edit.hpp"
#include "passes/match.hpp"

namespace braze {

Transposition shortest(const Shape& shape, const Ints& perm) {
  Shape extents;  // of runs of output axes that are neighbours in the input too
  Ints first;     // input axis at which each run begins
  std::int64_t next = -1;
  // An input axis of extent 1 lies anywhere: skip over such axes when asking for the next
  // neighbour.
  const auto following = [&shape](std::int64_t axis) {
    do ++axis;
    while (axis < static_cast<std::int64_t>(shape.size()) &&
           shape[static_cast<std::size_t>(axis)] == 1);
    return axis;
  };
  for (const std::int64_t axis : perm) {
    const std::int64_t extent = shape[static_cast<std::size_t>(axis)];
    if (extent == 1) continue;
    if (axis == next) {
      extents.back() *= extent;
    } else {
      extents.push_back(extent);
      first.push_back(axis);
    }
    next = following(axis);
  }
  // Number the runs by their place in the input.
  Ints by_input(first.size());
  std::iota(by_input.begin(), by_input.end(), 0);
  std::sort(by_input.begin(), by_input.end(), [&first](std::int64_t a, std::int64_t b) {
    return first[static_cast<std::size_t>(a)] < first[static_cast<std::size_t>(b)];
  });
  Transposition result{Shape(extents.size()), Ints(extents.size())};
  for (std::size_t place = 0; place < by_input.size(); ++place) {
    const auto run = static_cast<std::size_t>(by_input[place]);
    result.shape[place] = extents[run];
    result.perm[run] = static_cast<std::int64_t>(place);
  }
  return result;
}

namespace {

/// Is a Reshape the only reader of this node? Then the shuffle goes on to there.
bool reshaped_only(const Graph& graph, NodeId node) {
  return if_op<Reshape>(graph, graph.only_user(graph.node(node).output())) != kNoNode;
}

}  // namespace

std::optional<Shuffle> shuffle_at(const Graph& graph, NodeId root) {
  Shuffle shuffle;
  shuffle.root = root;
  shuffle.nodes.push_back(root);
  NodeId transpose = root;
  if (graph.node(root).kind() == OpKind::kReshape) {
    transpose = if_op<Transpose>(graph, sole_producer(graph, graph.node(root).input(0)));
    if (transpose == kNoNode) return std::nullopt;
    shuffle.nodes.push_back(transpose);
  } else if (graph.node(root).kind() != OpKind::kTranspose || reshaped_only(graph, root)) {
    return std::nullopt;
  }
  shuffle.x = graph.node(transpose).input(0);
  shuffle.moved =
      shortest(graph.value(shuffle.x).shape, graph.node(transpose).as<Transpose>()->perm);
  if (const NodeId reshape = if_op<Reshape>(graph, sole_producer(graph, shuffle.x));
      reshape != kNoNode) {
    shuffle.x = graph.node(reshape).input(0);
    shuffle.nodes.push_back(reshape);
  }
  return shuffle;
}

void replace_shuffle(Graph& graph, const Shuffle& shuffle, Attributes op, const Shape& shape) {
  const Shape wanted = graph.value(graph.node(shuffle.root).output()).shape;
  if (wanted == shape) {
    become(graph, shuffle.root, std::move(op), {shuffle.x});
    absorb(graph, shuffle.root, shuffle.nodes);
    return;
  }
  const ValueId moved =
      insert(graph, std::move(op), {shuffle.x}, graph.node(shuffle.root).id + "/shuffle", {});
  become(graph, shuffle.root, Reshape{wanted, false}, {moved});
  absorb(graph, shuffle.root, shuffle.nodes);
  std::swap(graph.node(graph.producer(moved)).origins, graph.node(shuffle.root).origins);
}

}  // namespace braze
