#include "graph/interpret.hpp"

#include "graph/interpret/call.hpp"

namespace braze {

std::vector<Tensor> interpret_node(const Graph& graph, const Node& node,
                                   std::span<const Tensor> inputs) {
  graph::Call call(graph, node, inputs);
  std::visit([&call](const auto& op) { run_op(op, call); }, node.op);
  return call.take_outputs();
}

namespace {

void check_input(const Value& expected, const Tensor& given) {
  if (given.defined() && given.dtype() == expected.dtype && given.shape() == expected.shape) return;
  fail(ErrorCode::kInput, "input '{}' is {}{}, expected {}{}", expected.name,
       to_string(given.dtype()), to_string(given.shape()), to_string(expected.dtype),
       to_string(expected.shape));
}

/// Runs the nodes in order; done(id) is called after each of them.
template <class Done>
std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs, Done&& done) {
  if (inputs.size() != graph.inputs.size()) {
    fail(ErrorCode::kInput, "{} inputs are given, expected {}", inputs.size(), graph.inputs.size());
  }
  std::vector<Tensor> values(static_cast<std::size_t>(graph.value_count()));
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).is_constant())
      values[static_cast<std::size_t>(id)] = *graph.value(id).constant;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(graph.value(graph.inputs[i]), inputs[i]);
    values[static_cast<std::size_t>(graph.inputs[i])] = inputs[i];
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<Tensor> operands;
    operands.reserve(node.inputs.size());
    for (const ValueId input : node.inputs) {
      operands.push_back(input == kNoValue ? Tensor() : values[static_cast<std::size_t>(input)]);
    }
    std::vector<Tensor> results = interpret_node(graph, node, operands);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i] != kNoValue)
        values[static_cast<std::size_t>(node.outputs[i])] = std::move(results[i]);
    }
    done(id, values);
  }
  return values;
}

}  // namespace

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs) {
  // A value is dropped after its last reader.
  std::vector<std::size_t> readers(static_cast<std::size_t>(graph.value_count()), 0);
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    readers[static_cast<std::size_t>(id)] = graph.users(id).size() + (graph.is_output(id) ? 1 : 0);
  }
  const std::vector<Tensor> values = run(graph, inputs, [&](NodeId id, std::vector<Tensor>& all) {
    for (const ValueId input : graph.node(id).inputs) {
      if (input == kNoValue) continue;
      const auto i = static_cast<std::size_t>(input);
      if (--readers[i] == 0) all[i] = Tensor();
    }
  });
  std::vector<Tensor> results;
  results.reserve(graph.outputs.size());
  for (const GraphOutput& output : graph.outputs)
    results.push_back(values[static_cast<std::size_t>(output.value)]);
  return results;
}

std::vector<Tensor> interpret_all(const Graph& graph, std::span<const Tensor> inputs) {
  return run(graph, inputs, [](NodeId, std::vector<Tensor>&) {});
}

}  // namespace braze
