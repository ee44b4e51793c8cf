// clip(clip(x, a, b), c, d) = clip(x, clip(a, c, d), clip(b, c, d)) for a <= b and c <= d; relu(x)
// = clip(x, 0, inf)
#include <algorithm>
#include <limits>

#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct Bounds {
  double low = 0;
  double high = 0;
};

std::optional<Bounds> bounds_of(const Graph& graph, NodeId id) {
  const auto* unary = id == kNoNode ? nullptr : graph.node(id).as<Unary>();
  if (unary == nullptr || !is_float(graph, graph.node(id).output())) return std::nullopt;
  if (unary->fn == UnaryFn::kRelu) return Bounds{0, std::numeric_limits<double>::infinity()};
  if (unary->fn != UnaryFn::kClip || !(unary->alpha <= unary->beta)) return std::nullopt;
  return Bounds{unary->alpha, unary->beta};
}

struct MergeClips {
  struct Match {
    NodeId outer = kNoNode;
    NodeId inner = kNoNode;
    Bounds bounds;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto outer = bounds_of(graph, id);
    if (!outer) return std::nullopt;
    const NodeId producer = sole_producer(graph, graph.node(id).input(0));
    const auto inner = bounds_of(graph, producer);
    if (!inner) return std::nullopt;
    const auto within = [&outer](double bound) {
      return std::min(std::max(bound, outer->low), outer->high);
    };
    return Match{id, producer, {within(inner->low), within(inner->high)}};
  }

  static void rewrite(Graph& graph, const Match& match) {
    const ValueId x = graph.node(match.inner).input(0);
    become(graph, match.outer, Unary{UnaryFn::kClip, match.bounds.low, match.bounds.high}, {x});
    absorb(graph, match.outer, {match.inner});
  }
};

}  // namespace

int merge_clips(Graph& graph) { return apply<MergeClips>(graph); }

}  // namespace braze
