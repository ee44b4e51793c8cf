// where(true, a, b) = a    where(false, a, b) = b    for a constant condition that is the same
// everywhere
#include <algorithm>

#include "graph/elements.hpp"
#include "passes/edit.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct SelectBranch {
  struct Match {
    NodeId node = kNoNode;
    ValueId branch = kNoValue;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (node.kind() != OpKind::kWhere || !graph.value(node.input(0)).is_constant())
      return std::nullopt;
    const auto condition = load<std::int64_t>(*graph.value(node.input(0)).constant);
    const auto taken =
        std::count_if(condition.begin(), condition.end(), [](std::int64_t c) { return c != 0; });
    if (taken != 0 && taken != static_cast<std::ptrdiff_t>(condition.size())) return std::nullopt;
    return Match{id, node.input(taken != 0 ? 1 : 2)};
  }

  static void rewrite(Graph& graph, const Match& match) {
    const Shape shape = graph.value(graph.node(match.node).output()).shape;
    if (graph.value(match.branch).shape == shape) {
      become(graph, match.node, Identity{}, {match.branch});
    } else {
      become(graph, match.node, Expand{shape}, {match.branch});
    }
  }
};

}  // namespace

int select_branch(Graph& graph) { return apply<SelectBranch>(graph); }

}  // namespace braze
