// ConstantOfShape, Range; and the operators that resolve() leaves none of.
#include "graph/interpret/call.hpp"

namespace braze::graph {
namespace {

[[noreturn]] void unresolved(const Call& call) {
  fail(ErrorCode::kInternal, "internal error: {} is not resolved", call.node().where());
}

}  // namespace

void run_op(const ConstantOfShape& op, Call& call) {
  std::vector<Ints> tables;
  for (const std::int64_t extent : call.output().shape()) tables.push_back(steps(extent, 0));
  copy_elements(op.value, call.output(), tables);
}

void run_op(const Range& /*op*/, Call& call) {
  visit_compute(call.input(0).dtype(), [&](auto zero) {
    using C = decltype(zero);
    const C start = call.scalar<C>(0);
    const C delta = call.scalar<C>(2);
    std::vector<C> values(static_cast<std::size_t>(call.output().count()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<C>(i) * delta;
    call.store(values);
  });
}

void run_op(const Clip& /*op*/, Call& call) { unresolved(call); }
void run_op(const Flatten& /*op*/, Call& call) { unresolved(call); }
void run_op(const Squeeze& /*op*/, Call& call) { unresolved(call); }
void run_op(const Unsqueeze& /*op*/, Call& call) { unresolved(call); }
void run_op(const ShapeOf& /*op*/, Call& call) { unresolved(call); }
void run_op(const SizeOf& /*op*/, Call& call) { unresolved(call); }

}  // namespace braze::graph
