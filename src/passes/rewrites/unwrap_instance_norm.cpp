// reshape(instance_norm(reshape(x, [N,C,...]))) = instance_norm(x) where the Reshapes only merge
// and split spatial axes
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct UnwrapInstanceNorm {
  struct Match {
    NodeId last = kNoNode;
    NodeId norm = kNoNode;
    NodeId first = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    if (graph.node(id).kind() != OpKind::kReshape) return std::nullopt;
    const NodeId norm = if_op<InstanceNorm>(graph, sole_producer(graph, graph.node(id).input(0)));
    if (norm == kNoNode) return std::nullopt;
    const NodeId first = if_op<Reshape>(graph, graph.producer(graph.node(norm).input(0)));
    if (first == kNoNode) return std::nullopt;
    const Shape& x = graph.value(graph.node(first).input(0)).shape;
    const Shape& inner = graph.value(graph.node(norm).output()).shape;
    const bool same_image = x.size() >= 3 && x == graph.value(graph.node(id).output()).shape;
    if (!same_image || x[0] != inner[0] || x[1] != inner[1]) return std::nullopt;
    return Match{id, norm, first};
  }

  static void rewrite(Graph& graph, const Match& match) {
    std::vector<ValueId> inputs = graph.node(match.norm).inputs;
    inputs[0] = graph.node(match.first).input(0);
    become(graph, match.last, graph.node(match.norm).op, std::move(inputs));
    absorb(graph, match.last, {match.norm, match.first});
  }
};

}  // namespace

int unwrap_instance_norm(Graph& graph) { return apply<UnwrapInstanceNorm>(graph); }

}  // namespace braze
