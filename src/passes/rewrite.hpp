// The shape of a rewrite, and what applies it everywhere in a graph.
#pragma once

#include <concepts>
#include <optional>

#include "graph/graph.hpp"

namespace braze {

/// A rewrite looks at one node, the last of its pattern, and says what it found; then changes the
/// graph.
template <class R>
concept Rewrite =
    requires(const Graph& graph, Graph& changed, NodeId node, const typename R::Match& match) {
      { R::match(graph, node) } -> std::same_as<std::optional<typename R::Match>>;
      { R::rewrite(changed, match) } -> std::same_as<void>;
    };

/// Passes over a graph at most this often: a rewrite can give itself more work, but not without
/// end.
inline constexpr int kMaxRounds = 16;

/// Applies a rewrite until it finds nothing more. Returns how often it was applied.
template <Rewrite R>
int apply(Graph& graph) {
  int total = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    int rewrites = 0;
    for (const NodeId node : graph.order()) {
      if (graph.node(node).erased) continue;
      if (const std::optional<typename R::Match> match = R::match(graph, node)) {
        R::rewrite(graph, *match);
        ++rewrites;
      }
    }
    total += rewrites;
    if (rewrites == 0) break;
  }
  return total;
}

}  // namespace braze
