// transpose([N, b,b,C, H,W] -> [N, C, H,b, W,b]) = depth_to_space(x, b)             (DCR)
// transpose([N, C,b,b, H,W] -> [N, C, H,b, W,b]) = depth_to_space(x, b)             (CRD)
// transpose([N, C, H,b, W,b] -> [N, b,b,C, H,W]) = space_to_depth(x, b)
// transpose([N, C, H,b, W,b] -> [N, C,b,b, H,W]) = channel_shuffle(space_to_depth(x, b), b b)
// between Reshapes, however these group the axes
#include "passes/edit.hpp"
#include "passes/rewrite.hpp"
#include "passes/rewrites.hpp"
#include "passes/shuffle.hpp"

namespace braze {
namespace {

struct RecomposePixelShuffle {
  struct Match {
    Shuffle shuffle;
    std::optional<DepthToSpace> depth_to_space;
    SpaceToDepth space_to_depth;
    bool blocks_last = false;  // space to depth with channel order (C, b, b)
  };

  static std::optional<Match> match(const Graph& graph, NodeId id) {
    const auto shuffle = shuffle_at(graph, id);
    if (!shuffle) return std::nullopt;
    const Shape& x = graph.value(shuffle->x).shape;
    const Shape& y = graph.value(graph.node(id).output()).shape;
    if (x.size() != 4 || y.size() != 4 || x[0] != y[0] || element_count(x) == 0)
      return std::nullopt;

    Match match{*shuffle, {}, {}, false};
    if (const std::int64_t b = y[2] / x[2];
        b > 1 && y == Shape{x[0], x[1] / (b * b), x[2] * b, x[3] * b}) {
      match.depth_to_space = DepthToSpace{b, false};
      if (shuffle->moved == shortest({x[0], b, b, y[1], x[2], x[3]}, {0, 3, 4, 1, 5, 2}))
        return match;
      match.depth_to_space = DepthToSpace{b, true};
      if (shuffle->moved == shortest({x[0], y[1], b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3}))
        return match;
    }
    match.depth_to_space.reset();
    if (const std::int64_t b = x[2] / y[2];
        b > 1 && x == Shape{y[0], y[1] / (b * b), y[2] * b, y[3] * b}) {
      match.space_to_depth.block = b;
      const Shape split = {x[0], x[1], y[2], b, y[3], b};
      if (shuffle->moved == shortest(split, {0, 3, 5, 1, 2, 4})) return match;
      match.blocks_last = true;
      if (shuffle->moved == shortest(split, {0, 1, 3, 5, 2, 4})) return match;
    }
    return std::nullopt;
  }

  static void rewrite(Graph& graph, const Match& match) {
    const Shape shape = graph.value(graph.node(match.shuffle.root).output()).shape;
    if (match.depth_to_space)
      return replace_shuffle(graph, match.shuffle, *match.depth_to_space, shape);
    if (!match.blocks_last)
      return replace_shuffle(graph, match.shuffle, match.space_to_depth, shape);
    const NodeId root = match.shuffle.root;
    const std::int64_t blocks = match.space_to_depth.block * match.space_to_depth.block;
    const ValueId depth = insert(graph, match.space_to_depth, {match.shuffle.x},
                                 graph.node(root).id + "/space_to_depth", graph.node(root).origins);
    become(graph, root, ChannelShuffle{blocks}, {depth});
    absorb(graph, root, match.shuffle.nodes);
  }
};

}  // namespace

int recompose_pixel_shuffle(Graph& graph) { return apply<RecomposePixelShuffle>(graph); }

}  // namespace braze
