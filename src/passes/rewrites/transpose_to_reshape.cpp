// transpose(x) = reshape(x) where only axes of extent 1 move
#include <algorithm>

#include "passes/edit.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"
#include "passes/shuffle.hpp"

namespace braze {
namespace {

struct TransposeToReshape {
  struct Match {
    NodeId node = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto* transpose = graph.node(id).as<Transpose>();
    if (transpose == nullptr) return std::nullopt;
    const Shape& shape = graph.value(graph.node(id).input(0)).shape;
    if (shortest(shape, transpose->perm).perm.size() > 1) return std::nullopt;
    return Match{id};
  }

  static void rewrite(Graph& graph, const Match& match) {
    const Node& node = graph.node(match.node);
    become(graph, match.node, Reshape{graph.value(node.output()).shape, false}, {node.input(0)});
  }
};

}  // namespace

int transpose_to_reshape(Graph& graph) { return apply<TransposeToReshape>(graph); }

}  // namespace braze
