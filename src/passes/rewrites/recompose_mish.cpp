// x * tanh(softplus(x)) = mish(x), softplus also spelled log(1 + exp(x))
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/product.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct RecomposeMish {
  struct Match {
    NodeId root = kNoNode;
    ValueId x = kNoValue;
    std::vector<NodeId> nodes;
  };

  /// x where `value` is softplus(x), with the nodes that spell it. As log(1 + exp(x)) it overflows
  /// where softplus does not, but not once tanh has been taken: so only here.
  static ValueId softplus_of(const Graph& graph, ValueId value, std::vector<NodeId>& nodes) {
    const NodeId last = sole_producer(graph, value);
    nodes.push_back(last);
    if (if_op(graph, last, UnaryFn::kSoftplus) != kNoNode) return graph.node(last).input(0);
    if (if_op(graph, last, UnaryFn::kLog) == kNoNode) return kNoValue;
    const NodeId plus_one = sole_producer(graph, graph.node(last).input(0));
    const auto add = scalar_op(graph, plus_one, BinaryFn::kAdd);
    if (!add || add->c != 1) return kNoValue;
    const NodeId exp = if_op(graph, sole_producer(graph, add->x), UnaryFn::kExp);
    nodes.insert(nodes.end(), {plus_one, exp});
    return exp == kNoNode ? kNoValue : graph.node(exp).input(0);
  }

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto product = product_of(graph, id);
    if (!product || product->coefficient != 1 || product->factors.size() != 2) return std::nullopt;
    for (const ValueId gate : product->factors) {
      const NodeId tanh = if_op(graph, sole_producer(graph, gate), UnaryFn::kTanh);
      if (tanh == kNoNode) continue;
      Product rest = *product;
      const ValueId x = softplus_of(graph, graph.node(tanh).input(0), rest.nodes);
      if (x == kNoValue || !rest.take(gate) || !rest.take(x)) continue;
      rest.nodes.push_back(tanh);
      return Match{id, x, rest.nodes};
    }
    return std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    become(graph, match.root, Unary{UnaryFn::kMish}, {match.x});
    absorb(graph, match.root, match.nodes);
  }
};

}  // namespace

int recompose_mish(Graph& graph) { return apply<RecomposeMish>(graph); }

}  // namespace braze
