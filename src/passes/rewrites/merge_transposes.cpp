// transpose(transpose(x, p), q) = transpose(x, p[q])
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct MergeTransposes {
  struct Match {
    NodeId outer = kNoNode;
    NodeId inner = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    if (graph.node(id).kind() != OpKind::kTranspose) return std::nullopt;
    const NodeId inner = if_op<Transpose>(graph, graph.producer(graph.node(id).input(0)));
    if (inner == kNoNode) return std::nullopt;
    return Match{id, inner};
  }

  static void rewrite(Graph& graph, const Match& match) {
    Transpose both = *graph.node(match.outer).as<Transpose>();
    const Ints& inner = graph.node(match.inner).as<Transpose>()->perm;
    for (std::int64_t& axis : both.perm) axis = inner[static_cast<std::size_t>(axis)];
    become(graph, match.outer, both, {graph.node(match.inner).input(0)});
    absorb(graph, match.outer, {match.inner});
  }
};

}  // namespace

int merge_transposes(Graph& graph) { return apply<MergeTransposes>(graph); }

}  // namespace braze
