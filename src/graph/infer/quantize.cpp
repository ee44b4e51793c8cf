// Quantize, Dequantize.
#include "graph/infer/infer.hpp"

namespace braze::graph {
namespace {

/// One scale for the tensor, or one per element of `axis`; the zero point has the scale's shape.
void check_scale(std::int64_t axis, const NodeView& in) {
  const Shape& scale = in.shape(1);
  if (scale.size() > 1)
    in.unsupported("scale has shape {}: blocked quantization is not supported", to_string(scale));
  if (!is_float(in.dtype(1)))
    in.invalid("the scale is {}, expected a float", to_string(in.dtype(1)));
  if (element_count(scale) != 1) {
    if (axis >= in.rank(0))
      in.invalid("axis {} is outside of x of shape {}", axis, to_string(in.shape(0)));
    in.expect_vector(1, "the scale", in.shape(0)[static_cast<std::size_t>(axis)]);
  }
  if (in.has(2) && element_count(in.shape(2)) != element_count(scale)) {
    in.invalid("the zero point has shape {}, but the scale has shape {}", to_string(in.shape(2)),
               to_string(scale));
  }
}

}  // namespace

Types infer_op(const Quantize& op, const NodeView& in) {
  check_scale(op.axis, in);
  const DType to = in.has(2) ? in.dtype(2) : op.to;
  if (!is_integer(to) || size_of(to) > 2) {
    in.invalid("the result would be {}, expected an integer of 8 or 16 bits", to_string(to));
  }
  return {{to, in.shape(0)}};
}

Types infer_op(const Dequantize& op, const NodeView& in) {
  check_scale(op.axis, in);
  in.expect_same_dtype(2, "the zero point");
  return {{in.dtype(1), in.shape(0)}};
}

}  // namespace braze::graph
