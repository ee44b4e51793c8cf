// Unary, Clip, Binary, Where, Cast, Identity to ONNX.
#include <cmath>
#include <iterator>

#include "model/dtype.hpp"
#include "model/node_writer.hpp"

namespace braze::model {
namespace {

/// ONNX's name of a function and of its parameters; no name where it has to be spelled out.
struct UnaryRow {
  UnaryFn fn;
  const char* name;
  const char* alpha = nullptr;
  const char* beta = nullptr;
};

constexpr UnaryRow kUnary[] = {
    {UnaryFn::kRelu, "Relu"},
    {UnaryFn::kLeakyRelu, "LeakyRelu", "alpha"},
    {UnaryFn::kClip, nullptr},
    {UnaryFn::kSigmoid, "Sigmoid"},
    {UnaryFn::kHardSigmoid, "HardSigmoid", "alpha", "beta"},
    {UnaryFn::kHardSwish, "HardSwish"},
    {UnaryFn::kSilu, nullptr},
    {UnaryFn::kMish, nullptr},
    {UnaryFn::kGelu, nullptr},
    {UnaryFn::kGeluTanh, nullptr},
    {UnaryFn::kTanh, "Tanh"},
    {UnaryFn::kElu, "Elu", "alpha"},
    {UnaryFn::kSelu, "Selu", "alpha", "gamma"},
    {UnaryFn::kCelu, "Celu", "alpha"},
    {UnaryFn::kSoftplus, "Softplus"},
    {UnaryFn::kSoftsign, "Softsign"},
    {UnaryFn::kThresholdedRelu, "ThresholdedRelu", "alpha"},
    {UnaryFn::kErf, "Erf"},
    {UnaryFn::kExp, "Exp"},
    {UnaryFn::kLog, "Log"},
    {UnaryFn::kSqrt, "Sqrt"},
    {UnaryFn::kAbs, "Abs"},
    {UnaryFn::kNeg, "Neg"},
    {UnaryFn::kReciprocal, "Reciprocal"},
    {UnaryFn::kFloor, "Floor"},
    {UnaryFn::kCeil, "Ceil"},
    {UnaryFn::kRound, "Round"},
    {UnaryFn::kSign, "Sign"},
    {UnaryFn::kSin, "Sin"},
    {UnaryFn::kCos, "Cos"},
    {UnaryFn::kNot, "Not"},
    {UnaryFn::kIsNaN, "IsNaN"},
};

constexpr const char* kBinary[] = {"Add",   "Sub",  "Mul",         "Div",     "Pow",
                                   "Mod",   "Mod",  "Min",         "Max",     "PRelu",
                                   "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
                                   "And",   "Or",   "Xor"};
static_assert(std::size(kBinary) == static_cast<std::size_t>(BinaryFn::kXor) + 1);

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kUnary); ++i) {
    if (static_cast<std::size_t>(kUnary[i].fn) != i) return false;
  }
  return std::size(kUnary) == static_cast<std::size_t>(UnaryFn::kIsNaN) + 1;
}
static_assert(in_order(), "one row per function, in the order of UnaryFn");

void write_clip(const Unary& op, NodeWriter& node) {
  const std::string low = std::isinf(op.alpha) && op.alpha < 0 ? "" : node.scalar(op.alpha);
  const std::string high = std::isinf(op.beta) && op.beta > 0 ? "" : node.scalar(op.beta);
  node.last("Clip", {node.input(0), low, high});
}

/// x / 2 * (1 + f), f = erf(x / sqrt(2)) or tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))
void write_gelu(NodeWriter& node, bool tanh) {
  const std::string x = node.input(0);
  std::string f;
  if (tanh) {
    const std::string square = node.part("Mul", {x, x});
    const std::string cube = node.part("Mul", {square, x});
    const std::string scaled = node.part("Mul", {cube, node.scalar(0.044715)});
    const std::string sum = node.part("Add", {x, scaled});
    f = node.part("Tanh", {node.part("Mul", {sum, node.scalar(std::sqrt(2 / M_PI))})});
  } else {
    f = node.part("Erf", {node.part("Mul", {x, node.scalar(std::sqrt(0.5))})});
  }
  const std::string half = node.part("Mul", {x, node.scalar(0.5)});
  node.last("Mul", {half, node.part("Add", {f, node.scalar(1)})});
}

}  // namespace

void write_op(const Unary& op, NodeWriter& node) {
  const std::string x = node.input(0);
  switch (op.fn) {
    case UnaryFn::kClip:
      return write_clip(op, node);
    case UnaryFn::kGelu:
      return write_gelu(node, false);
    case UnaryFn::kGeluTanh:
      return write_gelu(node, true);
    case UnaryFn::kSilu: {
      node.last("Mul", {x, node.part("Sigmoid", {x})});
      return;
    }
    case UnaryFn::kMish: {
      node.last("Mul", {x, node.part("Tanh", {node.part("Softplus", {x})})});
      return;
    }
    default:
      break;
  }
  const UnaryRow& row = kUnary[static_cast<std::size_t>(op.fn)];
  OnnxNode written = node.last(row.name);
  if (row.alpha != nullptr) written.set(row.alpha, op.alpha);
  if (row.beta != nullptr) written.set(row.beta, op.beta);
}

void write_op(const Binary& op, NodeWriter& node) {
  OnnxNode written = node.last(kBinary[static_cast<std::size_t>(op.fn)]);
  if (op.fn == BinaryFn::kFMod) written.set("fmod", true);
}

void write_op(const Where& /*op*/, NodeWriter& node) { node.last("Where"); }
void write_op(const Identity& /*op*/, NodeWriter& node) { node.last("Identity"); }
void write_op(const Cast& op, NodeWriter& node) {
  node.last("Cast").set("to", std::int64_t{onnx_type_of(op.to)});
}

}  // namespace braze::model
