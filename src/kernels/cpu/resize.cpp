// Resize: nearest on all spatial axes, linear and cubic on the last two. Others go to the
// reference.
#include "kernels/cpu/resize.hpp"

#include <algorithm>

#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

bool is_identity(const ResizeAxis& axis, std::int64_t extent) {
  if (std::ssize(axis) != extent) return false;
  for (std::int64_t i = 0; i < extent; ++i) {
    const std::vector<ResizeTap>& taps = axis[static_cast<std::size_t>(i)];
    if (taps.size() != 1 || taps[0].index != i) return false;
  }
  return true;
}

bool has_outside(const ResizeAxis& axis) {
  return std::any_of(axis.begin(), axis.end(), [](const auto& taps) { return taps.empty(); });
}

Support supports(const Graph& graph, const Node& node, const Device&) {
  const auto* op = node.as<Resize>();
  if (op == nullptr) return Support::no("operator", "runs Resize only");
  const Value& x = graph.value(node.input(0));
  const std::size_t rank = x.shape.size();
  if (rank < 3 || rank > 5)
    return Support::no("rank", "resizes images of one to three spatial axes");
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (!is_identity(resize_taps(*op, axis, x.shape[axis]), x.shape[axis]))
      return Support::no("axes", "resizes spatial axes only");
  }
  const ResizeAxes axes = resize_axes(graph, node);
  if (has_outside(axes.d) || has_outside(axes.h) || has_outside(axes.w)) {
    return Support::no("extrapolation", "some elements lie outside of the input");
  }
  if (op->mode == ResizeMode::kNearest) return Support::yes();
  if (x.dtype != DType::kFloat32)
    return Support::no("dtype", std::string("interpolates float, not ") + to_string(x.dtype));
  if (rank == 5 && !is_identity(axes.d, x.shape[2]))
    return Support::no("axes", "interpolates along two axes only");
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = anchor_of(graph, group);
  const auto elements = static_cast<double>(element_count(graph.value(node.output()).shape));
  const ResizeMode mode = node.as<Resize>()->mode;
  const double taps = mode == ResizeMode::kNearest ? 0 : mode == ResizeMode::kLinear ? 4 : 8;
  return streaming_work(graph, group, 2 * taps * elements, 0.3);
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  const auto& op = *anchor_of(plan.graph, kernel.group).as<Resize>();
  return op.mode == ResizeMode::kNearest ? resize_nearest(plan, kernel)
                                         : resize_interpolate(plan, kernel);
}

}  // namespace

ResizeAxes resize_axes(const Graph& graph, const Node& node) {
  const auto& op = *node.as<Resize>();
  const Shape& x = graph.value(node.input(0)).shape;
  const ResizeAxis one = {{ResizeTap{}}};
  const auto taps = [&](std::size_t from_end) {
    const std::size_t axis = x.size() - from_end;
    return axis < 2 ? one : resize_taps(op, axis, x[axis]);
  };
  return {taps(3), taps(2), taps(1)};
}

Row resize() {
  KernelFamily family;
  family.name = "resize";
  family.backend = "cpu";
  family.layouts = LayoutRule::kSame;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
