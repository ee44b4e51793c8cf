// InstanceNorm and Lrn of images in any layout.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/device/lines_parameters.h"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels/strides.hpp"

namespace braze::cuda {
namespace {

bool is_small_float(DType dtype) { return is_float(dtype) && dtype != DType::kFloat64; }

Support is_image_of_floats(const Graph& graph, const Node& node) {
  for (const ValueId id : node.inputs) {
    const DType dtype = graph.value(id).dtype;
    if (!is_small_float(dtype))
      return Support::no("dtype", fmt::format("computes in float, not {}", to_string(dtype)));
  }
  if (graph.value(node.input(0)).shape.size() < 3)
    return Support::no("rank", "normalises images: x has no spatial axis");
  return Support::yes();
}

/// Fills the strides and extents that both kernels have, given that all spatial axes are one.
template <class Block>
void set_images(Block& p, const Plan& plan, ValueId x_id, ValueId y_id) {
  const Shape& shape = plan.graph.value(y_id).shape;
  const ImageStrides x = image_strides(plan, x_id, shape), y = image_strides(plan, y_id, shape);
  p.x_n = x.n;
  p.x_channel = x.channel;
  p.x_pixel = x.pixel;
  p.y_n = y.n;
  p.y_channel = y.channel;
  p.y_pixel = y.pixel;
  p.channels = static_cast<int>(shape[1]);
  p.pixels = static_cast<int>(element_count({shape.begin() + 2, shape.end()}));
}

Kernel build_instance_norm(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const ValueId x_id = node.input(0), y_id = cpu::stored_output(plan.graph, group);
  const DType dtype = plan.graph.value(x_id).dtype;
  device::InstanceNormParameters p{};
  set_images(p, plan, x_id, y_id);
  p.images = static_cast<int>(plan.graph.value(y_id).shape[0]);
  p.epsilon = static_cast<float>(node.as<InstanceNorm>()->epsilon);
  const bool together = p.x_channel != 1 || p.channels == 1;
  // Whole 32-byte sectors of channels; more of them where that is enough to fill the GPU.
  int channels = together ? 1 : static_cast<int>(32 / size_of(dtype));
  if (!together && static_cast<std::int64_t>(p.images) * p.channels / 32 >= 2LL * plan.device.units)
    channels = 32;
  const int members = std::clamp(p.pixels >= 2048 ? 1024 / channels : 256 / channels, 8, 1024);
  Kernel result;
  emit(result, "instance_norm", {"instance_norm.cuh"}, "", "InstanceNormParameters",
       fmt::format("instance_norm<{}, {}, {}, {}, {}, {}>", device_type(dtype),
                   device_type(plan.graph.value(y_id).dtype),
                   device_type(plan.graph.value(node.input(1)).dtype), channels, members, together),
       channels * members);
  result.grid.x =
      element_count(plan.graph.value(y_id).shape) == 0
          ? 0
          : blocks_for(p.images * static_cast<std::int64_t>(blocks_for(p.channels, channels)), 1);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, x_id, result));
  parameters.point(p.scale, address_of(plan, group, node.input(1), result));
  parameters.point(p.bias, address_of(plan, group, node.input(2), result));
  parameters.point(p.y, {Address::Of::kOutput, cpu::output_index(group, y_id), 0});
  parameters.move_to(result);
  return result;
}

Kernel build_lrn(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const auto& op = *node.as<Lrn>();
  const ValueId x_id = node.input(0), y_id = cpu::stored_output(plan.graph, group);
  device::LrnParameters p{};
  set_images(p, plan, x_id, y_id);
  p.count = element_count(plan.graph.value(y_id).shape);
  p.below = static_cast<int>((op.size - 1) / 2);
  p.above = static_cast<int>(op.size / 2);
  p.alpha = static_cast<float>(op.alpha / static_cast<double>(op.size));
  p.beta = static_cast<float>(op.beta);
  p.bias = static_cast<float>(op.bias);
  const int threads = threads_for(p.count, plan.device);
  Kernel result;
  emit(result, "lrn", {"lrn.cuh"}, "", "LrnParameters",
       fmt::format("lrn<{}, {}, {}, {}>", device_type(plan.graph.value(x_id).dtype),
                   device_type(plan.graph.value(y_id).dtype), p.y_channel != 1, threads),
       threads);
  result.grid.x = p.count == 0 ? 0 : blocks_for(p.count, threads);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, x_id, result));
  parameters.point(p.y, {Address::Of::kOutput, cpu::output_index(group, y_id), 0});
  parameters.move_to(result);
  return result;
}

KernelFamily family_of_images(std::string_view name) {
  KernelFamily family;
  family.name = name;
  family.backend = "cuda";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.candidates = cpu::only_candidate;
  family.work = [](const Graph& graph, const Group& group, const Candidate&, const Device&) {
    const Shape& shape = graph.value(group.outputs[0]).shape;
    return cpu::streaming_work(graph, group, 20 * static_cast<double>(element_count(shape)), 0.3);
  };
  return family;
}

}  // namespace

Row instance_norm() {
  KernelFamily family = family_of_images("instance_norm");
  family.supports = [](const Graph& graph, const Node& node, const Device&) {
    if (node.kind() != OpKind::kInstanceNorm)
      return Support::no("operator", "runs InstanceNorm only");
    if (graph.value(node.input(1)).dtype != graph.value(node.input(2)).dtype)
      return Support::no("dtype", "scale and bias of different types");
    return is_image_of_floats(graph, node);
  };
  return {family, build_instance_norm};
}

Row lrn() {
  KernelFamily family = family_of_images("lrn");
  family.supports = [](const Graph& graph, const Node& node, const Device&) {
    if (node.kind() != OpKind::kLrn) return Support::no("operator", "runs Lrn only");
    return is_image_of_floats(graph, node);
  };
  return {family, build_lrn};
}

}  // namespace braze::cuda
