// matmul(a, b) = gemm(a, b) for matrices; a bias can then be folded in
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct MatmulToGemm {
  struct Match {
    NodeId node = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (node.kind() != OpKind::kMatMul || !is_float(graph, node.output())) return std::nullopt;
    const bool matrices = graph.value(node.input(0)).shape.size() == 2 &&
                          graph.value(node.input(1)).shape.size() == 2;
    return matrices ? std::optional(Match{id}) : std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    become(graph, match.node, Gemm{}, graph.node(match.node).inputs);
  }
};

}  // namespace

int matmul_to_gemm(Graph& graph) { return apply<MatmulToGemm>(graph); }

}  // namespace braze
