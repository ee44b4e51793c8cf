// f(a, expand(b)) = f(a, b) where a and b broadcast to the same shape on their own
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

/// Do a and b broadcast to `wanted`?
bool broadcast_to(const Shape& a, const Shape& b, const Shape& wanted) {
  if (a.size() > wanted.size() || b.size() > wanted.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto extent = [&](const Shape& shape) {
      const std::size_t missing = wanted.size() - shape.size();
      return i < missing ? 1 : shape[i - missing];
    };
    if (wanted[i] != (extent(a) == 1 ? extent(b) : extent(a))) return false;
  }
  return true;
}

struct DropExpand {
  struct Match {
    NodeId node = kNoNode;
    std::size_t operand = 0;
    NodeId expand = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (node.kind() != OpKind::kBinary) return std::nullopt;
    for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
      const NodeId expand = if_op<Expand>(graph, graph.producer(node.input(operand)));
      if (expand == kNoNode) continue;
      const Shape& small = graph.value(graph.node(expand).input(0)).shape;
      const Shape& other = graph.value(node.input(1 - operand)).shape;
      if (broadcast_to(small, other, graph.value(node.output()).shape))
        return Match{id, operand, expand};
    }
    return std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    graph.node(match.node).inputs[match.operand] = graph.node(match.expand).input(0);
    graph.touch();
    fold_if_unread(graph, match.expand, match.node);
  }
};

}  // namespace

int drop_expand(Graph& graph) { return apply<DropExpand>(graph); }

}  // namespace braze
