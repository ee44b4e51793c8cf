// Element-wise operators with two operands or more.
#include "graph/elements.hpp"
#include "model/ops/readers.hpp"

namespace braze::model {
namespace {

/// f(f(a, b), c) of the first `count` inputs, of which none may be absent.
ValueId chain(NodeReader& node, BinaryFn fn, std::size_t count) {
  node.expect_inputs(node.inputs().size(), node.inputs().size());
  ValueId result = node.input(0);
  for (std::size_t i = 1; i < count; ++i) {
    result = node.emit_part(Binary{fn}, {result, node.input(i)});
  }
  return result;
}

void read_chain(NodeReader& node, BinaryFn fn) {
  const std::size_t last = node.inputs().size() - 1;
  if (last == 0) return node.emit(Identity{}, {node.input(0)});
  const ValueId rest = chain(node, fn, last);
  node.emit(Binary{fn}, {rest, node.input(last)});
}

}  // namespace

void read_min(NodeReader& node) { read_chain(node, BinaryFn::kMin); }
void read_max(NodeReader& node) { read_chain(node, BinaryFn::kMax); }
void read_sum(NodeReader& node) { read_chain(node, BinaryFn::kAdd); }

/// The sum of all, times 1 / their number.
void read_mean(NodeReader& node) {
  const std::size_t count = node.inputs().size();
  if (count == 1) return node.emit(Identity{}, {node.input(0)});
  const ValueId sum = chain(node, BinaryFn::kAdd, count);
  const std::vector<double> factor = {1.0 / static_cast<double>(count)};
  node.emit(Binary{BinaryFn::kMul},
            {sum, node.add_constant(make_tensor(node.dtype(0), {}, factor))});
}

void read_mod(NodeReader& node) {
  node.emit(Binary{node.attributes.flag("fmod", false) ? BinaryFn::kFMod : BinaryFn::kMod});
}

void read_where(NodeReader& node) { node.emit(Where{}); }

}  // namespace braze::model
