// x - c = x + (-c), exactly
#include "graph/elements.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct SubToAdd {
  struct Match {
    NodeId node = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (if_op(graph, id, BinaryFn::kSub) == kNoNode || !is_float(graph, node.output()))
      return std::nullopt;
    if (graph.value(node.input(0)).is_constant() || !graph.value(node.input(1)).is_constant())
      return std::nullopt;
    return Match{id};
  }

  static void rewrite(Graph& graph, const Match& match) {
    const Node& node = graph.node(match.node);
    const ValueId x = node.input(0);
    const Value& c = graph.value(node.input(1));
    std::vector<double> values = load<double>(*c.constant);
    for (double& value : values) value = -value;
    const ValueId negated = graph.add_constant("-" + c.name, make_tensor(c.dtype, c.shape, values));
    become(graph, match.node, Binary{BinaryFn::kAdd}, {x, negated});
  }
};

}  // namespace

int sub_to_add(Graph& graph) { return apply<SubToAdd>(graph); }

}  // namespace braze
