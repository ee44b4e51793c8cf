// QuantizeLinear and DequantizeLinear: one scale for the tensor, or one per element of an axis.
#include "model/dtype.hpp"
#include "model/ops/readers.hpp"

namespace braze::model {

void read_quantize_linear(NodeReader& node) {
  node.attributes.only("block_size", 0);
  node.attributes.only("precision", 0);
  node.attributes.only("saturate", 1);  // has a meaning for float8 only
  Quantize op;
  op.axis = node.attributes.integer("axis", 1);
  if (const std::int64_t to = node.attributes.integer("output_dtype", 0); to != 0) {
    op.to = dtype_of(to, fmt::format("{}, attribute 'output_dtype'", node.where()));
    if (node.input(2) != kNoValue && node.dtype(2) != op.to) {
      node.invalid("output_dtype is {}, but the zero point is {}", to_string(op.to),
                   to_string(node.dtype(2)));
    }
  }
  node.emit(op);
}

/// The result has the scale's dtype.
void read_dequantize_linear(NodeReader& node) {
  node.attributes.only("block_size", 0);
  if (const std::int64_t to = node.attributes.integer("output_dtype", 0); to != 0) {
    const DType dtype = dtype_of(to, fmt::format("{}, attribute 'output_dtype'", node.where()));
    if (dtype != node.dtype(1)) {
      node.unsupported("output_dtype is {}, but the scale is {}", to_string(dtype),
                       to_string(node.dtype(1)));
    }
  }
  node.emit(Dequantize{node.attributes.integer("axis", 1)});
}

}  // namespace braze::model
