// conv(space_to_depth(x, b), w [K, b b C, h, w], strides s, pads p)
//   = conv(x, w' [K, C, b h, b w], strides b s, pads b p)    with w'[k, c, b y + i, b x + j] = w[k,
//   (i b + j) C + c, y, x]
#include "graph/elements.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"
#include "passes/weights.hpp"

namespace braze {
namespace {

struct FoldSpaceToDepthIntoConv {
  struct Match {
    NodeId conv = kNoNode;
    NodeId space_to_depth = kNoNode;
    std::int64_t block = 1;
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    const auto* conv = node.as<Conv>();
    if (conv == nullptr || conv->group != 1 || conv->window.dilations != Ints{1, 1})
      return std::nullopt;
    if (!graph.value(node.input(1)).is_constant()) return std::nullopt;
    const NodeId producer = if_op<SpaceToDepth>(graph, sole_producer(graph, node.input(0)));
    if (producer == kNoNode) return std::nullopt;
    return Match{id, producer, graph.node(producer).as<SpaceToDepth>()->block};
  }

  static void rewrite(Graph& graph, const Match& match) {
    const Tensor old = *graph.value(graph.node(match.conv).input(1)).constant;
    const auto b = static_cast<std::size_t>(match.block);
    const auto filters = static_cast<std::size_t>(old.shape()[0]);
    const std::size_t channels = static_cast<std::size_t>(old.shape()[1]) / (b * b);
    const auto height = static_cast<std::size_t>(old.shape()[2]);
    const auto width = static_cast<std::size_t>(old.shape()[3]);
    const std::vector<double> from = load<double>(old);
    std::vector<double> to(from.size());
    std::size_t place = 0;
    for (std::size_t k = 0; k < filters; ++k) {
      for (std::size_t phase = 0; phase < b * b; ++phase) {
        for (std::size_t c = 0; c < channels; ++c) {
          for (std::size_t y = 0; y < height; ++y) {
            for (std::size_t x = 0; x < width; ++x) {
              const std::size_t row = (k * channels + c) * b * height + y * b + phase / b;
              to[row * b * width + x * b + phase % b] = from[place++];
            }
          }
        }
      }
    }
    Shape shape = old.shape();
    shape[1] /= match.block * match.block;
    shape[2] *= match.block;
    shape[3] *= match.block;
    set_weights(graph, match.conv, make_tensor(old.dtype(), shape, to));
    Window& window = graph.node(match.conv).as<Conv>()->window;
    for (Ints* extents : {&window.kernel, &window.strides, &window.pads_begin, &window.pads_end}) {
      for (std::int64_t& extent : *extents) extent *= match.block;
    }
    graph.node(match.conv).inputs[0] = graph.node(match.space_to_depth).input(0);
    graph.touch();
    fold_if_unread(graph, match.space_to_depth, match.conv);
  }
};

}  // namespace

int fold_space_to_depth_into_conv(Graph& graph) { return apply<FoldSpaceToDepthIntoConv>(graph); }

}  // namespace braze
