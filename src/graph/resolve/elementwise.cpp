// Unary, Clip, Binary, Where, Cast, Identity.
#include <limits>

#include "graph/resolve/resolver.hpp"

namespace braze::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double bound(const Resolver& node, std::size_t i, double absent) {
  const auto values = node.doubles(i);
  if (!values) return absent;
  if (values->size() != 1) node.in().invalid("bound '{}' is not a scalar", node.in().value(i).name);
  return values->front();
}

}  // namespace

Attributes resolve_op(Unary op, Resolver& /*node*/) { return op; }
Attributes resolve_op(Where op, Resolver& /*node*/) { return op; }
Attributes resolve_op(Cast op, Resolver& /*node*/) { return op; }
Attributes resolve_op(Identity op, Resolver& /*node*/) { return op; }

/// Clip(x, min, max) = min(max(x, min), max)
Attributes resolve_op(Clip /*op*/, Resolver& node) {
  const bool fixed = (!node.has(1) || node.is_constant(1)) && (!node.has(2) || node.is_constant(2));
  if (fixed) {
    const Unary clip{UnaryFn::kClip, bound(node, 1, -kInfinity), bound(node, 2, kInfinity)};
    const bool bounded = node.has(1) || node.has(2);
    node.drop_inputs(1);
    if (!bounded) return Identity{};
    return clip;
  }
  for (const std::size_t i : {1U, 2U}) {
    if (node.has(i) && element_count(node.shape(i)) != 1) {
      node.in().invalid("bound '{}' has shape {}, expected a scalar", node.in().value(i).name,
                        to_string(node.shape(i)));
    }
  }
  const ValueId max = node.has(2) ? node.input(2) : kNoValue;
  if (!node.has(1)) {
    node.set_input(1, max);
    node.drop_inputs(2);
    return Binary{BinaryFn::kMin};
  }
  node.drop_inputs(2);
  if (max == kNoValue) return Binary{BinaryFn::kMax};
  node.set_input(0, node.before(Binary{BinaryFn::kMax}, {node.input(0), node.input(1)}));
  node.set_input(1, max);
  return Binary{BinaryFn::kMin};
}

/// Both operands have one dtype once resolved. Only Pow may mix them in a model: x^y has x's dtype.
Attributes resolve_op(Binary op, Resolver& node) {
  const DType a = node.dtype(0);
  const DType b = node.dtype(1);
  if (op.fn != BinaryFn::kPow || a == b) return op;
  if (is_float(a) || is_integer(b)) {
    node.set_input(1, node.before(Cast{a}, {node.input(1)}));
    return op;
  }
  const ValueId base = node.before(Cast{DType::kFloat64}, {node.input(0)});
  const ValueId exponent = node.before(Cast{DType::kFloat64}, {node.input(1)});
  node.set_input(0, node.before(op, {base, exponent}));
  node.drop_inputs(1);
  return Cast{a};
}

}  // namespace braze::graph
