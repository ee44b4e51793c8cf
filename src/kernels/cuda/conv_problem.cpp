#include "kernels/cuda/conv_problem.hpp"

#include <fmt/format.h>

#include <limits>

#include "kernels/cuda/emit.hpp"
#include "kernels/strides.hpp"

namespace braze::cuda {

double ConvProblem::flops() const {
  return 2.0 * static_cast<double>(batch * pixels()) * static_cast<double>(groups * outputs) *
         static_cast<double>(channels * taps());
}

ConvProblem conv_problem(const Graph& graph, const Node& node) {
  const auto& op = *node.as<Conv>();
  const Shape& x = graph.value(node.input(0)).shape;
  const Shape& w = graph.value(node.input(1)).shape;
  const Shape& y = graph.value(node.output()).shape;
  ConvProblem problem;
  problem.batch = x[0];
  problem.groups = op.group;
  problem.channels = w[1];
  problem.outputs = w[0] / op.group;
  const std::size_t axes = x.size() - 2;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t at = 3 - axes + i;
    problem.in[at] = x[i + 2];
    problem.out[at] = y[i + 2];
    problem.kernel[at] = w[i + 2];
    problem.stride[at] = op.window.strides[i];
    problem.dilation[at] = op.window.dilations[i];
    problem.pad[at] = op.window.pads_begin[i];
  }
  return problem;
}

Support supports_conv(const Graph& graph, const Node& node) {
  if (node.kind() != OpKind::kConv) return Support::no("operator", "only Conv");
  const Value& x = graph.value(node.input(0));
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kFloat16 && x.dtype != DType::kBFloat16)
    return Support::no("dtype", fmt::format("{} is {}; only float, float16 and bfloat16", x.name,
                                            to_string(x.dtype)));
  if (x.shape.size() < 3 || x.shape.size() > 5)
    return Support::no("rank",
                       fmt::format("input {}; only 1 to 3 spatial axes", to_string(x.shape)));
  const ConvProblem problem = conv_problem(graph, node);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    constexpr std::int64_t kMost = 1 << 30;
    const std::int64_t reach = problem.in[axis] + problem.out[axis] * problem.stride[axis] +
                               problem.kernel[axis] * problem.dilation[axis] + problem.pad[axis];
    if (reach > kMost) return Support::no("extent", "the window reaches beyond 2^30");
  }
  if (problem.pixels() > std::numeric_limits<std::int32_t>::max())
    return Support::no("extent", "an image of the result has more than 2^31 pixels");
  return Support::yes();
}

StoreShape store_shape(const Plan& plan, ValueId result, std::int64_t groups,
                       std::int64_t outputs) {
  StoreShape shape;
  if (outputs % 8 != 0 && outputs % 4 == 0) {
    shape.vector = 4;
  } else if (outputs % 8 != 0 && groups > 1) {
    shape.vector = 1;  // a vector must not reach into the next group
  }
  shape.at_once = takes_vectors(plan, result, shape.vector);
  const Value& value = plan.graph.value(result);
  shape.along_pixels = image_strides(plan, result, value.shape).channel != 1;
  return shape;
}

}  // namespace braze::cuda
