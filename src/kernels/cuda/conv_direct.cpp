// The family that runs every convolution: see device/conv_direct.cuh.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/conv_problem.hpp"
#include "kernels/cuda/device/conv_direct_parameters.h"
#include "kernels/cuda/emit.hpp"
#include "kernels/cuda/families.hpp"

namespace braze::cuda {
namespace {

constexpr int kThreads = 256;

Support supports(const Graph& graph, const Node& node, const Device&) {
  return supports_conv(graph, node);
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const double flops = conv_problem(graph, cpu::anchor_of(graph, group)).flops();
  return cpu::streaming_work(graph, group, flops, 0.02);
}

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Weights as fp32 in the order [tap][channel][group, output], outputs of a group padded with zeros
/// to a multiple of `vector`.
std::vector<std::byte> pack(const ConvProblem& problem, const Tensor& weights, int vector) {
  const std::vector<float> values = load<float>(weights);
  const std::int64_t taps = problem.taps();
  const std::int64_t padded = round_up(problem.outputs, vector);
  const std::int64_t width = padded * problem.groups;
  std::vector<std::byte> bytes(static_cast<std::size_t>(taps * problem.channels * width) *
                               sizeof(float));
  auto* to = reinterpret_cast<float*>(bytes.data());
  for (std::int64_t k = 0; k < problem.groups * problem.outputs; ++k) {
    const std::int64_t column = k / problem.outputs * padded + k % problem.outputs;
    for (std::int64_t c = 0; c < problem.channels; ++c) {
      for (std::int64_t t = 0; t < taps; ++t) {
        to[(t * problem.channels + c) * width + column] =
            values[static_cast<std::size_t>((k * problem.channels + c) * taps + t)];
      }
    }
  }
  return bytes;
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const ConvProblem problem = conv_problem(plan.graph, node);
  const Group::Member& member = group.members.front();
  const ValueId x = loaded_value(plan, group, node.input(0));
  const ValueId w = loaded_value(plan, group, node.input(1));
  const Value& weights = plan.graph.value(w);
  const bool packed = weights.is_constant();
  const StoreShape store = store_shape(plan, member.result, problem.groups, problem.outputs);

  Kernel result;
  device::ConvDirectParameters p{};
  const cpu::Image image = cpu::image_of(plan, x);
  p.x_n = image.stride_n;
  p.x_channel = image.stride_c;
  p.x_axis[0] = image.stride_d, p.x_axis[1] = image.stride_h, p.x_axis[2] = image.stride_w;
  for (std::size_t i = 0; i < 3; ++i) {
    p.in[i] = static_cast<int>(problem.in[i]);
    p.out[i] = static_cast<int>(problem.out[i]);
    p.kernel[i] = static_cast<int>(problem.kernel[i]);
    p.stride[i] = static_cast<int>(problem.stride[i]);
    p.dilation[i] = static_cast<int>(problem.dilation[i]);
    p.pad[i] = static_cast<int>(problem.pad[i]);
  }
  p.groups = static_cast<int>(problem.groups);
  p.channels = static_cast<int>(problem.channels);
  p.outputs = static_cast<int>(problem.outputs);
  if (packed) {
    p.w_output = 1;
    p.w_channel = round_up(problem.outputs, store.vector) * problem.groups;
    p.w_tap = p.w_channel * problem.channels;
  } else {
    p.w_tap = 1;
    p.w_channel = problem.taps();
    p.w_output = problem.taps() * problem.channels;
  }
  const std::int64_t vectors = (problem.outputs + store.vector - 1) / store.vector * problem.groups;
  p.threads = problem.batch * problem.pixels() * vectors;
  p.y = output_parameters(plan, member.result);

  EpilogueEmitter epilogue(plan, kernel, result, store.vector);
  epilogue.add_bias(node.input(2));
  epilogue.add_steps(member);
  p.e = epilogue.parameters();

  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, node.input(0), result));
  parameters.point(p.w, packed
                            ? add_constant(result, pack(problem, *weights.constant, store.vector))
                            : address_of(plan, group, node.input(1), result));
  parameters.point(p.y.data, {Address::Of::kOutput, 0, 0});
  epilogue.point(parameters, p.e);
  parameters.move_to(result);

  const std::string call = fmt::format(
      "conv_direct<{}, {}, {}, {}, {}, {}, Store::{}, Epilogue>",
      device_type(plan.graph.value(x).dtype), packed ? "float" : device_type(weights.dtype),
      device_type(plan.graph.value(member.result).dtype), store.vector, packed, store.along_pixels,
      store.at_once ? "kVector" : "kEach");
  emit(result, "conv_direct_cuda", {"conv_direct.cuh"}, epilogue.source(), "ConvDirectParameters",
       call, kThreads);
  const std::int64_t blocks = (p.threads + kThreads - 1) / kThreads;
  if (blocks >= std::int64_t{1} << 31)
    fail(ErrorCode::kUnsupported, "'{}': the result is too large for one launch", node.id);
  result.grid.x = static_cast<std::uint32_t>(blocks);
  result.overlaps = true;
  return result;
}

}  // namespace

Row conv_direct_cuda() {
  KernelFamily family = image_family("conv_direct_cuda");
  family.supports = supports;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
