// Builds small graphs as the model reader would, and runs them through resolve_graph, verify and
// interpret.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/elements.hpp"
#include "graph/graph.hpp"
#include "graph/interpret.hpp"
#include "graph/shape.hpp"
#include "graph/verify.hpp"

namespace braze::testing {

using Floats = std::vector<double>;

inline Tensor floats(Shape shape, const Floats& values) {
  return make_tensor(DType::kFloat32, std::move(shape), values);
}
/// 0, 1, 2, ...
inline Tensor counting(Shape shape, DType dtype = DType::kFloat32) {
  Ints values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
  return make_tensor(dtype, std::move(shape), values);
}
inline Tensor ints(const Ints& values) {
  return make_tensor(DType::kInt64, {std::ssize(values)}, values);
}

class Net {
 public:
  Graph graph;

  ValueId input(const Tensor& tensor) {
    const ValueId id =
        graph.add_value("x" + std::to_string(fed_.size()), tensor.dtype(), tensor.shape());
    graph.inputs.push_back(id);
    fed_.push_back(tensor);
    return id;
  }
  ValueId constant(const Tensor& tensor) {
    return graph.add_constant("c" + std::to_string(graph.value_count()), tensor);
  }
  ValueId node(Attributes op, std::vector<ValueId> inputs) {
    return nodes(std::move(op), std::move(inputs), 1)[0];
  }
  std::vector<ValueId> nodes(Attributes op, std::vector<ValueId> inputs, std::size_t outputs) {
    std::vector<ValueId> made;
    for (std::size_t i = 0; i < outputs; ++i)
      made.push_back(graph.add_value("v" + std::to_string(graph.value_count())));
    const std::string id = "n" + std::to_string(graph.node_count());
    graph.add_node(std::move(op), std::move(inputs), made, id, {id});
    return made;
  }
  void output(ValueId value) { graph.outputs.push_back({graph.value(value).name, value}); }

  void resolve() {
    resolve_graph(graph);
    graph.remove_dead();
    verify(graph, "resolve_graph");
  }
  std::vector<Tensor> run() {
    resolve();
    return interpret(graph, fed_);
  }

 private:
  std::vector<Tensor> fed_;
};

/// The only output of one operator. The first `fed` operands are graph inputs, the others
/// constants; undefined ones are absent.
inline Tensor run(Attributes op, const std::vector<Tensor>& operands, std::size_t fed = 1) {
  Net net;
  std::vector<ValueId> inputs;
  for (const Tensor& operand : operands) {
    if (!operand.defined()) {
      inputs.push_back(kNoValue);
    } else {
      inputs.push_back(inputs.size() < fed ? net.input(operand) : net.constant(operand));
    }
  }
  net.output(net.node(std::move(op), inputs));
  return net.run()[0];
}

inline Floats values(const Tensor& tensor) { return load<double>(tensor); }

/// Runs f and returns the error that it throws; its message is empty if it throws none.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return {ErrorCode::kInternal, ""};
}

}  // namespace braze::testing
