// Concat along any axis, of any dtype, from either layout to either.
#include "base/error.hpp"
#include "kernels/cpu/copy_kernel.hpp"
#include "kernels/cpu/families.hpp"

namespace braze::cpu {
namespace {

Support supports(const Graph&, const Node& node, const Device&) {
  return node.kind() == OpKind::kConcat ? Support::yes()
                                        : Support::no("operator", "runs Concat only");
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  const auto axis = static_cast<std::size_t>(node.as<Concat>()->axis);
  const ValueId to_id = stored_output(plan.graph, kernel.group);
  View part = view_of(plan, to_id);
  auto copy = std::make_unique<CopyKernel>();
  std::int64_t start = 0;
  for (const ValueId from_id : node.inputs) {
    const View from = view_of(plan, from_id);
    part.shape = from.shape;
    copy->add(operand_of(plan, kernel.group, from_id), from, output_index(kernel.group, to_id),
              part, 0, start * part.strides[axis]);
    start += from.shape[axis];
  }
  return copy;
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  return streaming_work(graph, group, 0);
}

}  // namespace

Row concat() {
  KernelFamily family;
  family.name = "concat";
  family.backend = "cpu";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
