// Transposed convolution, 1-D to 3-D, any groups.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/device/conv_transpose_parameters.h"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/window.hpp"

namespace braze::cuda {
namespace {

bool is_small_float(DType dtype) { return is_float(dtype) && dtype != DType::kFloat64; }

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.as<ConvTranspose>() == nullptr) return Support::no("op", "only ConvTranspose");
  const Value& x = graph.value(node.inputs[0]);
  const Value& w = graph.value(node.inputs[1]);
  if (!is_small_float(x.dtype) || !is_small_float(w.dtype))
    return Support::no("dtype", fmt::format("{} is {}; takes float", x.name, to_string(x.dtype)));
  if (!w.is_constant()) return Support::no("weights", "weights that are not constant");
  if (x.shape.size() < 3 || x.shape.size() > 5)
    return Support::no("rank", "takes 1 to 3 spatial axes");
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = cpu::anchor_of(graph, group);
  const Shape& w = graph.value(node.inputs[1]).shape;
  const double products =
      static_cast<double>(element_count(w)) / static_cast<double>(std::max<std::int64_t>(w[0], 1));
  const Shape& x = graph.value(node.inputs[0]).shape;
  return cpu::streaming_work(graph, group, 2 * products * static_cast<double>(element_count(x)),
                             0.05);
}

/// [C, K / group, taps] to [group][tap][C / group][K / group, padded].
std::vector<std::byte> pack(const Tensor& weights, std::int64_t groups, std::int64_t pitch) {
  const std::int64_t inputs = weights.shape()[0] / groups, outputs = weights.shape()[1];
  const std::int64_t taps =
      weights.count() / std::max<std::int64_t>(weights.shape()[0] * outputs, 1);
  const std::vector<float> from = load<float>(weights);
  std::vector<float> to(static_cast<std::size_t>(groups * taps * inputs * pitch), 0.0F);
  for (std::int64_t c = 0; c < weights.shape()[0]; ++c) {
    for (std::int64_t k = 0; k < outputs; ++k) {
      for (std::int64_t t = 0; t < taps; ++t) {
        const std::int64_t at = ((c / inputs * taps + t) * inputs + c % inputs) * pitch + k;
        to[static_cast<std::size_t>(at)] =
            from[static_cast<std::size_t>((c * outputs + k) * taps + t)];
      }
    }
  }
  const Tensor packed = make_tensor(weights.dtype(), {std::ssize(to)}, to);
  const auto* begin = static_cast<const std::byte*>(packed.data());
  return {begin, begin + packed.bytes()};
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Group::Member& member = group.members.front();
  const Node& node = cpu::anchor_of(plan.graph, group);
  const auto& op = *node.as<ConvTranspose>();
  const ValueId x_id = loaded_value(plan, group, node.inputs[0]), y_id = member.result;
  const ImageAxes x = image_axes(plan, x_id), y = image_axes(plan, y_id);
  const Tensor& weights = *plan.graph.value(node.inputs[1]).constant;
  const DType x_type = plan.graph.value(x_id).dtype, y_type = plan.graph.value(y_id).dtype;

  device::ConvTransposeParameters p{};
  p.groups = static_cast<int>(op.group);
  p.inputs = static_cast<int>(x.channels / op.group);
  p.outputs = static_cast<int>(y.channels / op.group);
  p.x_n = x.stride_n;
  p.x_channel = x.stride_channel;
  set_window(p, op.window);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    p.x_axis[axis] = x.stride[axis];
    p.in[axis] = x.extent[axis];
    p.out[axis] = y.extent[axis];
  }
  std::int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  p.w_channel = (p.outputs + 7) / 8 * 8;
  p.w_tap = p.w_channel * p.inputs;
  p.w_group = p.w_tap * taps;
  p.phases = std::min(p.stride[2], p.out[2]);
  const int pixels_of_phase = (p.out[2] + p.stride[2] - 1) / p.stride[2];
  const int vector = p.outputs >= 8 ? 8 : p.outputs >= 4 ? 4 : p.outputs >= 2 ? 2 : 1;
  const auto threads_with = [&](int pixels) {
    return y.n * p.out[0] * p.out[1] * p.phases * ((pixels_of_phase + pixels - 1) / pixels) *
           p.groups * ((p.outputs + vector - 1) / vector);
  };
  int pixels = 4;
  while (pixels > 1 && threads_with(pixels) < 256LL * plan.device.units) pixels /= 2;
  p.runs = (pixels_of_phase + pixels - 1) / pixels;
  p.threads = threads_with(pixels);
  int together = size_of(x_type) == 4 ? 4 : 8;
  while (together > 1 && !(x.stride_channel == 1 && takes_vectors(plan, x_id, together) &&
                           p.inputs % together == 0))
    together /= 2;
  const bool stores_vectors =
      p.outputs % vector == 0 && vector > 1 && takes_vectors(plan, y_id, vector);

  Kernel result;
  EpilogueEmitter epilogue(plan, kernel, result, vector);
  epilogue.add_bias(node.input(2));
  epilogue.add_steps(member);
  p.e = epilogue.parameters();
  p.y = output_parameters(plan, y_id);
  const int threads = std::min(128, threads_for(p.threads, plan.device));
  emit(result, "conv_transpose", {"conv_transpose.cuh"}, epilogue.source(),
       "ConvTransposeParameters",
       fmt::format("conv_transpose<{}, {}, {}, {}, {}, {}, Store::{}, {}, Epilogue>",
                   device_type(x_type), device_type(weights.dtype()), device_type(y_type), vector,
                   pixels, together, stores_vectors ? "kVector" : "kEach", threads),
       threads);
  result.grid.x = p.threads == 0 ? 0 : blocks_for(p.threads, threads);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, node.inputs[0], result));
  parameters.point(p.w, add_constant(result, pack(weights, op.group, p.w_channel)));
  parameters.point(p.y.data, {Address::Of::kOutput, cpu::output_index(group, y_id), 0});
  epilogue.point(parameters, p.e);
  parameters.move_to(result);
  return result;
}

}  // namespace

Row conv_transpose() {
  KernelFamily family;
  family.name = "conv_transpose";
  family.backend = "cuda";
  family.layouts = LayoutRule::kEach;
  family.epilogue = true;
  family.pitched = true;
  family.converts = true;
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
