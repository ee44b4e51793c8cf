// f(constants) = constant
#include "graph/interpret.hpp"
#include "graph/shape.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct FoldConstants {
  struct Match {
    NodeId node = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    for (const ValueId input : graph.node(id).inputs) {
      if (input != kNoValue && !graph.value(input).is_constant()) return std::nullopt;
    }
    std::size_t bytes = 0;
    for (const ValueId output : graph.node(id).outputs) {
      if (output == kNoValue) continue;
      const Value& value = graph.value(output);
      bytes += static_cast<std::size_t>(element_count(value.shape)) * size_of(value.dtype);
    }
    if (bytes > kFoldedBytes) return std::nullopt;
    return Match{id};
  }

  static void rewrite(Graph& graph, const Match& match) {
    const Node node = graph.node(match.node);
    std::vector<Tensor> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(input == kNoValue ? Tensor() : *graph.value(input).constant);
    }
    std::vector<Tensor> results = interpret_node(graph, node, inputs);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const std::string name = graph.value(node.outputs[i]).name;
      graph.replace_uses(node.outputs[i], graph.add_constant(name, std::move(results[i])));
    }
    graph.fold(match.node, "constant");
  }
};

}  // namespace

int fold_constants(Graph& graph) { return apply<FoldConstants>(graph); }

}  // namespace braze
