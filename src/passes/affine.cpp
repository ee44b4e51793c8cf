#include "passes/affine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/elements.hpp"
#include "passes/edit.hpp"
#include "passes/match.hpp"

namespace braze {
namespace {

using Channels = std::vector<double>;

bool finite(const Channels& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

bool all_equal(const Channels& values, double wanted) {
  return std::all_of(values.begin(), values.end(),
                     [wanted](double value) { return value == wanted; });
}

std::optional<ChannelAffine> affine_of_batch_norm(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.input(0)).shape;
  if (shape.size() < 2) return std::nullopt;
  Channels parameters[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const Value& value = graph.value(node.input(i + 1));
    if (!value.is_constant()) return std::nullopt;
    parameters[i] = load<double>(*value.constant);
  }
  const auto& [gamma, beta, mean, variance] = parameters;
  ChannelAffine affine{node.input(0), gamma, beta};
  for (std::size_t c = 0; c < gamma.size(); ++c) {
    affine.scale[c] = gamma[c] / std::sqrt(variance[c] + node.as<BatchNorm>()->epsilon);
    affine.shift[c] = beta[c] - mean[c] * affine.scale[c];
  }
  return affine;
}

std::optional<ChannelAffine> affine_of_binary(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.output()).shape;
  const bool swapped = graph.value(node.input(0)).is_constant();
  const ValueId x = node.input(swapped ? 1 : 0);
  const std::optional<Channels> c = channel_constant(graph, node.input(swapped ? 0 : 1), shape);
  if (!c || graph.value(x).is_constant() || graph.value(x).shape != shape) return std::nullopt;
  ChannelAffine affine{x, Channels(c->size(), 1), Channels(c->size(), 0)};
  switch (node.as<Binary>()->fn) {
    case BinaryFn::kAdd:
      affine.shift = *c;
      return affine;
    case BinaryFn::kSub:
      affine.shift = *c;
      for (double& value : swapped ? affine.scale : affine.shift) value = -value;
      return affine;
    case BinaryFn::kMul:
      affine.scale = *c;
      return affine;
    case BinaryFn::kDiv:
      if (swapped) return std::nullopt;
      for (std::size_t i = 0; i < c->size(); ++i) affine.scale[i] = 1 / (*c)[i];
      return finite(*c) ? std::optional(affine) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<ChannelAffine> affine_of_negation(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.output()).shape;
  if (shape.size() < 2 || node.as<Unary>()->fn != UnaryFn::kNeg) return std::nullopt;
  const auto channels = static_cast<std::size_t>(shape[1]);
  return ChannelAffine{node.input(0), Channels(channels, -1), Channels(channels, 0)};
}

/// One value per channel as an operand of a node on values of this shape; a scalar if all are
/// equal.
ValueId add_operand(Graph& graph, const std::string& name, const Channels& values, DType dtype,
                    const Shape& shape) {
  if (all_equal(values, values.front()))
    return graph.add_constant(name, make_tensor<double>(dtype, {}, {values[0]}));
  Shape operand(shape.size(), 1);
  operand[1] = shape[1];
  return graph.add_constant(name, make_tensor(dtype, std::move(operand), values));
}

}  // namespace

bool ChannelAffine::scales() const { return !all_equal(scale, 1); }
bool ChannelAffine::shifts() const { return !all_equal(shift, 0); }

std::optional<ChannelAffine> affine_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!is_float(graph, node.output())) return std::nullopt;
  std::optional<ChannelAffine> affine;
  if (node.kind() == OpKind::kBatchNorm) affine = affine_of_batch_norm(graph, node);
  if (node.kind() == OpKind::kBinary) affine = affine_of_binary(graph, node);
  if (node.kind() == OpKind::kUnary) affine = affine_of_negation(graph, node);
  if (!affine || affine->scale.empty() || !finite(affine->scale) || !finite(affine->shift))
    return std::nullopt;
  return affine;
}

ChannelAffine compose(const ChannelAffine& outer, const ChannelAffine& inner) {
  ChannelAffine both = inner;
  for (std::size_t c = 0; c < both.scale.size(); ++c) {
    both.scale[c] = outer.scale[c] * inner.scale[c];
    both.shift[c] = outer.scale[c] * inner.shift[c] + outer.shift[c];
  }
  return both;
}

bool fits(const ChannelAffine& affine, DType dtype) {
  const Shape shape = {static_cast<std::int64_t>(affine.scale.size())};
  return all_finite(make_tensor(dtype, shape, affine.scale)) &&
         all_finite(make_tensor(dtype, shape, affine.shift));
}

void become_affine(Graph& graph, NodeId node, const ChannelAffine& affine) {
  const DType dtype = graph.value(affine.x).dtype;
  const Shape shape = graph.value(affine.x).shape;
  const std::string id = graph.node(node).id;
  if (affine.node_count() == 0) return become(graph, node, Identity{}, {affine.x});
  ValueId x = affine.x;
  if (affine.scales()) {
    const ValueId scale = add_operand(graph, id + "/scale", affine.scale, dtype, shape);
    if (!affine.shifts()) return become(graph, node, Binary{BinaryFn::kMul}, {x, scale});
    x = insert(graph, Binary{BinaryFn::kMul}, {x, scale}, id + "/mul", graph.node(node).origins);
  }
  const ValueId shift = add_operand(graph, id + "/shift", affine.shift, dtype, shape);
  become(graph, node, Binary{BinaryFn::kAdd}, {x, shift});
}

}  // namespace braze
