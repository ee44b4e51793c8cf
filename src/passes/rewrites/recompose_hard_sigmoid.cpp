// clip(a x + b, 0, h) / h = hard_sigmoid(x; a/h, b/h)    for instance clip(x + 3, 0, 6) / 6
// clip(a x + b, 0, 1) = hard_sigmoid(x; a, b)
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/product.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct RecomposeHardSigmoid {
  struct Match {
    NodeId root = kNoNode;
    ValueId x = kNoValue;
    Unary op;
    std::vector<NodeId> nodes;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    double factor = 1;
    Match match{id, kNoValue, Unary{UnaryFn::kHardSigmoid}, {id}};
    NodeId clip = if_op(graph, id, UnaryFn::kClip);
    if (clip == kNoNode) {
      const auto product = product_of(graph, id);
      if (!product || product->factors.size() != 1) return std::nullopt;
      clip = if_op(graph, sole_producer(graph, product->factors.front()), UnaryFn::kClip);
      factor = product->coefficient;
      match.nodes = product->nodes;
      match.nodes.push_back(clip);
    }
    if (clip == kNoNode || !is_float(graph, graph.node(clip).output())) return std::nullopt;
    const DType dtype = graph.value(graph.node(clip).output()).dtype;
    const auto& bounds = *graph.node(clip).as<Unary>();
    if (bounds.alpha != 0 || !rounds_to(bounds.beta * factor, 1, dtype)) return std::nullopt;

    const NodeId sum = sole_producer(graph, graph.node(clip).input(0));
    const auto add = scalar_op(graph, sum, BinaryFn::kAdd);
    if (!add) return std::nullopt;
    const Product scaled = product_of_value(graph, add->x);
    if (scaled.factors.size() != 1) return std::nullopt;
    // clip(x + b, 0, 1) is two cheap operations already, of which a convolution before them takes
    // one.
    if (clip == id && scaled.nodes.empty()) return std::nullopt;
    match.x = scaled.factors.front();
    match.op.alpha = scaled.coefficient / bounds.beta;
    match.op.beta = add->c / bounds.beta;
    match.nodes.push_back(sum);
    match.nodes.insert(match.nodes.end(), scaled.nodes.begin(), scaled.nodes.end());
    return match;
  }

  static void rewrite(Graph& graph, const Match& match) {
    become(graph, match.root, match.op, {match.x});
    absorb(graph, match.root, match.nodes);
  }
};

}  // namespace

int recompose_hard_sigmoid(Graph& graph) { return apply<RecomposeHardSigmoid>(graph); }

}  // namespace braze
