#include "model/read_onnx.hpp"

#include <onnx/onnx.pb.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "model/decode_tensor.hpp"
#include "model/dtype.hpp"
#include "model/external_data.hpp"
#include "model/node_reader.hpp"
#include "model/ops/registry.hpp"

namespace braze {
namespace model {
namespace {

constexpr std::int64_t kFirstIrVersion = 3;

onnx::ModelProto parse(std::span<const std::byte> bytes) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (bytes.size() > kMost) {
    fail(ErrorCode::kModelInvalid,
         "the model has {} bytes, but protobuf ends at 2 GB; larger weights must be external data",
         bytes.size());
  }
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    fail(ErrorCode::kModelInvalid,
         "not an ONNX model, or a truncated one: protobuf cannot parse it");
  }
  return model;
}

bool is_default_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

/// The version of the default operator set.
int check_opset(const onnx::ModelProto& model) {
  std::int64_t opset = 0;
  for (const auto& import : model.opset_import()) {
    if (!is_default_domain(import.domain())) continue;
    if (opset != 0 && opset != import.version()) {
      fail(ErrorCode::kModelInvalid, "the model imports both opset {} and opset {}", opset,
           import.version());
    }
    opset = import.version();
  }
  if (opset == 0) {
    fail(ErrorCode::kModelInvalid, "the model imports no opset of the default domain");
  }
  if (opset < kFirstOpset || opset > kLastOpset) {
    fail(ErrorCode::kUnsupported, "the model is written for opset {}; supported are {} to {}",
         opset, kFirstOpset, kLastOpset);
  }
  return static_cast<int>(opset);
}

void check_header(const onnx::ModelProto& model) {
  if (!model.has_ir_version() || !model.has_graph()) {
    fail(ErrorCode::kModelInvalid, "not an ONNX model: it has no {}",
         model.has_graph() ? "IR version" : "graph");
  }
  if (model.ir_version() < kFirstIrVersion) {
    fail(ErrorCode::kUnsupported, "the model has IR version {}; supported are {} and up",
         model.ir_version(), kFirstIrVersion);
  }
  if (model.graph().sparse_initializer_size() != 0) {
    fail(ErrorCode::kUnsupported, "sparse initializers are not supported");
  }
}

/// Each node's name if no other node has it, else its first output.
std::vector<std::string> node_ids(const onnx::GraphProto& graph) {
  std::unordered_map<std::string, int> uses;
  for (const auto& node : graph.node()) ++uses[node.name()];
  std::vector<std::string> ids;
  for (const auto& node : graph.node()) {
    const bool named = !node.name().empty() && uses[node.name()] == 1;
    const bool has_output = node.output_size() > 0 && !node.output(0).empty();
    ids.push_back(named        ? node.name()
                  : has_output ? node.output(0)
                               : fmt::format("#{}", ids.size()));
  }
  return ids;
}

std::string where_of(const onnx::NodeProto& node, const std::string& id) {
  return fmt::format("node '{}' ({})", id, node.op_type());
}

/// kUnsupported errors, kept until all of them can be told at once.
class Unsupported {
 public:
  void add(std::string message) { messages_.push_back(std::move(message)); }
  void check() const {
    if (messages_.empty()) return;
    if (messages_.size() == 1) fail(ErrorCode::kUnsupported, "{}", messages_.front());
    fail(ErrorCode::kUnsupported, "{} nodes are not supported:\n  {}", messages_.size(),
         fmt::join(messages_, "\n  "));
  }

 private:
  std::vector<std::string> messages_;
};

class GraphReader {
 public:
  GraphReader(onnx::ModelProto& model, const std::filesystem::path& folder)
      : model_(&model), proto_(model.mutable_graph()), external_(folder), ids_(node_ids(*proto_)) {}

  Graph read() {
    check_operators();
    opset_ = check_opset(*model_);
    graph_.name = proto_->name();
    read_initializers();
    read_inputs();
    declare_node_outputs();
    connect_nodes();
    read_outputs();
    read_nodes();
    return std::move(graph_);
  }

 private:
  void check_operators() const {
    Unsupported unsupported;
    for (int i = 0; i < proto_->node_size(); ++i) {
      const onnx::NodeProto& node = proto_->node(i);
      if (is_default_domain(node.domain()) && find_op(node.op_type()) != nullptr) continue;
      const std::string& domain = is_default_domain(node.domain()) ? "ai.onnx" : node.domain();
      unsupported.add(fmt::format("{}: operator {} of domain {} is not supported",
                                  where_of(node, ids_[static_cast<std::size_t>(i)]), node.op_type(),
                                  domain));
    }
    unsupported.check();
  }

  void define(const std::string& name, ValueId value, const std::string& where) {
    if (name.empty()) fail(ErrorCode::kModelInvalid, "{} has no name", where);
    if (!values_.emplace(name, value).second) {
      fail(ErrorCode::kModelInvalid, "{}: '{}' is defined twice", where, name);
    }
  }

  void read_initializers() {
    for (onnx::TensorProto& tensor : *proto_->mutable_initializer()) {
      const std::string where = fmt::format("initializer '{}'", tensor.name());
      const ValueId value =
          graph_.add_constant(tensor.name(), decode_tensor(tensor, external_, where));
      define(tensor.name(), value, where);
    }
  }

  void read_inputs() {
    std::unordered_set<std::string_view> seen;
    for (const onnx::ValueInfoProto& input : proto_->input()) {
      const std::string where = fmt::format("input '{}'", input.name());
      if (!seen.insert(input.name()).second) {
        fail(ErrorCode::kModelInvalid, "{} is there twice", where);
      }
      if (values_.contains(input.name())) continue;  // an initializer
      if (!input.type().has_tensor_type()) {
        fail(ErrorCode::kUnsupported,
             "{} is no tensor; sequences, maps and optionals are not supported", where);
      }
      const onnx::TypeProto::Tensor& type = input.type().tensor_type();
      const ValueId id = graph_.add_value(input.name(), dtype_of(type.elem_type(), where));
      define(input.name(), id, where);
      graph_.inputs.push_back(id);
      if (type.has_shape()) read_shape(type.shape(), graph_.value(id), where);
    }
  }

  static void read_shape(const onnx::TensorShapeProto& shape, Value& value,
                         const std::string& where) {
    value.known_rank = true;
    std::int64_t bytes = static_cast<std::int64_t>(size_of(value.dtype));
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      const auto& dim = shape.dim(axis);
      const bool known = dim.has_dim_value() && dim.dim_value() >= 0;
      if (dim.has_dim_value() && dim.dim_value() < -1) {
        fail(ErrorCode::kModelInvalid, "{}: axis {} has extent {}", where, axis, dim.dim_value());
      }
      if (known && __builtin_mul_overflow(bytes, dim.dim_value(), &bytes)) {
        fail(ErrorCode::kModelInvalid, "{} has more than 2^63 bytes", where);
      }
      const bool named = dim.has_dim_param() && !dim.dim_param().empty() && dim.dim_param() != "?";
      value.shape.push_back(known ? dim.dim_value() : -1);
      value.symbols.push_back(known   ? ""
                              : named ? dim.dim_param()
                                      : fmt::format("{}.{}", value.name, axis));
    }
  }

  void declare_node_outputs() {
    for (int i = 0; i < proto_->node_size(); ++i) {
      onnx::NodeProto& node = *proto_->mutable_node(i);
      const std::string& id = ids_[static_cast<std::size_t>(i)];
      NodeReader::Source source{&node, id, where_of(node, id), {}, {}};
      for (const std::string& name : node.output()) {
        if (name.empty()) {
          source.outputs.push_back(kNoValue);
          continue;
        }
        const ValueId value = graph_.add_value(name);
        define(name, value, source.where);
        source.outputs.push_back(value);
        makers_.emplace(value, i);
      }
      drop_absent_end(source.outputs);
      sources_.push_back(std::move(source));
    }
  }

  void connect_nodes() {
    for (NodeReader::Source& source : sources_) {
      for (const std::string& name : source.proto->input()) {
        ValueId value = kNoValue;
        if (!name.empty()) {
          const auto found = values_.find(name);
          if (found == values_.end()) {
            fail(ErrorCode::kModelInvalid,
                 "{}: '{}' is neither an input, nor an initializer, nor made by any node",
                 source.where, name);
          }
          value = found->second;
          used_.insert(value);
        }
        source.inputs.push_back(value);
      }
      drop_absent_end(source.inputs);
    }
  }

  static void drop_absent_end(std::vector<ValueId>& values) {
    while (!values.empty() && values.back() == kNoValue) values.pop_back();
  }

  void read_outputs() {
    std::unordered_set<std::string_view> seen;
    for (const onnx::ValueInfoProto& output : proto_->output()) {
      const auto found = values_.find(output.name());
      if (found == values_.end()) {
        fail(ErrorCode::kModelInvalid, "output '{}' is made by no node", output.name());
      }
      if (!seen.insert(output.name()).second) {
        fail(ErrorCode::kModelInvalid, "output '{}' is there twice", output.name());
      }
      used_.insert(found->second);
      graph_.outputs.push_back({output.name(), found->second});
    }
    if (graph_.outputs.empty()) fail(ErrorCode::kModelInvalid, "the model has no outputs");
  }

  /// Indices of the nodes, each after the makers of its inputs; otherwise in the model's order.
  [[nodiscard]] std::vector<std::size_t> sorted() const {
    std::vector<int> waiting(sources_.size(), 0);
    std::vector<std::vector<std::size_t>> users(sources_.size());
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      for (const ValueId input : sources_[i].inputs) {
        const auto maker = makers_.find(input);
        if (maker == makers_.end()) continue;
        users[static_cast<std::size_t>(maker->second)].push_back(i);
        ++waiting[i];
      }
      if (waiting[i] == 0) ready.push(i);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const std::size_t user : users[order.back()]) {
        if (--waiting[user] == 0) ready.push(user);
      }
    }
    if (order.size() != sources_.size()) {
      const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](int n) { return n > 0; });
      fail(ErrorCode::kModelInvalid,
           "{} needs its own result: it is part of a cycle, or behind one",
           sources_[static_cast<std::size_t>(stuck - waiting.begin())].where);
    }
    return order;
  }

  void read_nodes() {
    Unsupported unsupported;
    for (const std::size_t i : sorted()) {
      try {
        read_node(sources_[i]);
      } catch (const Exception& exception) {
        if (exception.error().code != ErrorCode::kUnsupported) throw;
        unsupported.add(exception.error().message);
      }
    }
    unsupported.check();
  }

  void read_node(NodeReader::Source& source) {
    const OpRow& row = *find_op(source.proto->op_type());
    NodeReader node(graph_, source, opset_, used_, external_);
    if (opset_ < row.since) {
      node.invalid("the operator is there from opset {} on, but the model is written for opset {}",
                   row.since, opset_);
    }
    if (opset_ > row.until) {
      node.invalid("the operator is there up to opset {}, but the model is written for opset {}",
                   row.until, opset_);
    }
    node.expect_inputs(static_cast<std::size_t>(row.min_inputs),
                       static_cast<std::size_t>(row.max_inputs));
    if (!node.has_output(0) || node.output_count() > static_cast<std::size_t>(row.max_outputs)) {
      node.invalid("has {} outputs, expected {}", node.output_count(),
                   row.max_outputs == 1 ? "1" : fmt::format("1 to {}", row.max_outputs));
    }
    row.read(node);
    node.attributes.finish();
  }

  onnx::ModelProto* model_;
  onnx::GraphProto* proto_;
  ExternalData external_;
  std::vector<std::string> ids_;  // of the nodes, by index
  int opset_ = 0;

  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_map<ValueId, int> makers_;  // index of the node that makes a value
  std::unordered_set<ValueId> used_;
  std::vector<NodeReader::Source> sources_;
};

DeclaredTensor declared(const onnx::ValueInfoProto& value, const char* what) {
  const std::string where = fmt::format("{} '{}'", what, value.name());
  if (!value.type().has_tensor_type()) {
    fail(ErrorCode::kUnsupported,
         "{} is no tensor; sequences, maps and optionals are not supported", where);
  }
  const onnx::TypeProto::Tensor& type = value.type().tensor_type();
  DeclaredTensor result{value.name(), dtype_of(type.elem_type(), where), type.has_shape(), {}, {}};
  for (const auto& dim : type.shape().dim()) {
    const bool known = dim.has_dim_value() && dim.dim_value() >= 0;
    result.shape.push_back(known ? dim.dim_value() : -1);
    result.symbols.push_back(known || dim.dim_param() == "?" ? "" : dim.dim_param());
  }
  return result;
}

}  // namespace
}  // namespace model

Graph read_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder) {
  onnx::ModelProto proto = model::parse(bytes);
  model::check_header(proto);
  return model::GraphReader(proto, folder).read();
}

ModelInfo read_model_info(std::span<const std::byte> bytes) {
  const onnx::ModelProto proto = model::parse(bytes);
  model::check_header(proto);
  const onnx::GraphProto& graph = proto.graph();
  std::unordered_set<std::string_view> initializers;
  for (const onnx::TensorProto& tensor : graph.initializer()) initializers.insert(tensor.name());
  ModelInfo info{
      graph.name(), proto.producer_name(), proto.doc_string(), proto.model_version(), {}, {}, {}};
  for (const auto& entry : proto.metadata_props()) info.metadata[entry.key()] = entry.value();
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (initializers.contains(input.name())) continue;
    info.inputs.push_back(model::declared(input, "input"));
    DeclaredTensor& added = info.inputs.back();
    for (std::size_t axis = 0; axis < added.shape.size(); ++axis) {
      if (added.shape[axis] < 0 && added.symbols[axis].empty())
        added.symbols[axis] = fmt::format("{}.{}", added.name, axis);
    }
  }
  for (const onnx::ValueInfoProto& output : graph.output())
    info.outputs.push_back(model::declared(output, "output"));
  return info;
}

Graph read_onnx(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file, ErrorCode::kModelInvalid);
  try {
    return read_onnx(mapped->bytes(), file.parent_path());
  } catch (const Exception& exception) {
    fail(exception.error().code, "'{}': {}", file.string(), exception.error().message);
  }
}

}  // namespace braze
