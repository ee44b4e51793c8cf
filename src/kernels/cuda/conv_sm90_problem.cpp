#include <cstddef>

#include "graph/window.hpp"
#include "kernels/cuda/conv_problem.hpp"
#include "kernels/cuda/conv_sm90.hpp"
#include "kernels/cuda/emit.hpp"

namespace braze::cuda {
bool ConvSm90Problem::pointwise() const {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (kernel[axis] != 1 || stride[axis] != 1 || pad[axis] != 0 || in[axis] != out[axis])
      return false;
  }
  return true;
}

double ConvSm90Problem::flops() const {
  return 2.0 * static_cast<double>(pixels()) * static_cast<double>(outputs) *
         static_cast<double>(channels * taps());
}

int ConvSm90Problem::step_bytes() const {
  // A step costs about as much as 32 bytes more of channels.
  const std::int64_t bytes = channels * static_cast<std::int64_t>(size_of(dtype));
  int best = 128;
  for (const int step : {64, 32}) {
    if (ceil_div(bytes, step) * (step + 32) < ceil_div(bytes, best) * (best + 32)) best = step;
  }
  return best;
}

std::int64_t ConvSm90Problem::step_channels() const {
  return step_bytes() / static_cast<std::int64_t>(size_of(dtype));
}

std::int64_t ConvSm90Problem::channel_blocks() const { return ceil_div(channels, step_channels()); }

ConvSm90Problem conv_sm90_problem(const Graph& graph, const Node& node) {
  ConvSm90Problem problem;
  const Value& x = graph.value(node.input(0));
  problem.dtype = x.dtype;
  if (node.kind() == OpKind::kConv) {
    const ConvProblem conv = conv_problem(graph, node);
    problem.batch = conv.batch;
    problem.channels = conv.channels;
    problem.outputs = conv.outputs;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      problem.in[axis] = conv.in[axis + 1];
      problem.out[axis] = conv.out[axis + 1];
      problem.kernel[axis] = conv.kernel[axis + 1];
      problem.stride[axis] = conv.stride[axis + 1];
      problem.dilation[axis] = conv.dilation[axis + 1];
      problem.pad[axis] = conv.pad[axis + 1];
    }
  } else {
    problem.in[1] = problem.out[1] = x.shape[0];
    problem.channels = x.shape[1];
    problem.outputs = graph.value(node.output()).shape[1];
  }
  return problem;
}

WeightStrides weight_strides(const ConvSm90Problem& problem, const Node& node) {
  const auto* gemm = node.as<Gemm>();
  if (node.kind() == OpKind::kMatMul || (gemm != nullptr && !gemm->trans_b))
    return {1, problem.outputs};
  return {problem.channels * problem.taps(), problem.taps()};
}

Address pack_bias(const Plan& plan, ValueId bias, std::int64_t channels, Kernel& kernel) {
  if (bias != kNoValue) return add_floats(kernel, *plan.graph.value(bias).constant, channels);
  return add_constant(kernel, std::vector<std::byte>(static_cast<std::size_t>(channels) * 4));
}

}  // namespace braze::cuda
