// Operators that only rename axes, all spelled Reshape once resolved, and those whose result is a
// shape.
#include <algorithm>

#include "graph/elements.hpp"
#include "graph/resolve/resolver.hpp"

namespace braze::graph {

/// dims: 0 copies x's extent (unless allow_zero), one -1 takes what is left.
Attributes resolve_op(Reshape op, Resolver& node) {
  if (const auto dims = node.ints(1)) op.dims = *dims;
  node.drop_inputs(1);
  const NodeView in = node.in();
  const Shape x = node.shape(0);
  const Ints asked = op.dims;
  auto open = op.dims.end();
  Shape known;
  for (auto dim = op.dims.begin(); dim != op.dims.end(); ++dim) {
    const auto i = static_cast<std::size_t>(dim - op.dims.begin());
    if (*dim == 0 && !op.allow_zero) {
      if (i >= x.size())
        in.invalid("shape {} copies axis {} of x, which has shape {}", to_string(asked), i,
                   to_string(x));
      *dim = x[i];
    }
    if (*dim < -1 || (*dim == -1 && open != op.dims.end()))
      in.invalid("{} is not a shape", to_string(asked));
    if (*dim == -1) {
      open = dim;
    } else {
      known.push_back(*dim);
    }
  }
  const std::int64_t count = element_count(x);
  const std::int64_t rest = element_count(known);
  if (open != op.dims.end()) {
    if (rest == 0 || count % rest != 0) {
      in.invalid("x of shape {} does not fit into shape {}", to_string(x), to_string(asked));
    }
    *open = count / rest;
  }
  op.allow_zero = true;  // every extent is what it says
  return op;
}

/// [prod of the axes before `axis`, prod of the others]
Attributes resolve_op(Flatten op, Resolver& node) {
  const Shape x = node.shape(0);
  const auto rank = std::ssize(x);
  const std::int64_t axis = op.axis == rank ? rank : node.in().axis(op.axis, rank);
  return Reshape{
      {element_count({x.begin(), x.begin() + axis}), element_count({x.begin() + axis, x.end()})},
      true};
}

Attributes resolve_op(Squeeze op, Resolver& node) {
  if (const auto axes = node.ints(1)) op.axes = *axes;
  node.drop_inputs(1);
  const Shape x = node.shape(0);
  const Ints axes = normal_axes(node.in(), op.axes, std::ssize(x));
  Ints dims;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool named = std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i));
    if (named && x[i] != 1) node.in().invalid("axis {} of x {} is not 1", i, to_string(x));
    const bool removed = axes.empty() ? x[i] == 1 : named;
    if (!removed) dims.push_back(x[i]);
  }
  return Reshape{dims, true};
}

Attributes resolve_op(Unsqueeze op, Resolver& node) {
  if (const auto axes = node.ints(1)) op.axes = *axes;
  node.drop_inputs(1);
  Ints dims = node.shape(0);
  const auto rank = std::ssize(dims) + std::ssize(op.axes);
  for (const std::int64_t axis : normal_axes(node.in(), op.axes, rank))
    dims.insert(dims.begin() + axis, 1);
  return Reshape{dims, true};
}

/// start and end are clamped into [0, rank] after negative ones count from the end.
Attributes resolve_op(ShapeOf op, Resolver& node) {
  const Shape x = node.shape(0);
  const auto rank = std::ssize(x);
  const auto position = [rank](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = position(op.start);
  const std::int64_t end = std::max(position(op.end), start);
  node.become_constant(
      make_tensor(DType::kInt64, {end - start}, Ints(x.begin() + start, x.begin() + end)));
  return op;
}

Attributes resolve_op(SizeOf op, Resolver& node) {
  node.become_constant(make_tensor(DType::kInt64, {}, Ints{element_count(node.shape(0))}));
  return op;
}

Attributes resolve_op(ConstantOfShape op, Resolver& node) {
  if (!op.value.defined()) op.value = Tensor::make(DType::kFloat32, {1});
  if (op.value.count() != 1)
    node.in().invalid("value has shape {}, expected one element", to_string(op.value.shape()));
  return op;
}

Attributes resolve_op(Range op, Resolver& /*node*/) { return op; }

}  // namespace braze::graph
