#include "graph/infer/infer.hpp"

#include <algorithm>

namespace braze {

Shape broadcast_shape(const Shape& a, const Shape& b, const std::string& where) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& extent = result[offset + i];
    if (extent == 1) {
      extent = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != extent) {
      fail(ErrorCode::kModelInvalid, "{}: shapes {} and {} do not broadcast", where, to_string(a),
           to_string(b));
    }
  }
  return result;
}

std::vector<TensorType> infer(const Graph& graph, const Node& node) {
  const graph::NodeView view(graph, node);
  std::vector<TensorType> types =
      std::visit([&view](const auto& op) { return infer_op(op, view); }, node.op);
  if (node.outputs.size() > types.size()) {
    view.invalid("has {} outputs, expected at most {}", node.outputs.size(), types.size());
  }
  types.resize(node.outputs.size());
  for (const TensorType& type : types)
    element_count(type.shape);  // refuses more elements than 63 bits count
  return types;
}

void set_types(Graph& graph, NodeId id) {
  const std::vector<TensorType> types = infer(graph, graph.node(id));
  for (std::size_t i = 0; i < types.size(); ++i) {
    const ValueId output = graph.node(id).output(i);
    if (output == kNoValue) continue;
    Value& value = graph.value(output);
    value.dtype = types[i].dtype;
    value.shape = types[i].shape;
    value.known_rank = true;
  }
}

namespace graph {

std::int64_t NodeView::axis(std::int64_t axis, std::int64_t rank) const {
  if (axis < -rank || axis >= rank)
    invalid("axis {} is outside of the {} axes of its input", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

void NodeView::expect_vector(std::size_t i, const char* what, std::int64_t extent) const {
  if (!has(i) || shape(i) == Shape{extent}) return;
  invalid("{} '{}' has shape {}, expected [{}]", what, value(i).name, to_string(shape(i)), extent);
}

void NodeView::expect_same_dtype(std::size_t i, const char* what) const {
  if (!has(i) || dtype(i) == dtype(0)) return;
  invalid("{} '{}' is {}, expected {} as '{}' is", what, value(i).name, to_string(dtype(i)),
          to_string(dtype(0)), value(0).name);
}

const Tensor& NodeView::constant(std::size_t i) const {
  const Value& input = value(i);
  if (!input.is_constant()) {
    const ValueId output = node_->output();
    unsupported("the shape of '{}' depends on the values of input '{}', which are not constant",
                output == kNoValue ? "" : graph_->value(output).name, input.name);
  }
  return *input.constant;
}

}  // namespace graph
}  // namespace braze
