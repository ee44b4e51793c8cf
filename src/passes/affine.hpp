// Per-channel affine maps y = scale * x + shift, however a graph spells them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace braze {

/// y[n,c,...] = scale[c] * x[n,c,...] + shift[c], in double, all finite; one entry per channel.
struct ChannelAffine {
  ValueId x = kNoValue;
  std::vector<double> scale;
  std::vector<double> shift;

  [[nodiscard]] bool scales() const;  ///< is any scale not 1?
  [[nodiscard]] bool shifts() const;  ///< is any shift not 0?
  /// Nodes that spell it: a Mul if it scales, an Add if it shifts.
  [[nodiscard]] int node_count() const { return int{scales()} + int{shifts()}; }
};

/// What a node does, if that is a per-channel affine map of floats with finite constants:
/// BatchNorm, or add, sub, mul, div with a constant on either side (not c / x), or neg.
std::optional<ChannelAffine> affine_of(const Graph& graph, NodeId node);

/// outer(inner(x)).
ChannelAffine compose(const ChannelAffine& outer, const ChannelAffine& inner);

/// Are scale and shift still finite once rounded to `dtype`?
bool fits(const ChannelAffine& affine, DType dtype);

/// The node spells `affine` from now on: as Identity, Add, Mul, or an Add behind a new Mul with the
/// same origins.
void become_affine(Graph& graph, NodeId node, const ChannelAffine& affine);

}  // namespace braze
