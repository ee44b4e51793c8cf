// max(x, c) = clip(x, c, inf)    min(x, c) = clip(x, -inf, c)    for one c that is a number: both
// sides keep NaN clip(x, 0, inf) = relu(x)
#include <cmath>
#include <limits>

#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct MinMaxToClip {
  struct Match {
    NodeId node = kNoNode;
    ValueId x = kNoValue;
    Unary op;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    if (if_op(graph, id, UnaryFn::kClip) != kNoNode) {
      const Node& node = graph.node(id);
      const auto& clip = *node.as<Unary>();
      if (clip.alpha != 0 || clip.beta != kInfinity || !is_float(graph, node.output()))
        return std::nullopt;
      return Match{id, node.input(0), Unary{UnaryFn::kRelu}};
    }
    const auto low = scalar_op(graph, id, BinaryFn::kMax);
    const auto high = scalar_op(graph, id, BinaryFn::kMin);
    const auto& bound = low ? low : high;
    if (!bound || std::isnan(bound->c) || !is_float(graph, bound->x)) return std::nullopt;
    return Match{id, bound->x,
                 Unary{UnaryFn::kClip, low ? low->c : -kInfinity, high ? high->c : kInfinity}};
  }

  static void rewrite(Graph& graph, const Match& match) {
    become(graph, match.node, match.op, {match.x});
  }
};

}  // namespace

int min_max_to_clip(Graph& graph) { return apply<MinMaxToClip>(graph); }

}  // namespace braze
