// batch_norm(x) = s * x + t    with s = scale / sqrt(variance + epsilon), t = bias - s * mean per
// channel: where no convolution takes it in, it is a Mul and an Add, which can end up in any
// epilogue.
#include "passes/affine.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct BatchNormToAffine {
  struct Match {
    NodeId node = kNoNode;
    ChannelAffine affine;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    if (graph.node(id).kind() != OpKind::kBatchNorm) return std::nullopt;
    auto affine = affine_of(graph, id);
    if (!affine || !fits(*affine, graph.value(affine->x).dtype)) return std::nullopt;
    return Match{id, std::move(*affine)};
  }

  static void rewrite(Graph& graph, const Match& match) {
    become_affine(graph, match.node, match.affine);
  }
};

}  // namespace

int batch_norm_to_affine(Graph& graph) { return apply<BatchNormToAffine>(graph); }

}  // namespace braze
