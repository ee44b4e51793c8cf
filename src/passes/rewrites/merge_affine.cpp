// s2 * (s1 * x + t1) + t2 = (s2 s1) * x + (s2 t1 + t2)    for a chain of per-channel maps that
// takes more nodes than this Not for x * s + t or (x + t) * s by themselves: those are as short as
// they get.
#include "graph/elements.hpp"
#include "passes/affine.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct MergeAffine {
  struct Match {
    ChannelAffine affine;
    std::vector<NodeId> chain;  // last first
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    auto last = affine_of(graph, id);
    if (!last) return std::nullopt;
    Match match{std::move(*last), {id}};
    int length = graph.node(id).kind() == OpKind::kBatchNorm ? 2 : 1;
    for (;;) {
      const NodeId producer = sole_producer(graph, match.affine.x);
      const auto inner = producer == kNoNode ? std::nullopt : affine_of(graph, producer);
      if (!inner) break;
      match.affine = compose(match.affine, *inner);
      match.chain.push_back(producer);
      length += graph.node(producer).kind() == OpKind::kBatchNorm ? 2 : 1;
    }
    const bool shorter = match.chain.size() > 1 && match.affine.node_count() < length;
    return shorter && fits(match.affine, graph.value(match.affine.x).dtype) ? std::optional(match)
                                                                            : std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    const NodeId last = match.chain.front();
    for (const NodeId node : match.chain) share_origins(graph, last, node);
    become_affine(graph, last, match.affine);
    absorb(graph, last, match.chain);
  }
};

}  // namespace

int merge_affine(Graph& graph) { return apply<MergeAffine>(graph); }

}  // namespace braze
