// Operators that resolve() or constant folding removes. ConstantOfShape and Range need constant
// inputs.
#include <cmath>

#include "graph/elements.hpp"
#include "graph/infer/infer.hpp"

namespace braze::graph {
namespace {

[[noreturn]] void unresolved(const NodeView& in) {
  fail(ErrorCode::kInternal, "internal error: {} is not resolved", in.where());
}

}  // namespace

Types infer_op(const Clip& /*op*/, const NodeView& in) { unresolved(in); }
Types infer_op(const Flatten& /*op*/, const NodeView& in) { unresolved(in); }
Types infer_op(const Squeeze& /*op*/, const NodeView& in) { unresolved(in); }
Types infer_op(const Unsqueeze& /*op*/, const NodeView& in) { unresolved(in); }
Types infer_op(const ShapeOf& /*op*/, const NodeView& in) { unresolved(in); }
Types infer_op(const SizeOf& /*op*/, const NodeView& in) { unresolved(in); }

Types infer_op(const ConstantOfShape& op, const NodeView& in) {
  Shape shape = load<std::int64_t>(in.constant(0));
  for (const std::int64_t extent : shape) {
    if (extent < 0) in.invalid("the shape {} has a negative extent", to_string(shape));
  }
  return {{op.value.defined() ? op.value.dtype() : DType::kFloat32, std::move(shape)}};
}

Types infer_op(const Range& /*op*/, const NodeView& in) {
  for (const std::size_t i : {0U, 1U, 2U}) {
    in.expect_same_dtype(i, "an operand");
    if (element_count(in.shape(i)) != 1) in.invalid("'{}' is not a scalar", in.value(i).name);
  }
  const double start = load<double>(in.constant(0))[0];
  const double limit = load<double>(in.constant(1))[0];
  const double delta = load<double>(in.constant(2))[0];
  const double count = std::ceil((limit - start) / delta);
  if (delta == 0 || !(count < 0x1p40))
    in.invalid("cannot count from {} to {} by {}", start, limit, delta);
  return {{in.dtype(0), {count > 0 ? static_cast<std::int64_t>(count) : 0}}};
}

}  // namespace braze::graph
