// conv(pad(x, p), pads q) = conv(x, pads p + q)    for zeros around the image only. A pad that
// crops stays: what it cuts off is data, and q would bring zeros back in its place.
#include <algorithm>

#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

struct FoldPadIntoConv {
  struct Match {
    NodeId conv = kNoNode;
    NodeId pad = kNoNode;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    if (graph.node(id).kind() != OpKind::kConv) return std::nullopt;
    const NodeId producer = if_op<Pad>(graph, graph.producer(graph.node(id).input(0)));
    if (producer == kNoNode) return std::nullopt;
    const auto& pad = *graph.node(producer).as<Pad>();
    if (pad.mode != PadMode::kConstant || pad.value != 0 || !pads_image_only(pad))
      return std::nullopt;
    return Match{id, producer};
  }

  static void rewrite(Graph& graph, const Match& match) {
    add_pads(*graph.node(match.pad).as<Pad>(), graph.node(match.conv).as<Conv>()->window);
    graph.node(match.conv).inputs[0] = graph.node(match.pad).input(0);
    graph.touch();
    fold_if_unread(graph, match.pad, match.conv);
  }
};

}  // namespace

int fold_pad_into_conv(Graph& graph) { return apply<FoldPadIntoConv>(graph); }

}  // namespace braze
