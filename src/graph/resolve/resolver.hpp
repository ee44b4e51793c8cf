// One function per operator: from the form in which models spell it to the resolved form of op.hpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/infer/infer.hpp"

namespace braze::graph {

/// The node being resolved: its inputs, and what may be done to it.
class Resolver {
 public:
  Resolver(Graph& graph, NodeId id) : graph_(&graph), id_(id) {}

  [[nodiscard]] NodeView in() const { return {*graph_, graph_->node(id_)}; }
  [[nodiscard]] bool has(std::size_t i) const { return in().has(i); }
  [[nodiscard]] Shape shape(std::size_t i) const { return in().shape(i); }
  [[nodiscard]] std::int64_t rank(std::size_t i) const { return in().rank(i); }
  [[nodiscard]] DType dtype(std::size_t i) const { return in().dtype(i); }
  [[nodiscard]] bool is_constant(std::size_t i) const { return in().value(i).is_constant(); }

  /// The elements of a parameter input; nothing if it is absent, kUnsupported if it is not
  /// constant.
  [[nodiscard]] std::optional<Ints> ints(std::size_t i) const;
  [[nodiscard]] std::optional<std::vector<double>> doubles(std::size_t i) const;

  /// Drops all inputs from `first` on: they are attributes now.
  void drop_inputs(std::size_t first);
  /// Replaces one input.
  void set_input(std::size_t i, ValueId value);
  [[nodiscard]] ValueId input(std::size_t i) const { return graph_->node(id_).input(i); }
  /// A new resolved node of the same origins before this one; returns its only output.
  ValueId before(Attributes op, std::vector<ValueId> inputs);
  /// The node's only output is this constant: the node is folded away.
  void become_constant(Tensor tensor);

 private:
  std::string next_id();

  Graph* graph_;
  NodeId id_;
};

/// Non-negative, ascending axes below `rank`. kModelInvalid on doubles and on axes out of range.
Ints normal_axes(const NodeView& in, Ints axes, std::int64_t rank);

/// Fills a window for the spatial axes of input x = 0 and the kernel of weight input `w` (no
/// weight: w = 0); turns auto_pad into pads. A transposed convolution leaves auto_pad to its
/// caller.
void resolve_window(Window& window, const Resolver& node, std::size_t w, bool transposed = false);

#define BRAZE_DECLARE(Name) Attributes resolve_op(Name op, Resolver& node);
BRAZE_OPS(BRAZE_DECLARE)
#undef BRAZE_DECLARE

}  // namespace braze::graph
