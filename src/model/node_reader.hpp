// One ONNX node being read: its attributes, its inputs, and the graph nodes made of it.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "graph/graph.hpp"
#include "model/attribute_reader.hpp"

namespace braze::model {

class NodeReader {
 public:
  struct Source {
    onnx::NodeProto* proto;
    std::string id;
    std::string where;             // "node 'conv1' (Conv)"
    std::vector<ValueId> inputs;   // without absent ones at the end
    std::vector<ValueId> outputs;  // likewise
  };

  /// `used` are the values that a node or the graph's outputs read.
  NodeReader(Graph& graph, Source& source, int opset, const std::unordered_set<ValueId>& used,
             ExternalData& external);

  AttributeReader attributes;

  /// Version of the default operator set that the model was written for.
  [[nodiscard]] int opset() const { return opset_; }
  [[nodiscard]] const std::vector<ValueId>& inputs() const { return source_->inputs; }
  [[nodiscard]] ValueId input(std::size_t i) const {
    return i < inputs().size() ? inputs()[i] : kNoValue;
  }
  /// kModelInvalid unless there are so many inputs: for operators whose inputs changed over time.
  void expect_inputs(std::size_t least, std::size_t most) const;
  /// The value of an input that is an initializer or a Constant; null if it is absent or is made by
  /// a node.
  [[nodiscard]] const Tensor* constant(std::size_t i) const;
  [[nodiscard]] DType dtype(std::size_t i) const { return graph_->value(input(i)).dtype; }
  [[nodiscard]] ValueId output(std::size_t i) const { return source_->outputs[i]; }
  [[nodiscard]] std::size_t output_count() const { return source_->outputs.size(); }
  /// The output has a name, read by somebody or not.
  [[nodiscard]] bool has_output(std::size_t i) const {
    return i < output_count() && source_->outputs[i] != kNoValue;
  }
  [[nodiscard]] bool output_is_read(std::size_t i) const {
    return has_output(i) && used_->contains(source_->outputs[i]);
  }

  /// The graph node that makes all outputs from all inputs.
  void emit(Attributes op) { emit(std::move(op), inputs()); }
  /// The same from other inputs.
  void emit(Attributes op, std::vector<ValueId> inputs) {
    emit(std::move(op), std::move(inputs), source_->outputs);
  }
  void emit(Attributes op, std::vector<ValueId> inputs, std::vector<ValueId> outputs);
  /// The graph node that makes only the first output.
  void emit_first(Attributes op, std::vector<ValueId> inputs) {
    emit(std::move(op), std::move(inputs), {source_->outputs.front()});
  }
  /// No graph node: the first output is this constant.
  void emit_constant(Tensor tensor);
  /// One of several graph nodes for this one; returns the value that it makes. Comes before emit().
  ValueId emit_part(Attributes op, std::vector<ValueId> inputs);
  /// A constant that this node needs.
  ValueId add_constant(Tensor tensor);

  template <class... Args>
  [[noreturn]] void invalid(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kModelInvalid, "{}: {}", source_->where,
         fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kUnsupported, "{}: {}", source_->where,
         fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] const std::string& where() const { return source_->where; }

 private:
  void add(Attributes op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
           std::string id);

  Graph* graph_;
  Source* source_;
  int opset_;
  const std::unordered_set<ValueId>* used_;
  int parts_ = 1;
};

}  // namespace braze::model
