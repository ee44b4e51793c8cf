// Convolution with one input channel per group.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/device/conv_depthwise_parameters.h"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/window.hpp"

namespace braze::cuda {
namespace {

bool is_small_float(DType dtype) { return is_float(dtype) && dtype != DType::kFloat64; }

Support supports(const Graph& graph, const Node& node, const Device&) {
  const auto* op = node.as<Conv>();
  if (op == nullptr) return Support::no("op", "only Conv");
  const Value& x = graph.value(node.inputs[0]);
  const Value& w = graph.value(node.inputs[1]);
  if (x.shape.size() < 3 || x.shape.size() > 5) {
    return Support::no(
        "rank", fmt::format("an input of {} axes; takes 1 to 3 spatial ones", x.shape.size()));
  }
  if (op->group != x.shape[1] || op->group == 1) {
    return Support::no(
        "depthwise", fmt::format("{} groups of {} channels; takes one channel per group", op->group,
                                 x.shape[1]));
  }
  if (!is_small_float(x.dtype) || !is_small_float(w.dtype))
    return Support::no("dtype", fmt::format("convolves {}; takes float", to_string(x.dtype)));
  if (!w.is_constant()) return Support::no("weights", "weights that are not constant");
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = cpu::anchor_of(graph, group);
  const double taps = static_cast<double>(element_count(node.as<Conv>()->window.kernel));
  return cpu::streaming_work(
      graph, group,
      2 * taps * static_cast<double>(element_count(graph.value(node.outputs[0]).shape)), 0.3);
}

/// What a kernel is specialised for, and how much a thread makes.
struct Choice {
  int height = 0, width = 0, stride = 0;  // of the filter; 0: run-time
  int vector = 1, pixels = 1;
  bool together = false;  // V channels of the input are read at once
};

Choice choose(const Plan& plan, const Window& window, ValueId x, ValueId y, std::int64_t multiplier,
              const ImageAxes& out) {
  Choice choice;
  const DType x_type = plan.graph.value(x).dtype, y_type = plan.graph.value(y).dtype;
  int widest = std::max(size_of(x_type), size_of(y_type)) == 4 ? 4 : 8;
  for (; widest > 1; widest /= 2) {
    if (multiplier == 1 && takes_vectors(plan, x, widest) && takes_vectors(plan, y, widest)) break;
  }
  choice.vector = widest;
  choice.together = widest > 1;
  const std::size_t last = window.kernel.size() - 1;
  const std::int64_t height = last > 0 ? window.kernel[last - 1] : 1, width = window.kernel[last];
  const bool usual = (height == 3 && width == 3) || (height == 5 && width == 5) ||
                     (height == 1 && width == 3) || (height == 7 && width == 7);
  if (usual && window.dilations[last] == 1 && window.strides[last] <= 2 && choice.together) {
    choice.height = static_cast<int>(height);
    choice.width = static_cast<int>(width);
    choice.stride = static_cast<int>(window.strides[last]);
  }
  // More pixels of a thread share what it reads; more threads hide latency. First give up sharing,
  // then the width of the vectors.
  const std::int64_t rows = out.n * out.extent[0] * out.extent[1];
  const auto threads = [&](int pixels, int vector) {
    return rows * ((out.extent[2] + pixels - 1) / pixels) * ((out.channels + vector - 1) / vector);
  };
  constexpr std::int64_t kThreadsOfAnSm = 512, kFewestOfAnSm = 128;
  const std::int64_t enough = kThreadsOfAnSm * plan.device.units;
  if (choice.width > 0) {
    const int most = choice.width >= 7 ? 2 : 4;
    for (choice.pixels = most; choice.pixels > 1; choice.pixels /= 2) {
      if (threads(choice.pixels, choice.vector) >= enough) break;
    }
  }
  while (choice.vector > 2 && choice.pixels == 1 &&
         threads(1, choice.vector) < kFewestOfAnSm * plan.device.units)
    choice.vector /= 2;
  return choice;
}

/// [tap][channel], rounded up to whole vectors of 16 channels.
std::vector<std::byte> pack(const Tensor& weights, DType dtype, std::int64_t pitch) {
  const std::int64_t channels = weights.shape()[0];
  const std::int64_t taps = weights.count() / std::max<std::int64_t>(channels, 1);
  const std::vector<float> from = load<float>(weights);
  std::vector<float> to(static_cast<std::size_t>(taps * pitch), 0.0F);
  for (std::int64_t k = 0; k < channels; ++k) {
    for (std::int64_t t = 0; t < taps; ++t)
      to[static_cast<std::size_t>(t * pitch + k)] = from[static_cast<std::size_t>(k * taps + t)];
  }
  const Tensor packed = make_tensor(dtype, {taps, pitch}, to);
  const auto* begin = static_cast<const std::byte*>(packed.data());
  return {begin, begin + packed.bytes()};
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Group::Member& member = group.members.front();
  const Node& node = cpu::anchor_of(plan.graph, group);
  const Window& window = node.as<Conv>()->window;
  const ValueId x_id = loaded_value(plan, group, node.inputs[0]), y_id = member.result;
  const ImageAxes x = image_axes(plan, x_id), y = image_axes(plan, y_id);
  const Tensor& weights = *plan.graph.value(node.inputs[1]).constant;
  const std::int64_t multiplier = y.channels / x.channels;
  const Choice choice = choose(plan, window, x_id, y_id, multiplier, y);

  Kernel result;
  device::ConvDepthwiseParameters p{};
  p.x_n = x.stride_n;
  p.x_channel = x.stride_channel;
  p.w_tap = (y.channels + 15) / 16 * 16;
  p.multiplier = static_cast<int>(multiplier);
  set_window(p, window);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    p.x_axis[axis] = x.stride[axis];
    p.in[axis] = x.extent[axis];
    p.out[axis] = y.extent[axis];
  }
  EpilogueEmitter epilogue(plan, kernel, result, choice.vector);
  epilogue.add_bias(node.input(2));
  epilogue.add_steps(member);
  p.e = epilogue.parameters();
  p.y = output_parameters(plan, y_id);
  const std::int64_t runs = (y.extent[2] + choice.pixels - 1) / choice.pixels;
  p.threads =
      y.n * y.extent[0] * y.extent[1] * runs * ((y.channels + choice.vector - 1) / choice.vector);
  const int threads = std::min(128, threads_for(p.threads, plan.device));
  const char* w_type = device_type(weights.dtype());
  emit(
      result, "conv_depthwise", {"conv_depthwise.cuh"}, epilogue.source(),
      "ConvDepthwiseParameters",
      fmt::format("conv_depthwise<{}, {}, {}, {}, {}, {}, {}, {}, {}, Store::{}, {}, {}, Epilogue>",
                  device_type(plan.graph.value(x_id).dtype), w_type,
                  device_type(plan.graph.value(y_id).dtype), choice.height, choice.width,
                  choice.stride, choice.vector, choice.pixels, choice.together,
                  choice.vector > 1 ? "kVector" : "kEach", index_type(p.threads), threads),
      threads);
  result.grid.x = p.threads == 0 ? 0 : blocks_for(p.threads, threads);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, node.inputs[0], result));
  parameters.point(p.w, add_constant(result, pack(weights, weights.dtype(), p.w_tap)));
  parameters.point(p.y.data, {Address::Of::kOutput, cpu::output_index(group, y_id), 0});
  epilogue.point(parameters, p.e);
  parameters.move_to(result);
  return result;
}

}  // namespace

Row conv_depthwise() {
  KernelFamily family = image_family("conv_depthwise");
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
