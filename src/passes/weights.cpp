#include "passes/weights.hpp"

#include <utility>

#include "passes/match.hpp"

namespace braze {

bool has_weights(const Node& node) {
  if (const auto* gemm = node.as<Gemm>()) return !gemm->trans_a;
  return node.kind() == OpKind::kConv || node.kind() == OpKind::kConvTranspose;
}

WeightMap::WeightMap(const Node& node, const Shape& weights) {
  const std::int64_t rows = weights[0];
  std::int64_t group = 1;
  rows_are_outputs_ = true;
  if (const auto* conv = node.as<Conv>()) group = conv->group;
  if (const auto* conv = node.as<ConvTranspose>()) {
    group = conv->group;
    rows_are_outputs_ = false;
  }
  if (const auto* gemm = node.as<Gemm>()) rows_are_outputs_ = gemm->trans_b;
  rows_ = static_cast<std::size_t>(rows);
  rows_per_group_ = static_cast<std::size_t>(rows / group);
  columns_ = static_cast<std::size_t>(weights[1]);
  taps_ = 1;
  for (std::size_t i = 2; i < weights.size(); ++i) taps_ *= static_cast<std::size_t>(weights[i]);
}

std::optional<std::vector<double>> bias_of(const Graph& graph, const Node& node,
                                           std::int64_t channels) {
  const ValueId bias = node.input(2);
  if (bias == kNoValue) return std::vector<double>(static_cast<std::size_t>(channels), 0);
  if (const auto* gemm = node.as<Gemm>()) {
    auto values = channel_constant(graph, bias, graph.value(node.output()).shape);
    if (values) {
      for (double& value : *values) value *= gemm->beta;
    }
    return values;
  }
  if (!graph.value(bias).is_constant()) return std::nullopt;
  return load<double>(*graph.value(bias).constant);
}

void set_weights(Graph& graph, NodeId node, Tensor weights) {
  graph.node(node).inputs[1] =
      graph.add_constant(graph.node(node).id + "/weights", std::move(weights));
  graph.touch();
}

void set_bias(Graph& graph, NodeId node, Tensor bias) {
  const ValueId value = graph.add_constant(graph.node(node).id + "/bias", std::move(bias));
  Node& changed = graph.node(node);
  changed.inputs.resize(3, kNoValue);
  changed.inputs[2] = value;
  if (auto* gemm = changed.as<Gemm>()) gemm->beta = 1;
  graph.touch();
}

}  // namespace braze
