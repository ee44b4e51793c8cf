// One function per operator: dtype and shape of what a resolved node makes, after checking what
// goes in.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "graph/graph.hpp"
#include "graph/shape.hpp"

namespace braze::graph {

/// A node with what is known of its inputs.
class NodeView {
 public:
  NodeView(const Graph& graph, const Node& node) : graph_(&graph), node_(&node) {}

  [[nodiscard]] std::size_t input_count() const { return node_->inputs.size(); }
  [[nodiscard]] std::size_t output_count() const { return node_->outputs.size(); }
  [[nodiscard]] bool has(std::size_t i) const { return node_->input(i) != kNoValue; }
  [[nodiscard]] const Value& value(std::size_t i) const { return graph_->value(node_->input(i)); }
  [[nodiscard]] const Shape& shape(std::size_t i) const { return value(i).shape; }
  [[nodiscard]] DType dtype(std::size_t i) const { return value(i).dtype; }
  [[nodiscard]] std::int64_t rank(std::size_t i) const { return std::ssize(shape(i)); }
  /// "node 'conv1' (Conv)"
  [[nodiscard]] std::string where() const {
    return fmt::format("node '{}' ({})", node_->id, to_string(node_->kind()));
  }

  /// Throws kModelInvalid: "node 'conv1' (Conv): <message>".
  template <class... Args>
  [[noreturn]] void invalid(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kModelInvalid, "{}: {}", where(),
         fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kUnsupported, "{}: {}", where(),
         fmt::format(format, std::forward<Args>(args)...));
  }

  /// A non-negative axis below `rank`. kModelInvalid if there is no such axis.
  [[nodiscard]] std::int64_t axis(std::int64_t axis, std::int64_t rank) const;
  /// kModelInvalid unless input i (`what`) is absent or a vector of `extent` elements.
  void expect_vector(std::size_t i, const char* what, std::int64_t extent) const;
  /// kModelInvalid unless input i has the dtype of input 0.
  void expect_same_dtype(std::size_t i, const char* what) const;
  /// kUnsupported unless input i is constant: the shape of the node's output depends on its values.
  const Tensor& constant(std::size_t i) const;

 private:
  const Graph* graph_;
  const Node* node_;
};

using Types = std::vector<TensorType>;

#define BRAZE_DECLARE(Name) Types infer_op(const Name& op, const NodeView& in);
BRAZE_OPS(BRAZE_DECLARE)
#undef BRAZE_DECLARE

}  // namespace braze::graph
