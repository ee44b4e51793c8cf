// s * (conv(x, w) + b) + t = conv(x, s * w) + (s * b + t)    with s, t per output channel
// for Conv, ConvTranspose and Gemm; BatchNorm, scale, bias and c - conv(x) are all s and t.
// Computed in double, on copies of weights that others may share; only where the convolution's own
// result is needed nowhere else and all stays finite.
#include "graph/elements.hpp"
#include "passes/affine.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"
#include "passes/weights.hpp"

namespace braze {
namespace {

struct FoldAffineIntoConv {
  struct Match {
    NodeId conv = kNoNode;
    NodeId affine = kNoNode;
    std::optional<Tensor> weights;
    std::optional<Tensor> bias;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto affine = affine_of(graph, id);
    if (!affine) return std::nullopt;
    const NodeId conv = sole_producer(graph, affine->x);
    if (conv == kNoNode || !has_weights(graph.node(conv))) return std::nullopt;
    const Node& node = graph.node(conv);
    const std::vector<double>& scale = affine->scale;
    Match match{conv, id, {}, {}};

    if (affine->scales()) {
      const Value& weights = graph.value(node.input(1));
      if (!weights.is_constant()) return std::nullopt;
      const WeightMap channels(node, weights.shape);
      match.weights =
          map_weights(*weights.constant, channels,
                      [&](WeightChannels at, double weight) { return weight * scale[at.out]; });
      if (!all_finite(*match.weights)) return std::nullopt;
    }
    auto bias = bias_of(graph, node, std::ssize(scale));
    if (!bias) return std::nullopt;
    for (std::size_t k = 0; k < scale.size(); ++k)
      (*bias)[k] = scale[k] * (*bias)[k] + affine->shift[k];
    if (affine->shifts() || node.input(2) != kNoValue) {
      match.bias = make_tensor(graph.value(affine->x).dtype, {std::ssize(scale)}, *bias);
      if (!all_finite(*match.bias)) return std::nullopt;
    }
    return match;
  }

  static void rewrite(Graph& graph, const Match& match) {
    if (match.weights) set_weights(graph, match.conv, *match.weights);
    if (match.bias) set_bias(graph, match.conv, *match.bias);
    take_over(graph, match.conv, match.affine);
  }
};

}  // namespace

int fold_affine_into_conv(Graph& graph) { return apply<FoldAffineIntoConv>(graph); }

}  // namespace braze
