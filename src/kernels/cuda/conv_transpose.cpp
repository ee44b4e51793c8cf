// Transposed convolution, 1-D to 3-D, any groups.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "graph/window.hpp"
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

constexpr std::int64_t kTile = 64, kDepth = 32;  // of the tensor cores' kernel

/// Does the tensor cores' kernel take weights [C, K, taps] of these types?
bool suits_mma(const Device& device, const ConvTranspose& op, DType x, DType w,
               const Shape& shape) {
  return device.sm >= 80 && op.group == 1 && x == w && size_of(x) == 2 && shape[0] >= 16 &&
         shape[1] >= 16;
}

// Fitted to times of four kernels on an H200 (2x2, stride 2; 1.07 GFLOP each; within 5 %). A
// multiprocessor's blocks take turns in the steps of their sums; their epilogues follow each other.
double mma_us(const Graph& graph, const Node& node, const Device& device) {
  constexpr double kBegin = 4.5, kStep = 0.5, kEpilogue = 1.25;
  constexpr double kMostBlocks = 8;  // of a multiprocessor at a time
  const Shape& w = graph.value(node.inputs[1]).shape;
  const Shape& y = graph.value(node.outputs[0]).shape;
  const auto& window = node.as<ConvTranspose>()->window;
  const auto count = [](const Ints& extents) {
    return static_cast<double>(element_count(extents));
  };
  const double phases = count(window.strides), taps = count(window.kernel) / phases;
  const double pixels = static_cast<double>(y[0]) * count({y.begin() + 2, y.end()}) / phases;
  const auto up = [](std::int64_t n, std::int64_t unit) {
    return static_cast<double>(ceil_div(n, unit));
  };
  const double blocks = std::ceil(pixels / kTile) * phases * up(w[1], kTile);
  const double steps = std::max(taps, 1.0) * up(w[0], kDepth);
  const double on_one = std::ceil(blocks / device.units);
  const double together = std::min(on_one, kMostBlocks);
  constexpr double kFlops = 2.0 * kTile * kTile * kDepth;  // of a step
  const double products = 3 * kFlops / (device.flops_fp16 / device.units) * 1e6;
  return kBegin + on_one / together * steps * std::max(kStep, together * products) +
         on_one * kEpilogue;
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device& device) {
  const Node& node = cpu::anchor_of(graph, group);
  const Shape& w = graph.value(node.inputs[1]).shape;
  const double products =
      static_cast<double>(element_count(w)) / static_cast<double>(std::max<std::int64_t>(w[0], 1));
  const Value& x = graph.value(node.inputs[0]);
  const double flops = 2 * products * static_cast<double>(element_count(x.shape));
  const bool narrow = size_of(x.dtype) == 2;
  if (flops > 0 && w[0] % 8 == 0 &&
      suits_mma(device, *node.as<ConvTranspose>(), x.dtype, graph.value(node.inputs[1]).dtype, w)) {
    const double efficiency = flops / (mma_us(graph, node, device) * 1e-6 * device.flops_fp16);
    return cpu::streaming_work(graph, group, flops, std::min(1.0, efficiency));
  }
  // Of the rate of the tensor cores, where there is one for the type.
  const double efficiency = !narrow ? 0.3 : device.sm >= 80 ? 0.25 : 0.05;
  return cpu::streaming_work(graph, group, flops, efficiency);
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

template <class T>
Address add_table(Kernel& kernel, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return add_constant(kernel, std::move(bytes));
}

/// The phases along one axis: each with its outputs, and the taps that they see.
struct AxisPhase {
  int first, count;
  std::vector<std::pair<int, int>> taps;  // of the filter, and the input less q
};
std::vector<AxisPhase> axis_phases(int out, int kernel, int stride, int dilation, int pad) {
  std::vector<AxisPhase> phases;
  for (int first = 0; first < std::min(stride, out); ++first) {
    AxisPhase phase{first, (out - first + stride - 1) / stride, {}};
    for (int t = 0; t < kernel; ++t) {
      const int distance = first + pad - t * dilation;
      if (distance % stride == 0) phase.taps.emplace_back(t, distance / stride);
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

/// Do the tensor cores' kernel and what it reads fit together?
bool takes_mma(const Plan& plan, const Tensor& weights, const ConvTranspose& op, ValueId x) {
  return suits_mma(plan.device, op, plan.graph.value(x).dtype, weights.dtype(), weights.shape()) &&
         takes_vectors(plan, x, 8);
}

Kernel build_mma(const Plan& plan, const KernelPlan& kernel,
                 const device::ConvTransposeParameters& shape, const Tensor& weights) {
  const Group& group = kernel.group;
  const Group::Member& member = group.members.front();
  const Node& node = cpu::anchor_of(plan.graph, group);
  const std::int64_t inputs = weights.shape()[0], outputs = weights.shape()[1];
  device::ConvTransposeMmaParameters p{};
  p.x_n = shape.x_n;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    p.x_axis[axis] = shape.x_axis[axis];
    p.in[axis] = shape.in[axis];
    p.out[axis] = shape.out[axis];
    p.stride[axis] = shape.stride[axis];
  }
  p.images = static_cast<int>(plan.graph.value(member.result).shape[0]);
  p.inputs = static_cast<int>(inputs);
  p.depth = static_cast<int>((inputs + kDepth - 1) / kDepth * kDepth);
  p.padded_outputs = static_cast<int>((outputs + kTile - 1) / kTile * kTile);
  p.column_tiles = static_cast<int>(p.padded_outputs / kTile);

  std::array<std::vector<AxisPhase>, 3> along;
  for (std::size_t axis = 0; axis < 3; ++axis)
    along[axis] = axis_phases(shape.out[axis], shape.kernel[axis], shape.stride[axis],
                              shape.dilation[axis], shape.pad[axis]);
  const std::vector<float> from = load<float>(weights);
  const std::int64_t filter = shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  std::vector<float> packed;
  std::vector<device::TransposePhase> phases;
  std::vector<device::TransposeTap> taps;
  std::int64_t most_rows = 0;
  const auto add_tap = [&](std::int64_t t) {
    const std::size_t begin = packed.size();
    packed.resize(begin +
                  static_cast<std::size_t>(p.padded_outputs) * static_cast<std::size_t>(p.depth));
    for (std::int64_t c = 0; c < inputs; ++c) {
      for (std::int64_t k = 0; k < outputs; ++k)
        packed[begin + static_cast<std::size_t>(k * p.depth + c)] =
            from[static_cast<std::size_t>((c * outputs + k) * filter + t)];
    }
  };
  for (const AxisPhase& d : along[0]) {
    for (const AxisPhase& h : along[1]) {
      for (const AxisPhase& w : along[2]) {
        device::TransposePhase phase{{d.first, h.first, w.first},
                                     {d.count, h.count, w.count},
                                     static_cast<int>(taps.size()),
                                     0};
        for (const auto& [td, dd] : d.taps) {
          for (const auto& [th, dh] : h.taps) {
            for (const auto& [tw, dw] : w.taps) {
              taps.push_back({{dd, dh, dw}, 0});
              add_tap((td * shape.kernel[1] + th) * shape.kernel[2] + tw);
            }
          }
        }
        phase.tap_end = static_cast<int>(taps.size());
        phases.push_back(phase);
        most_rows =
            std::max(most_rows, static_cast<std::int64_t>(p.images) * d.count * h.count * w.count);
      }
    }
  }
  p.phases = static_cast<int>(phases.size());

  Kernel result;
  EpilogueEmitter epilogue(plan, kernel, result, 8);
  epilogue.add_bias(node.input(2));
  epilogue.add_steps(member);
  p.e = epilogue.parameters();
  p.y = output_parameters(plan, member.result);
  const bool vectors = takes_vectors(plan, member.result, 8);
  emit(result, "conv_transpose_mma", {"conv_transpose_mma.cuh"}, epilogue.source(),
       "ConvTransposeMmaParameters",
       fmt::format("conv_transpose_mma<{}, {}, Store::{}, Epilogue>", device_type(weights.dtype()),
                   device_type(plan.graph.value(member.result).dtype),
                   vectors ? "kVector" : "kEach"),
       128);
  result.grid.x = blocks_for(((most_rows + kTile - 1) / kTile) * p.phases * p.column_tiles, 1);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, node.inputs[0], result));
  const Tensor image = make_tensor(weights.dtype(), {std::ssize(packed)}, packed);
  const auto* begin = static_cast<const std::byte*>(image.data());
  parameters.point(p.w, add_constant(result, {begin, begin + image.bytes()}));
  parameters.point(p.phase, add_table(result, phases));
  parameters.point(p.tap, add_table(result, taps));
  parameters.point(p.y.data, {Address::Of::kOutput, cpu::output_index(group, member.result), 0});
  epilogue.point(parameters, p.e);
  parameters.move_to(result);
  return result;
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
  if (takes_mma(plan, weights, op, x_id) && element_count(plan.graph.value(y_id).shape) > 0 &&
      element_count(plan.graph.value(x_id).shape) > 0)
    return build_mma(plan, kernel, p, weights);
  const std::int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  p.w_channel = (p.outputs + 7) / 8 * 8;
  p.w_tap = p.w_channel * p.inputs;
  p.w_group = p.w_tap * taps;
  p.phases = std::min(p.stride[2], p.out[2]);
  const int pixels_of_phase = (p.out[2] + p.stride[2] - 1) / p.stride[2];
  // Vectors of channels begin at multiples of their length, in every group.
  int vector = 8;
  while (vector > 1 && (p.groups > 1 ? p.outputs % vector != 0 : p.outputs < vector)) vector /= 2;
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
  KernelFamily family = image_family("conv_transpose");
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
