// One graph node being written as ONNX nodes.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "graph/graph.hpp"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace braze::model {

/// The names of values in the model being written, all different.
class NameTable {
 public:
  explicit NameTable(const Graph& graph);
  [[nodiscard]] const std::string& of(ValueId value) const {
    return names_[static_cast<std::size_t>(value)];
  }
  /// A new name that begins so.
  std::string fresh(const std::string& wish);

 private:
  std::vector<std::string> names_;  // by ValueId
  std::set<std::string> taken_;
};

/// An ONNX node; set() adds an attribute.
class OnnxNode {
 public:
  explicit OnnxNode(onnx::NodeProto& proto) : proto_(&proto) {}
  OnnxNode& set(const char* name, std::int64_t value);
  OnnxNode& set(const char* name, double value);
  OnnxNode& set(const char* name, const char* value);
  OnnxNode& set(const char* name, const Ints& values);
  OnnxNode& set(const char* name, const Tensor& value);
  OnnxNode& set(const char* name, bool value) { return set(name, std::int64_t{value ? 1 : 0}); }

 private:
  onnx::NodeProto* proto_;
};

class NodeWriter {
 public:
  NodeWriter(const Graph& graph, const Node& node, NameTable& names, onnx::GraphProto& proto)
      : graph_(&graph), node_(&node), names_(&names), proto_(&proto) {}

  [[nodiscard]] std::string input(std::size_t i) const { return name(node_->input(i)); }
  [[nodiscard]] std::vector<std::string> inputs() const;
  [[nodiscard]] const Value& value(std::size_t i) const { return graph_->value(node_->input(i)); }
  [[nodiscard]] DType dtype() const { return value(0).dtype; }
  [[nodiscard]] bool has(std::size_t i) const { return node_->input(i) != kNoValue; }

  /// The ONNX node that makes the graph node's outputs.
  OnnxNode last(const char* op, const std::vector<std::string>& inputs);
  OnnxNode last(const char* op) { return last(op, inputs()); }
  /// An ONNX node before it; returns the name of its output.
  std::string part(const char* op, const std::vector<std::string>& inputs,
                   const std::vector<std::pair<const char*, Ints>>& attributes = {});
  /// Constants: an int64 vector, a float vector, a scalar of input 0's dtype.
  std::string ints(const Ints& values);
  std::string floats(const std::vector<double>& values);
  std::string scalar(double value);
  std::string constant(const Tensor& tensor);

  /// Throws kUnsupported: "node 'resize1' (Resize): <what> cannot be written in opset 17".
  [[noreturn]] void no_spelling(std::string_view what) const;

 private:
  [[nodiscard]] std::string name(ValueId id) const { return id == kNoValue ? "" : names_->of(id); }

  const Graph* graph_;
  const Node* node_;
  NameTable* names_;
  onnx::GraphProto* proto_;
};

#define BRAZE_DECLARE(Name) void write_op(const Name& op, NodeWriter& node);
BRAZE_OPS(BRAZE_DECLARE)
#undef BRAZE_DECLARE

}  // namespace braze::model
