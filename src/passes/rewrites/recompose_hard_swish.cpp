// x * hard_sigmoid(x; 1/6, 1/2) = hard_swish(x)    x * clip(x + 3, 0, 6) / 6 = hard_swish(x),
// multiplied in any order
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/product.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct RecomposeHardSwish {
  struct Match {
    NodeId root = kNoNode;
    ValueId x = kNoValue;
    std::vector<NodeId> nodes;
  };

  /// Is coefficient * gate = hard_sigmoid(x; 1/6, 1/2)? Then x; kNoValue otherwise.
  static ValueId gated(const Graph& graph, NodeId gate, double coefficient,
                       std::vector<NodeId>& nodes) {
    const auto* unary = gate == kNoNode ? nullptr : graph.node(gate).as<Unary>();
    if (unary == nullptr) return kNoValue;
    const DType dtype = graph.value(graph.node(gate).output()).dtype;
    nodes.push_back(gate);
    if (unary->fn == UnaryFn::kHardSigmoid) {
      const bool standard =
          coefficient == 1 && rounds_to(unary->alpha, 1.0 / 6, dtype) && unary->beta == 0.5;
      return standard ? graph.node(gate).input(0) : kNoValue;
    }
    const bool standard = unary->fn == UnaryFn::kClip && unary->alpha == 0 && unary->beta == 6 &&
                          rounds_to(coefficient, 1.0 / 6, dtype);
    if (!standard) return kNoValue;
    const NodeId plus_three = sole_producer(graph, graph.node(gate).input(0));
    const auto add = scalar_op(graph, plus_three, BinaryFn::kAdd);
    nodes.push_back(plus_three);
    return add && add->c == 3 ? add->x : kNoValue;
  }

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto product = product_of(graph, id);
    if (!product || product->factors.size() != 2) return std::nullopt;
    for (const ValueId gate : product->factors) {
      Product rest = *product;
      const ValueId x = gated(graph, sole_producer(graph, gate), product->coefficient, rest.nodes);
      if (x != kNoValue && rest.take(gate) && rest.take(x)) return Match{id, x, rest.nodes};
    }
    return std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    become(graph, match.root, Unary{UnaryFn::kHardSwish}, {match.x});
    absorb(graph, match.root, match.nodes);
  }
};

}  // namespace

int recompose_hard_swish(Graph& graph) { return apply<RecomposeHardSwish>(graph); }

}  // namespace braze
