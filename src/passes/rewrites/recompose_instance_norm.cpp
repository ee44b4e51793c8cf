// d = x - mean(x);  d / sqrt(mean(d d) + epsilon) = instance_norm(x; 1, 0)    with means over all
// spatial axes Also divided by as * reciprocal(...), and with pow(..., +-0.5) for the root.
#include <algorithm>
#include <numeric>

#include "graph/elements.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct RecomposeInstanceNorm {
  struct Match {
    NodeId root = kNoNode;
    ValueId x = kNoValue;
    double epsilon = 0;
    std::vector<NodeId> nodes;
  };

  /// v where `value` is sqrt(v), or 1 / sqrt(v) if `inverse`.
  static ValueId root_of(const Graph& graph, ValueId value, bool inverse,
                         std::vector<NodeId>& nodes) {
    NodeId node = sole_producer(graph, value);
    nodes.push_back(node);
    if (const auto pow = scalar_op(graph, node, BinaryFn::kPow)) {
      return pow->c == (inverse ? -0.5 : 0.5) ? pow->x : kNoValue;
    }
    if (inverse) {
      if (if_op(graph, node, UnaryFn::kReciprocal) == kNoNode) return kNoValue;
      node = sole_producer(graph, graph.node(node).input(0));
      nodes.push_back(node);
    }
    return if_op(graph, node, UnaryFn::kSqrt) != kNoNode ? graph.node(node).input(0) : kNoValue;
  }

  /// The operand of a mean over all spatial axes that keeps them.
  static ValueId mean_of(const Graph& graph, ValueId value, std::vector<NodeId>& nodes) {
    const NodeId node = if_op<Reduce>(graph, sole_producer(graph, value));
    if (node == kNoNode) return kNoValue;
    const auto& reduce = *graph.node(node).as<Reduce>();
    const std::size_t rank = graph.value(value).shape.size();
    if (rank < 3 || reduce.fn != ReduceFn::kMean || !reduce.keepdims) return kNoValue;
    Ints spatial(rank - 2);
    std::iota(spatial.begin(), spatial.end(), 2);
    nodes.push_back(node);
    return reduce.axes == spatial ? graph.node(node).input(0) : kNoValue;
  }

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    const bool divides = if_op(graph, id, BinaryFn::kDiv) != kNoNode;
    if (!divides && if_op(graph, id, BinaryFn::kMul) == kNoNode) return std::nullopt;
    if (auto match = match_operands(graph, id, node.input(0), node.input(1), !divides))
      return match;
    return divides ? std::nullopt : match_operands(graph, id, node.input(1), node.input(0), true);
  }

  static std::optional<Match> match_operands(const Graph& graph, NodeId id, ValueId difference,
                                             ValueId divisor, bool inverse) {
    Match match{id, kNoValue, 0, {}};
    const ValueId sum = root_of(graph, divisor, inverse, match.nodes);
    const NodeId plus_epsilon = sole_producer(graph, sum);
    const auto add = scalar_op(graph, plus_epsilon, BinaryFn::kAdd);
    if (!add) return std::nullopt;
    const ValueId squared = mean_of(graph, add->x, match.nodes);
    const NodeId square = if_op(graph, sole_producer(graph, squared), BinaryFn::kMul);
    if (square == kNoNode ||
        graph.node(square).inputs != std::vector<ValueId>{difference, difference}) {
      return std::nullopt;
    }
    const NodeId sub = if_op(graph, graph.producer(difference), BinaryFn::kSub);
    if (sub == kNoNode || graph.is_output(difference)) return std::nullopt;
    const std::vector<NodeId>& readers = graph.users(difference);
    const bool read_here_only = std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return reader == id || reader == square;
    });
    match.x = graph.node(sub).input(0);
    if (!read_here_only || mean_of(graph, graph.node(sub).input(1), match.nodes) != match.x)
      return std::nullopt;
    match.epsilon = add->c;
    match.nodes.insert(match.nodes.end(), {plus_epsilon, square, sub});
    return match;
  }

  static void rewrite(Graph& graph, const Match& match) {
    const DType dtype = graph.value(match.x).dtype;
    const std::int64_t channels = graph.value(match.x).shape[1];
    const std::string id = graph.node(match.root).id;
    const std::vector<double> ones(static_cast<std::size_t>(channels), 1);
    const ValueId scale = graph.add_constant(id + "/scale", make_tensor(dtype, {channels}, ones));
    const ValueId bias = graph.add_constant(id + "/bias", Tensor::make(dtype, {channels}));
    become(graph, match.root, InstanceNorm{match.epsilon}, {match.x, scale, bias});
    absorb(graph, match.root, match.nodes);
  }
};

}  // namespace

int recompose_instance_norm(Graph& graph) { return apply<RecomposeInstanceNorm>(graph); }

}  // namespace braze
