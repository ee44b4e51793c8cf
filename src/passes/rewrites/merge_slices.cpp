// slice(slice(x, s1, step d1), s2, step d2) = slice(x, s1 + s2 d1, step d1 d2), all steps positive
#include <algorithm>

#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

bool goes_forward(const Slice& slice) {
  return std::all_of(slice.steps.begin(), slice.steps.end(),
                     [](std::int64_t step) { return step > 0; });
}

struct MergeSlices {
  struct Match {
    NodeId outer = kNoNode;
    NodeId inner = kNoNode;
    Slice slice;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto* outer = graph.node(id).as<Slice>();
    if (outer == nullptr) return std::nullopt;
    const NodeId producer = if_op<Slice>(graph, graph.producer(graph.node(id).input(0)));
    if (producer == kNoNode) return std::nullopt;
    const auto* inner = graph.node(producer).as<Slice>();
    const Shape& shape = graph.value(graph.node(id).output()).shape;
    if (!goes_forward(*outer) || !goes_forward(*inner) || element_count(shape) == 0)
      return std::nullopt;
    Slice both = *inner;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      both.starts[i] = inner->starts[i] + outer->starts[i] * inner->steps[i];
      both.steps[i] = inner->steps[i] * outer->steps[i];
      both.ends[i] = both.starts[i] + (shape[i] - 1) * both.steps[i] + 1;
    }
    return Match{id, producer, both};
  }

  static void rewrite(Graph& graph, const Match& match) {
    become(graph, match.outer, match.slice, {graph.node(match.inner).input(0)});
    absorb(graph, match.outer, {match.inner});
  }
};

}  // namespace

int merge_slices(Graph& graph) { return apply<MergeSlices>(graph); }

}  // namespace braze
