// x ^ 2 = x * x
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct PowToMul {
  struct Match {
    NodeId node = kNoNode;
    ValueId x = kNoValue;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto pow = scalar_op(graph, id, BinaryFn::kPow);
    if (!pow || pow->c != 2 || !is_float(graph, pow->x)) return std::nullopt;
    return Match{id, pow->x};
  }

  static void rewrite(Graph& graph, const Match& match) {
    become(graph, match.node, Binary{BinaryFn::kMul}, {match.x, match.x});
  }
};

}  // namespace

int pow_to_mul(Graph& graph) { return apply<PowToMul>(graph); }

}  // namespace braze
