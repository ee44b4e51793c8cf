// Reduce and ArgReduce: every function, dtype, set of axes and layout.
#include "kernels/cpu/reduce.hpp"

#include <algorithm>

#include "kernels/cpu/families.hpp"

namespace braze::cpu {
namespace {

Support supports(const Graph&, const Node& node, const Device&) {
  if (node.kind() == OpKind::kReduce || node.kind() == OpKind::kArgReduce) return Support::yes();
  return Support::no("operator", "runs Reduce and ArgReduce only");
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = anchor_of(graph, group);
  const Value& x = graph.value(node.input(0));
  const bool vectors = node.kind() == OpKind::kReduce && x.dtype == DType::kFloat32;
  return streaming_work(graph, group, static_cast<double>(element_count(x.shape)),
                        vectors ? 0.25 : 0.01);
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  if (node.kind() == OpKind::kArgReduce) return arg_reduce(plan, kernel);
  const auto& op = *node.as<Reduce>();
  const ReduceAxes axes = reduce_axes(plan, kernel.group, op.axes, op.keepdims);
  const bool fp32 = reduces_fp32(op.fn, plan.graph.value(node.input(0)).dtype, axes);
  return fp32 ? reduce_fp32(plan, kernel) : reduce_typed(plan, kernel);
}

}  // namespace

ReduceAxes reduce_axes(const Plan& plan, const Group& group, const Ints& reduced, bool keepdims) {
  const View x = view_of(plan, anchor_of(plan.graph, group).input(0));
  const View y = view_of(plan, stored_output(plan.graph, group));
  ReduceAxes axes;
  std::size_t to = 0;
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    if (std::find(reduced.begin(), reduced.end(), static_cast<std::int64_t>(axis)) !=
        reduced.end()) {
      axes.reduced.push_back({x.shape[axis], x.strides[axis], 0});
      to += keepdims ? 1 : 0;
    } else {
      axes.kept.push_back({x.shape[axis], x.strides[axis], y.strides[to++]});
    }
  }
  collapse_axes(axes.kept);
  collapse_axes(axes.reduced);
  std::sort(axes.kept.begin(), axes.kept.end(),
            [](const CopyAxis& a, const CopyAxis& b) { return a.from > b.from; });
  return axes;
}

Row reduce() {
  KernelFamily family;
  family.name = "reduce";
  family.backend = "cpu";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
