// MatMul, Gemm.
#include "graph/infer/infer.hpp"

namespace braze::graph {

Types infer_op(const MatMul& /*op*/, const NodeView& in) {
  in.expect_same_dtype(1, "b");
  Shape a = in.shape(0);
  Shape b = in.shape(1);
  if (a.empty() || b.empty())
    in.invalid("a has shape {} and b {}, expected at least one axis", to_string(a), to_string(b));
  const bool a_is_vector = a.size() == 1;
  const bool b_is_vector = b.size() == 1;
  if (a_is_vector) a.insert(a.begin(), 1);
  if (b_is_vector) b.push_back(1);
  const std::int64_t rows = a[a.size() - 2];
  const std::int64_t columns = b.back();
  if (a.back() != b[b.size() - 2]) {
    in.invalid("a {} and b {} do not multiply", to_string(in.shape(0)), to_string(in.shape(1)));
  }
  Shape shape = broadcast_shape({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}, in.where());
  if (!a_is_vector) shape.push_back(rows);
  if (!b_is_vector) shape.push_back(columns);
  return {{in.dtype(0), std::move(shape)}};
}

Types infer_op(const Gemm& op, const NodeView& in) {
  in.expect_same_dtype(1, "b");
  in.expect_same_dtype(2, "c");
  const Shape& a = in.shape(0);
  const Shape& b = in.shape(1);
  if (a.size() != 2 || b.size() != 2 || a[op.trans_a ? 0 : 1] != b[op.trans_b ? 1 : 0]) {
    in.invalid("a {}{} and b {}{} do not multiply", to_string(a), op.trans_a ? "^T" : "",
               to_string(b), op.trans_b ? "^T" : "");
  }
  Shape shape = {a[op.trans_a ? 1 : 0], b[op.trans_b ? 0 : 1]};
  if (in.has(2) && broadcast_shape(in.shape(2), shape, in.where()) != shape) {
    in.invalid("c {} does not broadcast to {}", to_string(in.shape(2)), to_string(shape));
  }
  return {{in.dtype(0), std::move(shape)}};
}

}  // namespace braze::graph
