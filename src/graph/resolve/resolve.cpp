#include "graph/elements.hpp"
#include "graph/interpret.hpp"
#include "graph/legality.hpp"
#include "graph/resolve/resolver.hpp"
#include "graph/shape.hpp"

namespace braze {
namespace {

/// Resolution may respell an operator with another one that is then resolved in turn.
void resolve_attributes(Graph& graph, NodeId id) {
  OpKind before{};
  do {
    before = graph.node(id).kind();
    const std::string wrong = graph::illegal(graph, graph.node(id), graph::Form::kRead);
    if (!wrong.empty()) graph::NodeView(graph, graph.node(id)).invalid("{}", wrong);
    graph::Resolver resolver(graph, id);
    Attributes op = graph.node(id).op;
    op = std::visit([&resolver](auto& read) { return resolve_op(std::move(read), resolver); }, op);
    if (graph.node(id).erased) return;
    graph.node(id).op = std::move(op);
  } while (graph.node(id).kind() != before);
}

bool grows(const Node& node) { return node.as<Expand>() != nullptr || node.as<Tile>() != nullptr; }

/// Evaluates a resolved node whose inputs are all constant.
void fold_constant(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.erased) return;
  std::vector<Tensor> inputs;
  for (const ValueId input : node.inputs) {
    if (input != kNoValue && !graph.value(input).is_constant()) return;
    inputs.push_back(input == kNoValue ? Tensor() : *graph.value(input).constant);
  }
  if (grows(node)) {
    const Value& result = graph.value(node.output());
    if (static_cast<std::size_t>(element_count(result.shape)) * size_of(result.dtype) >
        kFoldedBytes)
      return;
  }
  std::vector<Tensor> results = interpret_node(graph, node, inputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i] != kNoValue) graph.value(node.outputs[i]).constant = std::move(results[i]);
  }
  graph.fold(id, "constant");
}

void check_inputs(const Graph& graph) {
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    for (std::size_t axis = 0; axis < input.shape.size(); ++axis) {
      if (input.shape[axis] >= 0) continue;
      const bool named = axis < input.symbols.size() && !input.symbols[axis].empty();
      fail(ErrorCode::kUsage, "axis {} of input '{}' has no extent{}", axis, input.name,
           named ? fmt::format(": give one for '{}'", input.symbols[axis]) : "");
    }
  }
}

}  // namespace

void resolve(Graph& graph, NodeId id) {
  resolve_attributes(graph, id);
  if (!graph.node(id).erased) set_types(graph, id);
}

void resolve_graph(Graph& graph) {
  check_inputs(graph);
  for (const NodeId id : graph.order()) {
    const NodeId first_new = graph.node_count();
    resolve(graph, id);
    const NodeId end_new = graph.node_count();
    for (NodeId added = first_new; added < end_new; ++added) fold_constant(graph, added);
    fold_constant(graph, id);
  }
}

namespace graph {

std::optional<Ints> Resolver::ints(std::size_t i) const {
  if (!has(i)) return std::nullopt;
  const Tensor& tensor = in().constant(i);
  if (!is_integer(tensor.dtype())) {
    in().invalid("'{}' is {}, expected int64", in().value(i).name, to_string(tensor.dtype()));
  }
  return load<std::int64_t>(tensor);
}

std::optional<std::vector<double>> Resolver::doubles(std::size_t i) const {
  if (!has(i)) return std::nullopt;
  return load<double>(in().constant(i));
}

void Resolver::drop_inputs(std::size_t first) {
  std::vector<ValueId>& inputs = graph_->node(id_).inputs;
  if (inputs.size() > first) inputs.resize(first);
  graph_->touch();
}

void Resolver::set_input(std::size_t i, ValueId value) {
  graph_->node(id_).inputs[i] = value;
  graph_->touch();
}

std::string Resolver::next_id() {
  const std::string& base = graph_->node(id_).id;
  int count = 2;
  for (NodeId id = 0; id < graph_->node_count(); ++id) {
    if (graph_->node(id).id == fmt::format("{}/{}", base, count)) ++count, id = -1;
  }
  return fmt::format("{}/{}", base, count);
}

ValueId Resolver::before(Attributes op, std::vector<ValueId> inputs) {
  const std::string id = next_id();
  const ValueId output = graph_->add_value(id);
  const std::vector<std::string> origins = graph_->node(id_).origins;
  resolve(*graph_, graph_->add_node(std::move(op), std::move(inputs), {output}, id, origins));
  return output;
}

void Resolver::become_constant(Tensor tensor) {
  Value& output = graph_->value(graph_->node(id_).output());
  output.dtype = tensor.dtype();
  output.shape = tensor.shape();
  output.known_rank = true;
  output.constant = std::move(tensor);
  graph_->fold(id_, "constant");
}

}  // namespace graph
}  // namespace braze
