// BatchNorm, InstanceNorm, Lrn, Softmax.
#include "graph/infer/infer.hpp"

namespace braze::graph {
namespace {

void expect_channels(const NodeView& in, std::initializer_list<const char*> names) {
  if (in.rank(0) < 2) in.invalid("x has shape {}, expected [N,C,...]", to_string(in.shape(0)));
  std::size_t i = 1;
  for (const char* name : names) {
    in.expect_vector(i, name, in.shape(0)[1]);
    if (!is_float(in.dtype(i)))
      in.invalid("{} is {}, expected a float", name, to_string(in.dtype(i)));
    ++i;
  }
}

}  // namespace

Types infer_op(const BatchNorm& /*op*/, const NodeView& in) {
  expect_channels(in, {"the scale", "the bias", "the mean", "the variance"});
  return {{in.dtype(0), in.shape(0)}};
}

Types infer_op(const InstanceNorm& /*op*/, const NodeView& in) {
  expect_channels(in, {"the scale", "the bias"});
  return {{in.dtype(0), in.shape(0)}};
}

Types infer_op(const Lrn& op, const NodeView& in) {
  if (in.rank(0) < 2) in.invalid("x has shape {}, expected [N,C,...]", to_string(in.shape(0)));
  if (op.size < 1) in.invalid("size is {}, expected at least 1", op.size);
  return {{in.dtype(0), in.shape(0)}};
}

Types infer_op(const Softmax& op, const NodeView& in) {
  ensure(!op.flatten && op.axis >= 0 && op.axis < in.rank(0),
         "a resolved Softmax has one axis of its input");
  return {{in.dtype(0), in.shape(0)}};
}

}  // namespace braze::graph
