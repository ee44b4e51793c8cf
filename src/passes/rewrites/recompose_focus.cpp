// concat(x[.., i::b, j::b] for all i, j < b) along the channels = space_to_depth(x, b), with the
// channels in another order where (i, j) are; a convolution that alone reads them then takes its
// weights in that order.
#include <algorithm>

#include "graph/elements.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"
#include "passes/weights.hpp"

namespace braze {
namespace {

struct RecomposeFocus {
  struct Match {
    NodeId concat = kNoNode;
    ValueId x = kNoValue;
    std::int64_t block = 1;
    std::vector<std::int64_t> phases;  // i * b + j of each part
    NodeId conv = kNoNode;             // whose weights change, if the phases are not in order
    std::vector<NodeId> slices;
  };

  /// i * b + j where `slice` takes x[:, :, i::b, j::b].
  static std::optional<std::int64_t> phase_of(const Slice& slice, const Shape& x,
                                              std::int64_t block) {
    if (slice.steps != Ints{1, 1, block, block} || slice.starts[0] != 0 || slice.starts[1] != 0)
      return std::nullopt;
    if (slice.ends[0] != x[0] || slice.ends[1] != x[1]) return std::nullopt;
    for (const std::size_t axis : {std::size_t{2}, std::size_t{3}}) {
      const bool to_the_end = slice.ends[axis] > x[axis] - block + slice.starts[axis];
      if (slice.starts[axis] < 0 || slice.starts[axis] >= block || !to_the_end) return std::nullopt;
    }
    return slice.starts[2] * block + slice.starts[3];
  }

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    const auto* concat = node.as<Concat>();
    if (concat == nullptr || graph.value(node.output()).shape.size() != 4) return std::nullopt;
    if (concat->axis != 1 && concat->axis != -3) return std::nullopt;
    Match match;
    match.concat = id;
    while (match.block * match.block < std::ssize(node.inputs)) ++match.block;
    if (match.block < 2 || match.block * match.block != std::ssize(node.inputs))
      return std::nullopt;
    for (const ValueId input : node.inputs) {
      const NodeId slice = if_op<Slice>(graph, sole_producer(graph, input));
      if (slice == kNoNode) return std::nullopt;
      const ValueId x = graph.node(slice).input(0);
      if (match.x == kNoValue) match.x = x;
      const Shape& shape = graph.value(x).shape;
      if (x != match.x || shape[2] % match.block != 0 || shape[3] % match.block != 0)
        return std::nullopt;
      const auto phase = phase_of(*graph.node(slice).as<Slice>(), shape, match.block);
      if (!phase || std::count(match.phases.begin(), match.phases.end(), *phase) != 0)
        return std::nullopt;
      match.phases.push_back(*phase);
      match.slices.push_back(slice);
    }
    if (std::is_sorted(match.phases.begin(), match.phases.end())) return match;
    match.conv = if_op<Conv>(graph, graph.only_user(node.output()));
    if (match.conv == kNoNode || graph.node(match.conv).as<Conv>()->group != 1) return std::nullopt;
    return graph.value(graph.node(match.conv).input(1)).is_constant() ? std::optional(match)
                                                                      : std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    if (match.conv != kNoNode) {
      const Tensor old = *graph.value(graph.node(match.conv).input(1)).constant;
      const std::vector<double> values = load<double>(old);
      const auto channels = static_cast<std::size_t>(graph.value(match.x).shape[1]);
      const auto taps = static_cast<std::size_t>(old.shape()[2] * old.shape()[3]);
      const std::size_t filter =
          match.phases.size() * channels * taps;  // weights of one output channel
      std::vector<double> reordered(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t part = i % filter / (channels * taps);
        const auto phase = static_cast<std::size_t>(match.phases[part]);
        reordered[i - part * channels * taps + phase * channels * taps] = values[i];
      }
      set_weights(graph, match.conv, make_tensor(old.dtype(), old.shape(), reordered));
    }
    become(graph, match.concat, SpaceToDepth{match.block}, {match.x});
    absorb(graph, match.concat, match.slices);
  }
};

}  // namespace

int recompose_focus(Graph& graph) { return apply<RecomposeFocus>(graph); }

}  // namespace braze
