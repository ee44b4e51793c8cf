// c + x = x + c, and the other commutative functions: later patterns look for a constant on the
// right only
#include <utility>

#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

bool commutes(BinaryFn fn) {
  switch (fn) {
    case BinaryFn::kAdd:
    case BinaryFn::kMul:
    case BinaryFn::kMin:
    case BinaryFn::kMax:
    case BinaryFn::kEqual:
    case BinaryFn::kAnd:
    case BinaryFn::kOr:
    case BinaryFn::kXor:
      return true;
    default:
      return false;
  }
}

struct ConstantsRight {
  struct Match {
    NodeId node = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    const auto* binary = node.as<Binary>();
    if (binary == nullptr || !commutes(binary->fn)) return std::nullopt;
    if (!graph.value(node.input(0)).is_constant() || graph.value(node.input(1)).is_constant())
      return std::nullopt;
    return Match{id};
  }

  static void rewrite(Graph& graph, const Match& match) {
    std::vector<ValueId>& inputs = graph.node(match.node).inputs;
    std::swap(inputs[0], inputs[1]);
    graph.touch();
  }
};

}  // namespace

int constants_right(Graph& graph) { return apply<ConstantsRight>(graph); }

}  // namespace braze
