// reshape(reshape(x, a), b) = reshape(x, b)
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct MergeReshapes {
  struct Match {
    NodeId outer = kNoNode;
    NodeId inner = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    if (graph.node(id).kind() != OpKind::kReshape) return std::nullopt;
    const NodeId inner = if_op<Reshape>(graph, graph.producer(graph.node(id).input(0)));
    if (inner == kNoNode) return std::nullopt;
    return Match{id, inner};
  }

  static void rewrite(Graph& graph, const Match& match) {
    graph.node(match.outer).inputs[0] = graph.node(match.inner).input(0);
    graph.touch();
    absorb(graph, match.outer, {match.inner});
  }
};

}  // namespace

int merge_reshapes(Graph& graph) { return apply<MergeReshapes>(graph); }

}  // namespace braze
