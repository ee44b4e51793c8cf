#include "model/node_reader.hpp"

#include "model/result_dtype.hpp"

namespace braze::model {

NodeReader::NodeReader(Graph& graph, Source& source, int opset,
                       const std::unordered_set<ValueId>& used, ExternalData& external)
    : attributes(*source.proto, source.where, external),
      graph_(&graph),
      source_(&source),
      opset_(opset),
      used_(&used) {}

void NodeReader::expect_inputs(std::size_t least, std::size_t most) const {
  const std::size_t count = inputs().size();
  if (count < least || count > most) {
    invalid("has {} inputs, expected {}", count,
            least == most ? std::to_string(least) : fmt::format("{} to {}", least, most));
  }
  for (std::size_t i = 0; i < least; ++i) {
    if (input(i) == kNoValue) invalid("input {} is absent, but the operator needs it", i);
  }
}

const Tensor* NodeReader::constant(std::size_t i) const {
  if (input(i) == kNoValue) return nullptr;
  const Value& value = graph_->value(input(i));
  return value.is_constant() ? &*value.constant : nullptr;
}

void NodeReader::add(Attributes op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                     std::string id) {
  const NodeId added = graph_->add_node(std::move(op), std::move(inputs), std::move(outputs),
                                        std::move(id), {source_->id});
  const Node& node = graph_->node(added);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    graph_->value(node.outputs[i]).dtype = result_dtype(*graph_, node, i);
  }
}

void NodeReader::emit(Attributes op, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  add(std::move(op), std::move(inputs), std::move(outputs), source_->id);
}

void NodeReader::emit_constant(Tensor tensor) {
  Value& value = graph_->value(output(0));
  value.dtype = tensor.dtype();
  value.shape = tensor.shape();
  value.known_rank = true;
  value.constant = std::move(tensor);
  graph_->folded.push_back({source_->id, "constant"});
}

ValueId NodeReader::emit_part(Attributes op, std::vector<ValueId> inputs) {
  const std::string id = fmt::format("{}/{}", source_->id, ++parts_);
  const ValueId output = graph_->add_value(id);
  add(std::move(op), std::move(inputs), {output}, id);
  return output;
}

ValueId NodeReader::add_constant(Tensor tensor) {
  return graph_->add_constant(fmt::format("{}/{}", source_->id, ++parts_), std::move(tensor));
}

}  // namespace braze::model
