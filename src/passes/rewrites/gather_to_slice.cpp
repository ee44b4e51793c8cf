// gather(x, [s, s+d, s+2d, ...]) = slice(x, s, ..., step d), d > 0, along one axis; a scalar or
// higher-rank index list is followed by a Reshape
#include "graph/elements.hpp"
#include "passes/edit.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct GatherToSlice {
  struct Match {
    NodeId node = kNoNode;
    Slice slice;
    Shape shape;  // of the slice
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    const auto* gather = node.as<Gather>();
    if (gather == nullptr || !graph.value(node.input(1)).is_constant()) return std::nullopt;
    const Shape& x = graph.value(node.input(0)).shape;
    const auto axis = static_cast<std::size_t>(
        gather->axis < 0 ? gather->axis + static_cast<std::int64_t>(x.size()) : gather->axis);
    auto indices = load<std::int64_t>(*graph.value(node.input(1)).constant);
    if (indices.empty()) return std::nullopt;
    for (std::int64_t& index : indices) {
      index += index < 0 ? x[axis] : 0;
      if (index < 0 || index >= x[axis]) return std::nullopt;  // the kernel says what is wrong
    }
    const std::int64_t step = indices.size() > 1 ? indices[1] - indices[0] : 1;
    for (std::size_t i = 1; i < indices.size(); ++i) {
      if (step <= 0 || indices[i] - indices[i - 1] != step) return std::nullopt;
    }
    Match match{id, {}, x};
    match.slice.starts.assign(x.size(), 0);
    match.slice.ends = x;
    match.slice.steps.assign(x.size(), 1);
    match.slice.starts[axis] = indices.front();
    match.slice.ends[axis] = indices.back() + 1;
    match.slice.steps[axis] = step;
    match.shape[axis] = static_cast<std::int64_t>(indices.size());
    return match;
  }

  static void rewrite(Graph& graph, const Match& match) {
    const ValueId x = graph.node(match.node).input(0);
    const Shape shape = graph.value(graph.node(match.node).output()).shape;
    if (shape == match.shape) return become(graph, match.node, match.slice, {x});
    const std::string id = graph.node(match.node).id + "/slice";
    const ValueId slice = insert(graph, match.slice, {x}, id, graph.node(match.node).origins);
    become(graph, match.node, Reshape{shape, false}, {slice});
    graph.node(match.node).origins.clear();  // it is the slice that stands for the model node
  }
};

}  // namespace

int gather_to_slice(Graph& graph) { return apply<GatherToSlice>(graph); }

}  // namespace braze
