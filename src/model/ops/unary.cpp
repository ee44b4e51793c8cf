// Element-wise operators with one operand: activations with parameters, Clip, Cast, Identity,
// Dropout.
#include <limits>

#include "model/dtype.hpp"
#include "model/ops/readers.hpp"

namespace braze::model {

void read_leaky_relu(NodeReader& node) {
  node.emit(Unary{UnaryFn::kLeakyRelu, node.attributes.real("alpha", 0.01F), 0});
}

void read_elu(NodeReader& node) {
  node.emit(Unary{UnaryFn::kElu, node.attributes.real("alpha", 1), 0});
}

void read_selu(NodeReader& node) {
  const double alpha = node.attributes.real("alpha", 1.67326319217681884765625F);
  const double gamma = node.attributes.real("gamma", 1.05070102214813232421875F);
  node.emit(Unary{UnaryFn::kSelu, alpha, gamma});
}

void read_celu(NodeReader& node) {
  node.emit(Unary{UnaryFn::kCelu, node.attributes.real("alpha", 1), 0});
}

void read_thresholded_relu(NodeReader& node) {
  node.emit(Unary{UnaryFn::kThresholdedRelu, node.attributes.real("alpha", 1), 0});
}

void read_hard_sigmoid(NodeReader& node) {
  const double alpha = node.attributes.real("alpha", 0.2F);
  const double beta = node.attributes.real("beta", 0.5F);
  node.emit(Unary{UnaryFn::kHardSigmoid, alpha, beta});
}

void read_gelu(NodeReader& node) {
  const UnaryFn fn = node.attributes.choice<UnaryFn>(
      "approximate", "none", {{"none", UnaryFn::kGelu}, {"tanh", UnaryFn::kGeluTanh}});
  node.emit(Unary{fn, 0, 0});
}

/// The bounds are attributes before opset 11, inputs since.
void read_clip(NodeReader& node) {
  if (node.opset() >= 11) return node.emit(Clip{});
  node.expect_inputs(1, 1);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const double low = node.attributes.real("min", -kInfinity);
  const double high = node.attributes.real("max", kInfinity);
  node.emit(Unary{UnaryFn::kClip, low, high});
}

void read_cast(NodeReader& node) {
  node.attributes.only("saturate", 1);  // has a meaning for float8 only
  const DType to =
      dtype_of(node.attributes.integer("to"), fmt::format("{}, attribute 'to'", node.where()));
  node.emit(Cast{to});
}

void read_cast_like(NodeReader& node) {
  node.attributes.only("saturate", 1);
  node.emit(Cast{node.dtype(1)}, {node.input(0)});
}

void read_identity(NodeReader& node) { node.emit(Identity{}); }

/// Inference: y = x, and the mask is true everywhere.
void read_dropout(NodeReader& node) {
  node.attributes.integer("seed", 0);
  if (node.opset() < 12) node.attributes.real("ratio", 0.5F);
  if (node.input(2) != kNoValue) {
    const Tensor* training = node.constant(2);
    const bool off = training != nullptr && training->dtype() == DType::kBool &&
                     training->count() == 1 && *training->as<bool>() == false;
    if (!off) node.unsupported("training_mode is not a constant false");
  }
  if (node.output_is_read(1)) {
    if (node.opset() < 10) node.unsupported("the mask is used");
    Tensor yes = Tensor::make(DType::kBool, {1});
    *yes.as<bool>() = true;
    const ValueId shape = node.emit_part(ShapeOf{}, {node.input(0)});
    node.emit(ConstantOfShape{yes}, {shape}, {node.output(1)});
  }
  node.emit_first(Identity{}, {node.input(0)});
}

}  // namespace braze::model
