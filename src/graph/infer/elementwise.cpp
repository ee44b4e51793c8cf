// Unary, Binary, Where, Cast, Identity.
#include "graph/infer/infer.hpp"

namespace braze::graph {
namespace {

bool takes(UnaryFn fn, DType dtype) {
  switch (fn) {
    case UnaryFn::kNot:
      return dtype == DType::kBool;
    case UnaryFn::kRelu:
    case UnaryFn::kClip:
    case UnaryFn::kAbs:
    case UnaryFn::kNeg:
    case UnaryFn::kSign:
      return dtype != DType::kBool;
    default:
      return is_float(dtype);
  }
}

bool takes(BinaryFn fn, DType dtype) {
  switch (fn) {
    case BinaryFn::kAnd:
    case BinaryFn::kOr:
    case BinaryFn::kXor:
      return dtype == DType::kBool;
    case BinaryFn::kEqual:
      return true;
    default:
      return dtype != DType::kBool;
  }
}

bool compares(BinaryFn fn) { return fn >= BinaryFn::kEqual; }

}  // namespace

Types infer_op(const Unary& op, const NodeView& in) {
  if (!takes(op.fn, in.dtype(0))) {
    in.invalid("{} does not take '{}' of dtype {}", to_string(op.fn), in.value(0).name,
               to_string(in.dtype(0)));
  }
  return {{op.fn == UnaryFn::kIsNaN ? DType::kBool : in.dtype(0), in.shape(0)}};
}

Types infer_op(const Binary& op, const NodeView& in) {
  in.expect_same_dtype(1, "the second operand");
  if (!takes(op.fn, in.dtype(0))) {
    in.invalid("{} does not take '{}' of dtype {}", to_string(op.fn), in.value(0).name,
               to_string(in.dtype(0)));
  }
  Shape shape = broadcast_shape(in.shape(0), in.shape(1), in.where());
  if (op.fn == BinaryFn::kPRelu && shape != in.shape(0)) {
    in.invalid("slope '{}' of shape {} does not broadcast to x of shape {}", in.value(1).name,
               to_string(in.shape(1)), to_string(in.shape(0)));
  }
  return {{compares(op.fn) ? DType::kBool : in.dtype(0), std::move(shape)}};
}

Types infer_op(const Where& /*op*/, const NodeView& in) {
  if (in.dtype(0) != DType::kBool) {
    in.invalid("condition '{}' is {}, expected bool", in.value(0).name, to_string(in.dtype(0)));
  }
  if (in.dtype(1) != in.dtype(2)) {
    in.invalid("'{}' is {}, but '{}' is {}", in.value(1).name, to_string(in.dtype(1)),
               in.value(2).name, to_string(in.dtype(2)));
  }
  const Shape values = broadcast_shape(in.shape(1), in.shape(2), in.where());
  return {{in.dtype(1), broadcast_shape(in.shape(0), values, in.where())}};
}

Types infer_op(const Cast& op, const NodeView& in) { return {{op.to, in.shape(0)}}; }

Types infer_op(const Identity& /*op*/, const NodeView& in) { return {{in.dtype(0), in.shape(0)}}; }

}  // namespace braze::graph
