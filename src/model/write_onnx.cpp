#include "model/write_onnx.hpp"

#include <onnx/onnx.pb.h>

#include <span>

#include "base/error.hpp"
#include "base/file.hpp"
#include "model/dtype.hpp"
#include "model/encode_tensor.hpp"
#include "model/node_writer.hpp"

namespace braze {
namespace {

constexpr int kIrVersion = 8;
constexpr int kOpset = 17;
constexpr std::size_t kMostConstantBytes = std::size_t{2000} << 20;  // protobuf ends at 2 GB

void describe(const std::string& name, const Value& value, onnx::ValueInfoProto& info) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(model::onnx_type_of(value.dtype));
  auto& shape = *type.mutable_shape();
  for (std::size_t axis = 0; axis < value.shape.size(); ++axis) {
    auto& dim = *shape.add_dim();
    if (value.shape[axis] >= 0) {
      dim.set_dim_value(value.shape[axis]);
    } else if (axis < value.symbols.size()) {
      dim.set_dim_param(value.symbols[axis]);
    }
  }
}

/// Constants that something reads.
void write_constants(const Graph& graph, const model::NameTable& names, onnx::GraphProto& proto) {
  std::size_t bytes = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    const bool used = !graph.users(id).empty() || graph.is_output(id);
    if (!value.is_constant() || !used) continue;
    bytes += value.constant->bytes();
    if (bytes > kMostConstantBytes) {
      fail(ErrorCode::kModelInvalid, "the constants of the graph are more than an ONNX file holds");
    }
    model::encode_tensor(*value.constant, names.of(id), *proto.add_initializer());
  }
}

void write_outputs(const Graph& graph, const model::NameTable& names, onnx::GraphProto& proto) {
  for (const GraphOutput& output : graph.outputs) {
    describe(output.name, graph.value(output.value), *proto.add_output());
    const std::string& made = names.of(output.value);
    if (made == output.name) continue;
    onnx::NodeProto& copy = *proto.add_node();
    copy.set_op_type("Identity");
    copy.add_input(made);
    copy.add_output(output.name);
  }
}

}  // namespace

std::string write_onnx(const Graph& graph) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("braze");
  model.add_opset_import()->set_version(kOpset);
  onnx::GraphProto& proto = *model.mutable_graph();
  proto.set_name(graph.name.empty() ? "graph" : graph.name);

  model::NameTable names(graph);
  for (const ValueId input : graph.inputs) {
    describe(names.of(input), graph.value(input), *proto.add_input());
  }
  write_constants(graph, names, proto);
  for (const NodeId id : graph.order()) {
    model::NodeWriter writer(graph, graph.node(id), names, proto);
    std::visit([&writer](const auto& op) { model::write_op(op, writer); }, graph.node(id).op);
  }
  write_outputs(graph, names, proto);
  return model.SerializeAsString();
}

void write_onnx(const Graph& graph, const std::filesystem::path& file) {
  const std::string bytes = write_onnx(graph);
  write_file(file, std::as_bytes(std::span(bytes)));
}

}  // namespace braze
