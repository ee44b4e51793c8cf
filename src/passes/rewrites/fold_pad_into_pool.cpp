// average_pool(pad(x, p), pads q) = average_pool(x, pads p + q, counting them)    for zeros, where
// q are counted or none max_pool(pad(x, p), pads q)     = max_pool(x, pads p + q) for -inf; a 0
// could be the maximum Not with ceil_mode, where the last window is dropped if it starts on
// padding, and not where a window would see padding only.
#include <limits>

#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct FoldPadIntoPool {
  struct Match {
    NodeId pool = kNoNode;
    NodeId pad = kNoNode;
    Window window;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    const auto* pool = node.as<Pool>();
    if (pool == nullptr || pool->ceil_mode || node.output(1) != kNoValue) return std::nullopt;
    const NodeId producer = if_op<Pad>(graph, graph.producer(node.input(0)));
    if (producer == kNoNode) return std::nullopt;
    const auto& pad = *graph.node(producer).as<Pad>();
    if (pad.mode != PadMode::kConstant || !pads_image_only(pad)) return std::nullopt;
    const bool average = pool->fn == PoolFn::kAverage;
    if (pad.value != (average ? 0 : -std::numeric_limits<double>::infinity())) return std::nullopt;
    if (average && !pool->count_include_pad && !is_unpadded(pool->window)) return std::nullopt;
    Match match{id, producer, pool->window};
    add_pads(pad, match.window);
    for (std::size_t i = 0; i < match.window.kernel.size(); ++i) {
      const std::int64_t kernel = match.window.kernel[i];
      if (match.window.pads_begin[i] >= kernel || match.window.pads_end[i] >= kernel)
        return std::nullopt;
      if (match.window.dilations[i] != 1) return std::nullopt;
    }
    return match;
  }

  static void rewrite(Graph& graph, const Match& match) {
    auto& pool = *graph.node(match.pool).as<Pool>();
    pool.window = match.window;
    pool.count_include_pad = pool.fn == PoolFn::kAverage;
    graph.node(match.pool).inputs[0] = graph.node(match.pad).input(0);
    graph.touch();
    fold_if_unread(graph, match.pad, match.pool);
  }
};

}  // namespace

int fold_pad_into_pool(Graph& graph) { return apply<FoldPadIntoPool>(graph); }

}  // namespace braze
