#include "model/node_writer.hpp"

#include <onnx/onnx.pb.h>

#include "graph/elements.hpp"
#include "model/encode_tensor.hpp"

namespace braze::model {
namespace {

onnx::AttributeProto& add_attribute(onnx::NodeProto& node, const char* name,
                                    onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

}  // namespace

/// Graph outputs give their names to what makes them; the names of inputs stay.
NameTable::NameTable(const Graph& graph) {
  names_.resize(static_cast<std::size_t>(graph.value_count()));
  const auto claim = [this](ValueId value, const std::string& name) {
    std::string& own = names_[static_cast<std::size_t>(value)];
    if (own.empty()) own = fresh(name);
  };
  for (const ValueId input : graph.inputs) claim(input, graph.value(input).name);
  for (const GraphOutput& output : graph.outputs) {
    if (graph.producer(output.value) != kNoNode) claim(output.value, output.name);
  }
  // An output that is an input, a constant or another output: its Identity node takes the name.
  for (const GraphOutput& output : graph.outputs) taken_.insert(output.name);
  for (ValueId value = 0; value < graph.value_count(); ++value) {
    claim(value, graph.value(value).name);
  }
}

std::string NameTable::fresh(const std::string& wish) {
  const std::string base = wish.empty() ? "value" : wish;
  std::string name = base;
  for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}/{}", base, i);
  return name;
}

OnnxNode& OnnxNode::set(const char* name, std::int64_t value) {
  add_attribute(*proto_, name, onnx::AttributeProto::INT).set_i(value);
  return *this;
}

OnnxNode& OnnxNode::set(const char* name, double value) {
  add_attribute(*proto_, name, onnx::AttributeProto::FLOAT).set_f(static_cast<float>(value));
  return *this;
}

OnnxNode& OnnxNode::set(const char* name, const char* value) {
  add_attribute(*proto_, name, onnx::AttributeProto::STRING).set_s(value);
  return *this;
}

OnnxNode& OnnxNode::set(const char* name, const Ints& values) {
  onnx::AttributeProto& attribute = add_attribute(*proto_, name, onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
  return *this;
}

OnnxNode& OnnxNode::set(const char* name, const Tensor& value) {
  encode_tensor(value, "", *add_attribute(*proto_, name, onnx::AttributeProto::TENSOR).mutable_t());
  return *this;
}

std::vector<std::string> NodeWriter::inputs() const {
  std::vector<std::string> names;
  for (const ValueId id : node_->inputs) names.push_back(name(id));
  return names;
}

OnnxNode NodeWriter::last(const char* op, const std::vector<std::string>& inputs) {
  onnx::NodeProto& proto = *proto_->add_node();
  proto.set_op_type(op);
  proto.set_name(node_->id);
  for (const std::string& input : inputs) proto.add_input(input);
  for (const ValueId output : node_->outputs) proto.add_output(name(output));
  return OnnxNode(proto);
}

std::string NodeWriter::part(const char* op, const std::vector<std::string>& inputs,
                             const std::vector<std::pair<const char*, Ints>>& attributes) {
  onnx::NodeProto& proto = *proto_->add_node();
  proto.set_op_type(op);
  for (const std::string& input : inputs) proto.add_input(input);
  OnnxNode node(proto);
  for (const auto& [key, values] : attributes) node.set(key, values);
  return *proto.add_output() = names_->fresh(node_->id);
}

std::string NodeWriter::constant(const Tensor& tensor) {
  std::string name = names_->fresh(node_->id);
  encode_tensor(tensor, name, *proto_->add_initializer());
  return name;
}

std::string NodeWriter::ints(const Ints& values) {
  return constant(make_tensor(DType::kInt64, {std::ssize(values)}, values));
}

std::string NodeWriter::floats(const std::vector<double>& values) {
  return constant(make_tensor(DType::kFloat32, {std::ssize(values)}, values));
}

std::string NodeWriter::scalar(double value) {
  return constant(make_tensor(dtype(), {}, std::vector<double>{value}));
}

void NodeWriter::no_spelling(std::string_view what) const {
  fail(ErrorCode::kUnsupported, "node '{}' ({}): {} cannot be written in opset 17", node_->id,
       to_string(node_->kind()), what);
}

}  // namespace braze::model
