// Products as activations spell them: the same factors in any order, with constants anywhere.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.hpp"

namespace braze {

/// coefficient * factors[0] * factors[1] * ..., all factors of one shape.
struct Product {
  double coefficient = 1;
  std::vector<ValueId> factors;
  std::vector<NodeId> nodes;  // that spell it

  /// Takes a factor out; false if it is not there.
  bool take(ValueId factor);
};

/// Takes apart a tree of multiplications, divisions by scalar constants, squares and cubes (pow)
/// below `root`, as far down as each value is made for the tree only. nullopt if `root` is none of
/// these.
std::optional<Product> product_of(const Graph& graph, NodeId root);

/// The same for a value that the reader alone uses; a product of one factor otherwise.
Product product_of_value(const Graph& graph, ValueId value);

}  // namespace braze
