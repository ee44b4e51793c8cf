// Softmax and LogSoftmax along any axis, any layout.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/copy_emitter.hpp"
#include "kernels/cuda/device/lines_parameters.h"
#include "kernels/cuda/families.hpp"
#include "kernels/strides.hpp"

namespace braze::cuda {
namespace {

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.kind() != OpKind::kSoftmax) return Support::no("operator", "runs Softmax only");
  const Value& x = graph.value(node.input(0));
  if (!is_float(x.dtype) || x.dtype == DType::kFloat64)
    return Support::no("dtype", fmt::format("computes in float, not {}", to_string(x.dtype)));
  if (x.shape.size() > device::kLineAxes) return Support::no("rank", "more than 8 axes");
  return Support::yes();
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const auto& op = *node.as<Softmax>();
  const ValueId x_id = loaded_value(plan, group, node.input(0));
  const ValueId y_id = cpu::stored_output(plan.graph, group);
  const Shape& shape = plan.graph.value(y_id).shape;
  const Ints x = axis_strides(plan, x_id), y = axis_strides(plan, y_id);
  const auto along = static_cast<std::size_t>(op.axis);
  std::vector<BoxAxis> outer;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis != along) outer.push_back({shape[axis], {y[axis], x[axis]}});
  }
  collapse(outer);
  device::LinesParameters p{};
  p.lines = 1;
  p.extent = static_cast<int>(shape[along]);
  p.x_step = x[along];
  p.y_step = y[along];
  p.outer_axes = static_cast<int>(outer.size());
  for (std::size_t i = 0; i < outer.size(); ++i) {
    p.lines *= outer[i].extent;
    p.outer[i] = {outer[i].strides[1], outer[i].strides[0], static_cast<int>(outer[i].extent), 0};
  }
  const bool together = x[along] == 1 || outer.empty();
  const bool is_long = p.extent > 1024;
  const int lines = together ? (is_long ? 1 : 8) : (p.extent <= 8 ? 32 : 16);
  const int members = together ? 256 / lines : (p.extent <= 8 ? 4 : 16);
  Kernel result;
  emit(result, "softmax", {"softmax.cuh"}, "", "LinesParameters",
       fmt::format("softmax<{}, {}, {}, {}, {}, {}>", device_type(plan.graph.value(x_id).dtype),
                   device_type(plan.graph.value(y_id).dtype), op.log, lines, members, together),
       lines * members);
  result.grid.x = element_count(shape) == 0 ? 0 : blocks_for(p.lines, lines);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, node.input(0), result));
  parameters.point(p.y, {Address::Of::kOutput, cpu::output_index(group, y_id), 0});
  parameters.move_to(result);
  return result;
}

}  // namespace

Row softmax() {
  KernelFamily family;
  family.name = "softmax";
  family.backend = "cuda";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = [](const Graph& graph, const Group& group, const Candidate&, const Device&) {
    const Shape& shape = graph.value(group.outputs[0]).shape;
    return cpu::streaming_work(graph, group, 30 * static_cast<double>(element_count(shape)), 0.3);
  };
  return {family, build};
}

}  // namespace braze::cuda
