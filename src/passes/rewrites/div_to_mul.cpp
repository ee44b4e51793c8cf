// x / c = x * (1/c), exactly: where every element of c is a power of two whose reciprocal is an
// ordinary number in every float dtype. Other divisions stay: x * (1/c) would round twice.
#include <algorithm>
#include <cmath>

#include "graph/elements.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

bool has_exact_reciprocal(double value) {
  int exponent = 0;
  return std::abs(std::frexp(value, &exponent)) == 0.5 && std::abs(exponent) <= 14;
}

struct DivToMul {
  struct Match {
    NodeId node = kNoNode;
    std::vector<double> reciprocals;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (if_op(graph, id, BinaryFn::kDiv) == kNoNode || !is_float(graph, node.output()))
      return std::nullopt;
    if (graph.value(node.input(0)).is_constant() || !graph.value(node.input(1)).is_constant())
      return std::nullopt;
    std::vector<double> values = load<double>(*graph.value(node.input(1)).constant);
    if (!std::all_of(values.begin(), values.end(), has_exact_reciprocal)) return std::nullopt;
    for (double& value : values) value = 1 / value;
    return Match{id, std::move(values)};
  }

  static void rewrite(Graph& graph, const Match& match) {
    const Node& node = graph.node(match.node);
    const ValueId x = node.input(0);
    const Value& c = graph.value(node.input(1));
    const ValueId reciprocal =
        graph.add_constant("1/" + c.name, make_tensor(c.dtype, c.shape, match.reciprocals));
    become(graph, match.node, Binary{BinaryFn::kMul}, {x, reciprocal});
  }
};

}  // namespace

int div_to_mul(Graph& graph) { return apply<DivToMul>(graph); }

}  // namespace braze
