#include "graph/interpret/call.hpp"

#include <cstring>

#include "graph/shape.hpp"

namespace braze::graph {

Call::Call(const Graph& graph, const Node& node, std::span<const Tensor> inputs)
    : graph_(&graph), node_(&node), inputs_(inputs) {
  const std::vector<TensorType> types = infer(graph, node);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool wanted = node.output(i) != kNoValue;
    outputs_.push_back(wanted ? Tensor::make(types[i].dtype, types[i].shape) : Tensor());
  }
}

Ints dense_strides(const Shape& shape) {
  Ints strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Ints broadcast_strides(const Shape& shape, const Shape& output) {
  const Ints dense = dense_strides(shape);
  Ints strides(output.size(), 0);
  const std::size_t offset = output.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) strides[offset + i] = shape[i] == 1 ? 0 : dense[i];
  return strides;
}

Ints steps(std::int64_t count, std::int64_t stride) {
  Ints table(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int64_t>(i) * stride;
  return table;
}

namespace {

template <std::size_t kBytes>
void copy_axis(const std::vector<Ints>& tables, std::size_t axis, std::int64_t offset,
               const std::byte* from, std::byte*& to, const std::byte* fill) {
  if (axis + 1 < tables.size()) {
    for (const std::int64_t step : tables[axis])
      copy_axis<kBytes>(tables, axis + 1, offset + step, from, to, fill);
    return;
  }
  for (const std::int64_t step : tables[axis]) {
    const std::int64_t at = offset + step;
    std::memcpy(to, at < 0 ? fill : from + static_cast<std::size_t>(at) * kBytes, kBytes);
    to += kBytes;
  }
}

}  // namespace

void copy_elements(const Tensor& from, Tensor& to, const std::vector<Ints>& tables,
                   const Tensor& fill) {
  std::size_t count = 1;
  for (const Ints& table : tables) count *= table.size();
  ensure(count == static_cast<std::size_t>(to.count()),
         "the tables name each element of the output");
  if (count == 0) return;
  const auto* source = static_cast<const std::byte*>(from.data());
  const auto* filler = static_cast<const std::byte*>(fill.data());
  auto* target = static_cast<std::byte*>(to.data());
  const std::vector<Ints> scalar = {{0}};
  const std::vector<Ints>& axes = tables.empty() ? scalar : tables;
  switch (size_of(to.dtype())) {
    case 1:
      return copy_axis<1>(axes, 0, 0, source, target, filler);
    case 2:
      return copy_axis<2>(axes, 0, 0, source, target, filler);
    case 4:
      return copy_axis<4>(axes, 0, 0, source, target, filler);
    default:
      return copy_axis<8>(axes, 0, 0, source, target, filler);
  }
}

}  // namespace braze::graph
