#include "passes/match.hpp"

#include <algorithm>
#include <cmath>

#include "graph/elements.hpp"

namespace braze {

std::optional<double> scalar_constant(const Graph& graph, ValueId id) {
  if (id == kNoValue || !graph.value(id).is_constant()) return std::nullopt;
  const Tensor& tensor = *graph.value(id).constant;
  if (tensor.count() != 1) return std::nullopt;
  return load<double>(tensor).front();
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kFloat32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

bool rounds_to(double value, double expected, DType dtype) {
  return std::abs(value - expected) <= 2 * unit_roundoff(dtype) * std::abs(expected);
}

bool all_finite(const Tensor& tensor) {
  return visit_storage(tensor.dtype(), [&tensor](auto zero) {
    const auto* data = tensor.as<decltype(zero)>();
    return std::all_of(data, data + tensor.count(),
                       [](auto element) { return std::isfinite(convert<double>(element)); });
  });
}

std::optional<std::vector<double>> channel_constant(const Graph& graph, ValueId id,
                                                    const Shape& output) {
  if (id == kNoValue || !graph.value(id).is_constant() || output.size() < 2) return std::nullopt;
  const Tensor& tensor = *graph.value(id).constant;
  const Shape& shape = tensor.shape();
  if (shape.size() > output.size()) return std::nullopt;
  const std::size_t offset = output.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool along_channels = offset + i == 1 && shape[i] == output[1];
    if (shape[i] != 1 && !along_channels) return std::nullopt;
  }
  std::vector<double> values = load<double>(tensor);
  if (values.size() == 1) values.assign(static_cast<std::size_t>(output[1]), values.front());
  return values;
}

NodeId sole_producer(const Graph& graph, ValueId id) {
  return id != kNoValue && graph.only_user(id) != kNoNode ? graph.producer(id) : kNoNode;
}

NodeId if_op(const Graph& graph, NodeId node, UnaryFn fn) {
  const auto* unary = node == kNoNode ? nullptr : graph.node(node).as<Unary>();
  return unary != nullptr && unary->fn == fn ? node : kNoNode;
}

NodeId if_op(const Graph& graph, NodeId node, BinaryFn fn) {
  const auto* binary = node == kNoNode ? nullptr : graph.node(node).as<Binary>();
  return binary != nullptr && binary->fn == fn ? node : kNoNode;
}

std::optional<ScalarOp> scalar_op(const Graph& graph, NodeId node, BinaryFn fn) {
  if (if_op(graph, node, fn) == kNoNode) return std::nullopt;
  const Node& binary = graph.node(node);
  const ValueId x = binary.input(0);
  const std::optional<double> c = scalar_constant(graph, binary.input(1));
  if (!c || graph.value(x).shape != graph.value(binary.output()).shape) return std::nullopt;
  return ScalarOp{x, *c};
}

ValueId other_operand(const Node& node, ValueId operand) {
  if (node.input(0) == operand) return node.input(1);
  return node.input(1) == operand ? node.input(0) : kNoValue;
}

bool is_unpadded(const Window& window) {
  const auto is_zero = [](std::int64_t pad) { return pad == 0; };
  return std::all_of(window.pads_begin.begin(), window.pads_begin.end(), is_zero) &&
         std::all_of(window.pads_end.begin(), window.pads_end.end(), is_zero);
}

bool pads_image_only(const Pad& pad) {
  const std::size_t rank = pad.pads.size() / 2;
  for (std::size_t i = 0; i < pad.pads.size(); ++i) {
    if (pad.pads[i] < 0 || (i % rank < 2 && pad.pads[i] != 0)) return false;
  }
  return true;
}

void add_pads(const Pad& pad, Window& window) {
  const std::size_t rank = pad.pads.size() / 2;
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    window.pads_begin[i] += pad.pads[i + 2];
    window.pads_end[i] += pad.pads[rank + i + 2];
  }
}

bool is_float(const Graph& graph, ValueId id) { return is_float(graph.value(id).dtype); }

}  // namespace braze
