// A group with no members: inputs[0] is copied to outputs[0], from either layout to either. Also
// Identity and Reshape, where the planner could not make them views.
#include <algorithm>

#include "base/error.hpp"
#include "kernels/cpu/copy_kernel.hpp"
#include "kernels/cpu/families.hpp"

namespace braze::cpu {
namespace {

/// Extents and strides in logical order, with axes that are one in memory joined.
View joined(const View& view) {
  View result{view.element_bytes, {}, {}};
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    if (view.shape[axis] == 1) continue;
    if (!result.shape.empty() && result.strides.back() == view.strides[axis] * view.shape[axis]) {
      result.shape.back() *= view.shape[axis];
      result.strides.back() = view.strides[axis];
    } else {
      result.shape.push_back(view.shape[axis]);
      result.strides.push_back(view.strides[axis]);
    }
  }
  return result;
}

/// Axes of which those of both views are products; nullopt if there are none ([6,4] and [8,3],
/// neither row-major).
std::optional<std::vector<CopyAxis>> common_axes(const View& from, const View& to) {
  std::vector<CopyAxis> axes;
  std::size_t f = from.shape.size(), t = to.shape.size();
  std::int64_t from_done = 1, to_done = 1;  // inner part of the current axis that is dealt with
  while (f > 0 && t > 0) {
    const std::int64_t from_rest = from.shape[f - 1] / from_done;
    const std::int64_t to_rest = to.shape[t - 1] / to_done;
    const std::int64_t extent = std::min(from_rest, to_rest);
    if (from_rest % extent != 0 || to_rest % extent != 0) return std::nullopt;
    axes.push_back({extent, from.strides[f - 1] * from_done, to.strides[t - 1] * to_done});
    from_done *= extent;
    to_done *= extent;
    if (from_done == from.shape[f - 1]) --f, from_done = 1;
    if (to_done == to.shape[t - 1]) --t, to_done = 1;
  }
  return axes;
}

/// Reshape between two channels-last images whose axes have nothing in common: element by element.
class WalkKernel final : public Kernel {
 public:
  WalkKernel(Operand operand, View from, View to)
      : operand_(std::move(operand)), from_(std::move(from)), to_(std::move(to)) {}

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t count = element_count(to_.shape);
    const auto* from = static_cast<const std::uint8_t*>(operand_.data(arguments));
    auto* to = static_cast<std::uint8_t*>(arguments.outputs[0]);
    const auto tasks = static_cast<std::size_t>((count + kPerTask - 1) / kPerTask);
    parallel_for(arguments.pool, tasks, [&](std::size_t task, std::size_t) {
      const std::int64_t begin = static_cast<std::int64_t>(task) * kPerTask;
      for (std::int64_t i = begin; i < std::min(begin + kPerTask, count); ++i) {
        std::copy_n(from + offset(from_, i), to_.element_bytes, to + offset(to_, i));
      }
    });
  }

 private:
  static constexpr std::int64_t kPerTask = 4096;
  static std::int64_t offset(const View& view, std::int64_t index) {
    std::int64_t result = 0;
    for (std::size_t axis = view.shape.size(); axis-- > 0;) {
      result += index % view.shape[axis] * view.strides[axis];
      index /= view.shape[axis];
    }
    return result;
  }
  Operand operand_;
  View from_, to_;
};

Support supports(const Graph&, const Node& node, const Device&) {
  if (node.kind() == OpKind::kIdentity || node.kind() == OpKind::kReshape) return Support::yes();
  return Support::no("operator", "a copy runs Identity and Reshape only");
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  ensure(group.outputs.size() == 1, "a copy has one output");
  const ValueId id =
      group.members.empty() ? group.inputs.at(0) : anchor_of(plan.graph, group).input(0);
  const View from = view_of(plan, id), to = view_of(plan, group.outputs[0]);
  ensure(element_count(from.shape) == element_count(to.shape),
         "a copy keeps the number of elements");
  const bool reshapes = from.shape != to.shape;
  Operand operand = operand_of(plan, group, id);
  auto copy = std::make_unique<CopyKernel>();
  if (!reshapes) {
    copy->add(std::move(operand), from, 0, to);
  } else if (element_count(to.shape) > 0) {
    auto axes = reshape_axes(from, to);
    if (!axes.has_value()) return std::make_unique<WalkKernel>(std::move(operand), from, to);
    copy->add(std::move(operand), 0, StridedCopy(to.element_bytes, std::move(*axes)));
  }
  return copy;
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  return streaming_work(graph, group, 0);
}

}  // namespace

std::optional<std::vector<CopyAxis>> reshape_axes(const View& from, const View& to) {
  return common_axes(joined(from), joined(to));
}

Row relayout() {
  KernelFamily family;
  family.name = "relayout";
  family.backend = "cpu";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
