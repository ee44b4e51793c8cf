// Convolution with one input channel per group.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/conv_depthwise.hpp"
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

std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  std::vector<Candidate> list;
  for (const DepthwiseTile& tile : depthwise_tiles(depthwise_problem(graph, group), device)) {
    list.push_back({{{"vector", tile.vector}, {"pixels", tile.pixels}, {"rows", tile.rows}}});
  }
  return list;
}

DepthwiseTile tile_of(const Candidate& candidate) {
  const auto get = [&](const char* name) { return static_cast<int>(candidate.get(name, 1)); };
  return {get("vector"), get("pixels"), get("rows")};
}

Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const DepthwiseProblem problem = depthwise_problem(graph, group);
  Work work = cpu::streaming_work(graph, group, problem.flops());
  const DType dtype = graph.value(cpu::anchor_of(graph, group).inputs[0]).dtype;
  const double peak = dtype != DType::kFloat32 ? device.flops_fp16
                      : device.tf32            ? device.flops_tf32
                                               : device.flops_fp32;
  const double seconds = depthwise_seconds(problem, tile_of(candidate), device);
  work.efficiency = std::clamp(work.flops / (seconds * peak), 1e-6, 1.0);
  return work;
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

/// The widest vectors of channels that are read and written at once.
int widest_vector(const Plan& plan, ValueId x, ValueId y) {
  const DType x_type = plan.graph.value(x).dtype, y_type = plan.graph.value(y).dtype;
  int widest = std::max(size_of(x_type), size_of(y_type)) == 4 ? 4 : 8;
  while (widest > 1 && !(takes_vectors(plan, x, widest) && takes_vectors(plan, y, widest)))
    widest /= 2;
  return widest;
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Group::Member& member = group.members.front();
  const Node& node = cpu::anchor_of(plan.graph, group);
  const Window& window = node.as<Conv>()->window;
  const ValueId x_id = loaded_value(plan, group, node.inputs[0]), y_id = member.result;
  const DType x_type = plan.graph.value(x_id).dtype, y_type = plan.graph.value(y_id).dtype;
  const ImageAxes x = image_axes(plan, x_id), y = image_axes(plan, y_id);
  const Tensor& weights = *plan.graph.value(node.inputs[1]).constant;

  const DepthwiseProblem problem = depthwise_problem(plan.graph, group);
  DepthwiseTile tile = kernel.candidate.parameters.empty()
                           ? depthwise_tiles(problem, plan.device).front()
                           : tile_of(kernel.candidate);
  const int widest = widest_vector(plan, x_id, y_id);
  const bool any = tile.any() || widest == 1 || !offsets_fit(x) || !offsets_fit(y);
  const bool together = widest > 1 && problem.multiplier == 1;
  if (any) tile = {together || y.stride_channel == 1 ? std::max(widest, 1) : 1, 1, 1};
  tile.vector = std::min(tile.vector, widest);

  Kernel result;
  device::ConvDepthwiseParameters p{};
  p.x_n = x.stride_n;
  p.x_channel = x.stride_channel;
  p.w_tap = static_cast<int>((y.channels + 15) / 16 * 16);
  p.multiplier = static_cast<int>(problem.multiplier);
  set_window(p, window);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    p.x_axis[axis] = x.stride[axis];
    p.in[axis] = x.extent[axis];
    p.out[axis] = y.extent[axis];
  }
  p.x_row = static_cast<int>(x.stride[1]);
  p.x_pixel = static_cast<int>(x.stride[2]);
  p.y_pixel = static_cast<int>(y.stride[2]);
  p.rows = tile.rows;
  const auto parts = [](std::int64_t n, int size) { return (n + size - 1) / size; };
  const std::int64_t vectors = parts(y.channels, tile.vector),
                     runs = parts(y.extent[2], tile.pixels), strips = parts(y.extent[1], tile.rows);
  p.vectors = divisor_of(vectors);
  p.runs = divisor_of(runs);
  p.strips = divisor_of(strips);
  p.planes = divisor_of(y.extent[0]);
  p.threads = vectors * runs * strips * y.extent[0] * y.n;
  EpilogueEmitter epilogue(plan, kernel, result, tile.vector);
  const ValueId bias = node.input(2);
  const bool constant_bias = bias != kNoValue && plan.graph.value(bias).is_constant();
  if (!constant_bias) epilogue.add_bias(bias);
  epilogue.add_steps(member);
  p.e = epilogue.parameters();
  p.y = output_parameters(plan, y_id);

  const bool strip = !any && tile.rows > 1;
  const int threads =
      strip ? kDepthwiseThreads : std::min(kDepthwiseThreads, threads_for(p.threads, plan.device));
  const int blocks_per_sm = strip ? depthwise_blocks_per_sm(problem, tile) : 1;
  const std::string types = fmt::format("{}, {}, {}", device_type(x_type),
                                        device_type(weights.dtype()), device_type(y_type));
  const std::string last = fmt::format("{}, {}, Epilogue", index_type(p.threads), threads);
  std::string call;
  if (any) {
    call = fmt::format("conv_depthwise<{}, {}, {}, Store::{}, {}>", types, tile.vector, together,
                       tile.vector > 1 ? "kVector" : "kEach", last);
  } else {
    call = fmt::format("conv_depthwise_{}<{}, {}, {}, {}, {}, {}, {}>", strip ? "strip" : "window",
                       types, p.kernel[1], p.kernel[2], tile.pixels > 1 || strip ? p.stride[2] : 1,
                       tile.vector, tile.pixels, last);
  }
  emit(result, "conv_depthwise", {"conv_depthwise.cuh"}, epilogue.source(),
       "ConvDepthwiseParameters", call, threads, blocks_per_sm);
  result.grid.x = p.threads == 0 ? 0 : blocks_for(p.threads, threads);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, node.inputs[0], result));
  parameters.point(p.w, add_constant(result, pack(weights, weights.dtype(), p.w_tap)));
  if (constant_bias)
    parameters.point(p.bias, add_floats(result, *plan.graph.value(bias).constant, 32));
  parameters.point(p.y.data, {Address::Of::kOutput, cpu::output_index(group, y_id), 0});
  epilogue.point(parameters, p.e);
  parameters.move_to(result);
  return result;
}

}  // namespace

Row conv_depthwise() {
  KernelFamily family = image_family("conv_depthwise");
  family.supports = supports;
  family.candidates = candidates;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
