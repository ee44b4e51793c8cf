// Operators that rename axes, and those whose result is a shape or made from one.
#include "model/ops/readers.hpp"

namespace braze::model {
namespace {

/// The axes are an attribute before opset 13, an input since.
Ints read_axes(NodeReader& node) {
  if (node.opset() >= 13) return {};
  node.expect_inputs(1, 1);
  return node.attributes.integers("axes");
}

}  // namespace

void read_reshape(NodeReader& node) {
  Reshape op;
  if (node.opset() >= 14) op.allow_zero = node.attributes.flag("allowzero", false);
  node.emit(std::move(op));
}

void read_flatten(NodeReader& node) { node.emit(Flatten{node.attributes.integer("axis", 1)}); }
void read_squeeze(NodeReader& node) { node.emit(Squeeze{read_axes(node)}); }

void read_unsqueeze(NodeReader& node) {
  if (node.opset() >= 13) node.expect_inputs(2, 2);
  if (node.opset() < 13 && !node.attributes.has("axes")) node.invalid("attribute 'axes' is absent");
  node.emit(Unsqueeze{read_axes(node)});
}

void read_shape(NodeReader& node) {
  ShapeOf op;
  if (node.opset() >= 15) {
    op.start = node.attributes.integer("start", op.start);
    op.end = node.attributes.integer("end", op.end);
  }
  node.emit(op);
}

void read_size(NodeReader& node) { node.emit(SizeOf{}); }

void read_constant_of_shape(NodeReader& node) {
  ConstantOfShape op;
  op.value = node.attributes.tensor("value").value_or(Tensor::make(DType::kFloat32, {1}));
  if (op.value.count() != 1) {
    node.invalid("attribute 'value' has shape {}, expected one element",
                 to_string(op.value.shape()));
  }
  node.emit(std::move(op));
}

void read_range(NodeReader& node) { node.emit(Range{}); }

}  // namespace braze::model
