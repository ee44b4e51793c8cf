// transpose([N, g, C/g, ...] -> [N, C/g, g, ...]) between Reshapes = channel_shuffle(x, g), however
// these group the axes gather(x, [0, C/g, 2 C/g, ..., 1, 1 + C/g, ...], axis 1) =
// channel_shuffle(x, g)
#include <numeric>

#include "graph/elements.hpp"
#include "passes/edit.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"
#include "passes/shuffle.hpp"

namespace braze {
namespace {

struct RecomposeChannelShuffle {
  struct Match {
    NodeId node = kNoNode;
    std::optional<Shuffle> shuffle;  // else a Gather
    std::int64_t groups = 1;
  };

  /// g where y's channel i * g + j is x's channel j * (C/g) + i.
  static std::optional<std::int64_t> groups_of(const std::vector<std::int64_t>& channels) {
    const auto count = static_cast<std::int64_t>(channels.size());
    if (count < 4 || channels[0] != 0 || channels[1] < 2 || count % channels[1] != 0)
      return std::nullopt;
    const std::int64_t groups = count / channels[1];
    for (std::int64_t k = 0; k < count; ++k) {
      if (channels[static_cast<std::size_t>(k)] != k % groups * channels[1] + k / groups)
        return std::nullopt;
    }
    return groups;
  }

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (const auto* gather = node.as<Gather>()) {
      const Shape& x = graph.value(node.input(0)).shape;
      const Value& indices = graph.value(node.input(1));
      const bool along_channels =
          x.size() >= 3 && (gather->axis == 1 || gather->axis + std::ssize(x) == 1);
      if (!along_channels || !indices.is_constant() || indices.shape != Shape{x[1]})
        return std::nullopt;
      const auto groups = groups_of(load<std::int64_t>(*indices.constant));
      return groups ? std::optional(Match{id, {}, *groups}) : std::nullopt;
    }
    const auto shuffle = shuffle_at(graph, id);
    if (!shuffle) return std::nullopt;
    const Shape& x = graph.value(shuffle->x).shape;
    if (x.size() < 3 || element_count(x) == 0) return std::nullopt;
    const std::size_t batch = x[0] == 1 ? 0 : 1;
    const std::int64_t image =
        std::accumulate(x.begin() + 2, x.end(), std::int64_t{1}, std::multiplies<>());
    if (shuffle->moved.shape.size() < batch + 2) return std::nullopt;
    const std::int64_t groups = shuffle->moved.shape[batch];
    if (groups < 2 || x[1] % groups != 0) return std::nullopt;
    if (shuffle->moved != shortest({x[0], groups, x[1] / groups, image}, {0, 2, 1, 3}))
      return std::nullopt;
    return Match{id, shuffle, groups};
  }

  static void rewrite(Graph& graph, const Match& match) {
    const ChannelShuffle op{match.groups};
    if (!match.shuffle) return become(graph, match.node, op, {graph.node(match.node).input(0)});
    const Shape shape = graph.value(match.shuffle->x).shape;
    replace_shuffle(graph, *match.shuffle, op, shape);
  }
};

}  // namespace

int recompose_channel_shuffle(Graph& graph) { return apply<RecomposeChannelShuffle>(graph); }

}  // namespace braze
