// f(x) = x, exactly: also for NaN, infinities and -0 (so not x + 0, which turns -0 into 0)
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/elements.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool all_are(const Ints& values, std::int64_t wanted) {
  return std::all_of(values.begin(), values.end(),
                     [wanted](std::int64_t value) { return value == wanted; });
}

/// For a node whose first input and first output have the same dtype and shape.
struct KeepsX {
  const Graph& graph;
  const Node& node;

  [[nodiscard]] const Shape& shape() const { return graph.value(node.input(0)).shape; }

  template <class Op>
  bool operator()(const Op&) const {
    return false;
  }
  bool operator()(const Identity&) const { return true; }
  bool operator()(const Cast&) const { return true; }
  bool operator()(const Reshape&) const { return true; }
  bool operator()(const Expand&) const { return true; }
  bool operator()(const Transpose& op) const {
    return std::is_sorted(op.perm.begin(), op.perm.end());
  }
  bool operator()(const Slice& op) const { return all_are(op.steps, 1); }
  bool operator()(const Pad& op) const { return all_are(op.pads, 0); }
  bool operator()(const Tile& op) const { return all_are(op.repeats, 1); }
  bool operator()(const Concat&) const { return node.inputs.size() == 1; }
  bool operator()(const Split&) const { return node.outputs.size() == 1; }
  bool operator()(const DepthToSpace& op) const { return op.block == 1; }
  bool operator()(const SpaceToDepth& op) const { return op.block == 1; }
  bool operator()(const ChannelShuffle& op) const {
    return op.groups == 1 || op.groups == shape()[1];
  }
  bool operator()(const Unary& op) const {
    return op.fn == UnaryFn::kClip && op.alpha == -kInfinity && op.beta == kInfinity;
  }
  bool operator()(const Pool& op) const {
    return all_are(op.window.kernel, 1) && all_are(op.window.strides, 1) &&
           is_unpadded(op.window) && node.output(1) == kNoValue;
  }
  bool operator()(const Reduce& op) const {
    const bool keeps_one = op.fn == ReduceFn::kMean || op.fn == ReduceFn::kSum ||
                           op.fn == ReduceFn::kMax || op.fn == ReduceFn::kMin ||
                           op.fn == ReduceFn::kProd;
    return keeps_one && std::all_of(op.axes.begin(), op.axes.end(), [this](std::int64_t axis) {
             return shape()[static_cast<std::size_t>(axis)] == 1;
           });
  }
  bool operator()(const Resize& op) const {
    // These map each output element to the same input element where the scale is 1; the others
    // shift or crop.
    const bool aligned = op.coordinate != CoordinateMode::kTfHalfPixelForNn &&
                         op.coordinate != CoordinateMode::kTfCropAndResize;
    return aligned &&
           std::all_of(op.scales.begin(), op.scales.end(), [](double scale) { return scale == 1; });
  }
  bool operator()(const Binary& op) const {
    const Value& operand = graph.value(node.input(1));
    if (!operand.is_constant()) return false;
    const auto all = [&operand](auto&& neutral) {
      const std::vector<double> values = load<double>(*operand.constant);
      return std::all_of(values.begin(), values.end(), neutral);
    };
    const bool floats = is_float(operand.dtype);
    switch (op.fn) {
      case BinaryFn::kMul:
      case BinaryFn::kDiv:
      case BinaryFn::kPow:
        return all([](double c) { return c == 1; });
      case BinaryFn::kAdd:
        return all([floats](double c) { return c == 0 && std::signbit(c) == floats; });
      case BinaryFn::kSub:
        return all([](double c) { return c == 0 && !std::signbit(c); });
      default:
        return false;
    }
  }
};

struct FoldIdentity {
  struct Match {
    NodeId node = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (node.inputs.empty() || node.input(0) == kNoValue || node.output() == kNoValue)
      return std::nullopt;
    const Value& x = graph.value(node.input(0));
    const Value& y = graph.value(node.output());
    if (x.is_constant() || x.dtype != y.dtype || x.shape != y.shape) return std::nullopt;
    // A graph output stays a value of its own.
    const bool copies = graph.is_input(node.input(0)) || graph.is_output(node.input(0));
    if (graph.is_output(node.output()) && copies) return std::nullopt;
    return std::visit(KeepsX{graph, node}, node.op) ? std::optional(Match{id}) : std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    graph.replace_uses(graph.node(match.node).output(), graph.node(match.node).input(0));
    graph.fold(match.node, "view");
  }
};

}  // namespace

int fold_identity(Graph& graph) { return apply<FoldIdentity>(graph); }

}  // namespace braze
