// a pool whose window is the whole image = the mean or maximum over the spatial axes
#include <numeric>

#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct PoolToReduce {
  struct Match {
    NodeId node = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    const auto* pool = node.as<Pool>();
    if (pool == nullptr || node.output(1) != kNoValue || !is_unpadded(pool->window))
      return std::nullopt;
    const Shape& x = graph.value(node.input(0)).shape;
    const Ints image(x.begin() + 2, x.end());
    const bool dilated = pool->window.dilations != Ints(image.size(), 1);
    if (pool->window.kernel != image || dilated || element_count(image) == 1) return std::nullopt;
    return Match{id};
  }

  static void rewrite(Graph& graph, const Match& match) {
    const Node& node = graph.node(match.node);
    Reduce reduce;
    reduce.fn = node.as<Pool>()->fn == PoolFn::kMax ? ReduceFn::kMax : ReduceFn::kMean;
    reduce.axes.resize(graph.value(node.input(0)).shape.size() - 2);
    std::iota(reduce.axes.begin(), reduce.axes.end(), 2);
    graph.node(match.node).outputs.resize(1);
    become(graph, match.node, reduce, {node.input(0)});
  }
};

}  // namespace

int pool_to_reduce(Graph& graph) { return apply<PoolToReduce>(graph); }

}  // namespace braze
