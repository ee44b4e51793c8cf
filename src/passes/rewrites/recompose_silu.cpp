// x * sigmoid(x) = silu(x)
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/product.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct RecomposeSilu {
  struct Match {
    NodeId root = kNoNode;
    ValueId x = kNoValue;
    std::vector<NodeId> nodes;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto product = product_of(graph, id);
    if (!product || product->coefficient != 1 || product->factors.size() != 2) return std::nullopt;
    for (const ValueId gate : product->factors) {
      const NodeId sigmoid = if_op(graph, sole_producer(graph, gate), UnaryFn::kSigmoid);
      if (sigmoid == kNoNode) continue;
      const ValueId x = graph.node(sigmoid).input(0);
      Product rest = *product;
      if (!rest.take(gate) || !rest.take(x)) continue;
      rest.nodes.push_back(sigmoid);
      return Match{id, x, rest.nodes};
    }
    return std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    become(graph, match.root, Unary{UnaryFn::kSilu}, {match.x});
    absorb(graph, match.root, match.nodes);
  }
};

}  // namespace

int recompose_silu(Graph& graph) { return apply<RecomposeSilu>(graph); }

}  // namespace braze
