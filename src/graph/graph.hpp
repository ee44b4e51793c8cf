// The graph: values, and nodes that make values from values. Every pass and the planner work on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op.hpp"

namespace braze {

using ValueId = std::int32_t;
using NodeId = std::int32_t;
inline constexpr ValueId kNoValue = -1;  // an optional input or output that is absent
inline constexpr NodeId kNoNode = -1;

/// A tensor that flows through the graph. Images are [N, C, spatial...] logically, wherever they
/// lie in memory.
struct Value {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;  ///< -1: not known yet (only before resolve)
  /// Graph inputs: the name of each symbolic dimension, "" where the extent is a number.
  std::vector<std::string> symbols;
  bool known_rank = false;         ///< shape has the right rank (extents may still be -1)
  std::optional<Tensor> constant;  ///< the value of an initializer or of a folded node

  [[nodiscard]] bool is_constant() const { return constant.has_value(); }
};

/// One operation. Inputs and outputs may be kNoValue where ONNX lets them be absent.
struct Node {
  Attributes op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string id;  ///< its model node's name if unique, else that node's first output
  /// Ids of the model nodes it stands for: several after a recomposition.
  std::vector<std::string> origins;
  bool erased = false;

  [[nodiscard]] OpKind kind() const { return static_cast<OpKind>(op.index()); }
  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&op);
  }
  template <class T>
  [[nodiscard]] T* as() {
    return std::get_if<T>(&op);
  }
  [[nodiscard]] ValueId input(std::size_t i) const {
    return i < inputs.size() ? inputs[i] : kNoValue;
  }
  [[nodiscard]] ValueId output(std::size_t i = 0) const {
    return i < outputs.size() ? outputs[i] : kNoValue;
  }
};

struct GraphOutput {
  std::string name;
  ValueId value = kNoValue;
};

/// A model node that no kernel runs, and what became of it: the node it was folded into,
/// "constant", "unused" or "view".
struct Folded {
  std::string node;
  std::string into;
};

class Graph {
 public:
  std::string name;
  std::vector<ValueId> inputs;
  std::vector<GraphOutput> outputs;
  std::vector<Folded> folded;

  ValueId add_value(std::string name, DType dtype = DType::kFloat32, Shape shape = {});
  ValueId add_constant(std::string name, Tensor tensor);
  NodeId add_node(Attributes op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                  std::string id, std::vector<std::string> origins);

  [[nodiscard]] const Value& value(ValueId id) const {
    return values_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] Value& value(ValueId id) { return values_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  /// Editing a node's inputs or outputs through this reference must be followed by touch().
  [[nodiscard]] Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::int32_t value_count() const {
    return static_cast<std::int32_t>(values_.size());
  }
  /// Erased ones too.
  [[nodiscard]] std::int32_t node_count() const { return static_cast<std::int32_t>(nodes_.size()); }

  /// Live nodes, each after the producers of its inputs; deterministic. kModelInvalid naming a node
  /// if there is a cycle.
  [[nodiscard]] std::vector<NodeId> order() const;
  /// The node that makes a value; kNoNode for graph inputs and constants.
  [[nodiscard]] NodeId producer(ValueId id) const;
  /// Live nodes that read a value, once per use, in node order.
  [[nodiscard]] const std::vector<NodeId>& users(ValueId id) const;
  [[nodiscard]] bool is_output(ValueId id) const;
  [[nodiscard]] bool is_input(ValueId id) const;
  /// The only reader of a value that is no graph output; kNoNode otherwise.
  [[nodiscard]] NodeId only_user(ValueId id) const;

  /// Every reader of `from` (graph outputs too) reads `to` instead.
  void replace_uses(ValueId from, ValueId to);
  /// Removes a node; its outputs must have no readers left, or be constant by now.
  void erase(NodeId id);
  /// Records that the model nodes behind `id` are done by `into` from now on, then erases the node.
  void fold(NodeId id, const std::string& into);
  /// Drops nodes without readers (recorded as folded into "unused") and the bytes of unused
  /// constants.
  void remove_dead();
  /// The graph without erased nodes and unused values; ids change, order() is 0, 1, 2, ...
  [[nodiscard]] Graph compacted() const;

  void touch() { index_valid_ = false; }

 private:
  void build_index() const;

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  mutable bool index_valid_ = false;
  mutable std::vector<NodeId> producer_;
  mutable std::vector<std::vector<NodeId>> users_;
};

/// The text of a graph: one line per node with op, attributes, inputs, outputs, dtypes and shapes.
std::string print(const Graph& graph);
/// One node as a line of print().
std::string print(const Graph& graph, const Node& node);

}  // namespace braze
