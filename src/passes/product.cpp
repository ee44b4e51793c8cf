#include "passes/product.hpp"

#include <algorithm>

#include "passes/match.hpp"

namespace braze {
namespace {

/// Multiplies the node's factors into `product`; false if the node is no product.
bool expand_node(const Graph& graph, NodeId node, Product& product);

void expand_value(const Graph& graph, ValueId value, Product& product) {
  const NodeId producer = sole_producer(graph, value);
  if (producer == kNoNode || !expand_node(graph, producer, product))
    product.factors.push_back(value);
}

bool expand_node(const Graph& graph, NodeId node, Product& product) {
  if (const auto mul = scalar_op(graph, node, BinaryFn::kMul)) {
    product.coefficient *= mul->c;
    product.nodes.push_back(node);
    expand_value(graph, mul->x, product);
    return true;
  }
  if (const auto div = scalar_op(graph, node, BinaryFn::kDiv); div && div->c != 0) {
    product.coefficient /= div->c;
    product.nodes.push_back(node);
    expand_value(graph, div->x, product);
    return true;
  }
  if (const auto pow = scalar_op(graph, node, BinaryFn::kPow);
      pow && (pow->c == 2 || pow->c == 3)) {
    product.factors.insert(product.factors.end(), static_cast<std::size_t>(pow->c), pow->x);
    product.nodes.push_back(node);
    return true;
  }
  if (if_op(graph, node, BinaryFn::kMul) == kNoNode) return false;
  const Node& mul = graph.node(node);
  if (graph.value(mul.input(0)).shape != graph.value(mul.input(1)).shape) return false;
  product.nodes.push_back(node);
  expand_value(graph, mul.input(0), product);
  expand_value(graph, mul.input(1), product);
  return true;
}

}  // namespace

bool Product::take(ValueId factor) {
  const auto it = std::find(factors.begin(), factors.end(), factor);
  if (it == factors.end()) return false;
  factors.erase(it);
  return true;
}

std::optional<Product> product_of(const Graph& graph, NodeId root) {
  Product product;
  if (!is_float(graph, graph.node(root).output()) || !expand_node(graph, root, product))
    return std::nullopt;
  return product;
}

Product product_of_value(const Graph& graph, ValueId value) {
  Product product;
  expand_value(graph, value, product);
  return product;
}

}  // namespace braze
