// s * instance_norm(x; g, b) + t = instance_norm(x; s * g, s * b + t)    with s, t per channel
#include "graph/elements.hpp"
#include "passes/affine.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct FoldAffineIntoInstanceNorm {
  struct Match {
    NodeId norm = kNoNode;
    NodeId affine = kNoNode;
    ChannelAffine both;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto affine = affine_of(graph, id);
    if (!affine) return std::nullopt;
    const NodeId norm = if_op<InstanceNorm>(graph, sole_producer(graph, affine->x));
    if (norm == kNoNode) return std::nullopt;
    const Node& node = graph.node(norm);
    const Value& scale = graph.value(node.input(1));
    const Value& bias = graph.value(node.input(2));
    if (!scale.is_constant() || !bias.is_constant()) return std::nullopt;
    const ChannelAffine inner{node.input(0), load<double>(*scale.constant),
                              load<double>(*bias.constant)};
    Match match{norm, id, compose(*affine, inner)};
    return fits(match.both, scale.dtype) ? std::optional(match) : std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    const DType dtype = graph.value(match.both.x).dtype;
    const std::string id = graph.node(match.norm).id;
    const Shape shape = {std::ssize(match.both.scale)};
    const ValueId scale =
        graph.add_constant(id + "/scale", make_tensor(dtype, shape, match.both.scale));
    const ValueId bias =
        graph.add_constant(id + "/bias", make_tensor(dtype, shape, match.both.shift));
    graph.node(match.norm).inputs = {match.both.x, scale, bias};
    graph.touch();
    take_over(graph, match.norm, match.affine);
  }
};

}  // namespace

int fold_affine_into_instance_norm(Graph& graph) {
  return apply<FoldAffineIntoInstanceNorm>(graph);
}

}  // namespace braze
