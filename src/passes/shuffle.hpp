// Reshape, Transpose, Reshape: how exporters spell operators that move channels and pixels.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.hpp"

namespace braze {

/// A transposition of a dense array, in its shortest form: no axes of extent 1, and no two axes
/// that stay side by side.
struct Transposition {
  Shape shape;
  Ints perm;
  bool operator==(const Transposition&) const = default;
};
Transposition shortest(const Shape& shape, const Ints& perm);

/// A Transpose with the Reshapes around it that serve it alone, from x to the output of `root`.
struct Shuffle {
  NodeId root = kNoNode;
  ValueId x = kNoValue;
  Transposition moved;
  std::vector<NodeId> nodes;
};

/// The shuffle that ends in `root`; nullopt if `root` is neither a Transpose nor the Reshape behind
/// one.
std::optional<Shuffle> shuffle_at(const Graph& graph, NodeId root);

/// `op` of x, whose output has `shape`, takes the place of a shuffle; a Reshape follows where the
/// shuffle made another shape.
void replace_shuffle(Graph& graph, const Shuffle& shuffle, Attributes op, const Shape& shape);

}  // namespace braze
