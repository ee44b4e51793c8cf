// conv(s * x + t, w) + b = conv(x, s * w) + (b + sum over weights of w * t)    with s, t per input
// channel Padding is zero after the affine map: with a shift the convolution must have none. s
// alone passes through padding.
#include "graph/elements.hpp"
#include "passes/affine.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"
#include "passes/weights.hpp"

namespace braze {
namespace {

/// Does every output element see all weights of its channel?
bool sees_no_padding(const Node& node) {
  if (const auto* conv = node.as<Conv>()) return is_unpadded(conv->window);
  return node.kind() == OpKind::kGemm;
}

struct FoldAffineBeforeConv {
  struct Match {
    NodeId conv = kNoNode;
    NodeId affine = kNoNode;
    ValueId x = kNoValue;
    Tensor weights;
    std::optional<Tensor> bias;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (!has_weights(node) || !graph.value(node.input(1)).is_constant()) return std::nullopt;
    const NodeId producer = sole_producer(graph, node.input(0));
    const auto affine = producer == kNoNode ? std::nullopt : affine_of(graph, producer);
    if (!affine || (affine->shifts() && !sees_no_padding(node))) return std::nullopt;

    const Value& weights = graph.value(node.input(1));
    const WeightMap channels(node, weights.shape);
    const std::int64_t outputs = graph.value(node.output()).shape[1];
    const double alpha = node.kind() == OpKind::kGemm ? node.as<Gemm>()->alpha : 1;
    auto bias = bias_of(graph, node, outputs);
    if (affine->shifts() && !bias) return std::nullopt;
    Match match{id, producer, affine->x, {}, {}};
    match.weights = map_weights(*weights.constant, channels, [&](WeightChannels at, double weight) {
      if (affine->shifts()) (*bias)[at.out] += alpha * weight * affine->shift[at.in];
      return weight * affine->scale[at.in];
    });
    if (affine->shifts())
      match.bias = make_tensor(graph.value(node.output()).dtype, {outputs}, *bias);
    if (!all_finite(match.weights) || (match.bias && !all_finite(*match.bias))) return std::nullopt;
    return match;
  }

  static void rewrite(Graph& graph, const Match& match) {
    set_weights(graph, match.conv, match.weights);
    if (match.bias) set_bias(graph, match.conv, *match.bias);
    graph.node(match.conv).inputs[0] = match.x;
    graph.touch();
    fold_if_unread(graph, match.affine, match.conv);
  }
};

}  // namespace

int fold_affine_before_conv(Graph& graph) { return apply<FoldAffineBeforeConv>(graph); }

}  // namespace braze
