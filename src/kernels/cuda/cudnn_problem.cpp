#include "kernels/cuda/cudnn_problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace braze::cuda {
namespace {

std::string tensor_text(const CudnnTensor& tensor) {
  return fmt::format("{}[{}]/[{}]@{}", to_string(tensor.dtype), fmt::join(tensor.extents, ","),
                     fmt::join(tensor.strides, ","), tensor.alignment);
}

}  // namespace

const char* name_of(PointwiseMode mode) {
  switch (mode) {
    case PointwiseMode::kAdd:
      return "add";
    case PointwiseMode::kMul:
      return "mul";
    case PointwiseMode::kDiv:
      return "div";
    case PointwiseMode::kSub:
      return "sub";
    case PointwiseMode::kRelu:
      return "relu";
    case PointwiseMode::kTanh:
      return "tanh";
    case PointwiseMode::kSigmoid:
      return "sigmoid";
    case PointwiseMode::kElu:
      return "elu";
    case PointwiseMode::kGelu:
      return "gelu";
    case PointwiseMode::kSoftplus:
      return "softplus";
    case PointwiseMode::kSwish:
      return "swish";
    case PointwiseMode::kGeluTanh:
      return "gelu_tanh";
  }
  return "?";
}

std::string text_of(const CudnnProblem& problem) {
  std::string text =
      fmt::format("{}{} x {} w {} y {} pads {} {} strides {} dilations {}",
                  problem.transposed ? "transposed " : "", problem.tf32 ? "tf32" : "exact",
                  tensor_text(problem.x), tensor_text(problem.w), tensor_text(problem.y), problem.pads_begin,
                  problem.pads_end, problem.strides, problem.dilations);
  for (const CudnnStep& step : problem.steps) {
    text += fmt::format(" {}", name_of(step.mode));
    for (const auto& [name, value] : {std::pair("lower", step.lower),
                                      {"upper", step.upper},
                                      {"slope", step.slope},
                                      {"alpha", step.alpha}})
      if (value) text += fmt::format(" {} {}", name, *value);
    if (step.operand) text += " " + tensor_text(*step.operand);
  }
  return text;
}

std::vector<Address> addresses_of(const CudnnProblem& problem) {
  std::vector<Address> addresses = {problem.x.address, problem.w.address, problem.y.address};
  for (const CudnnStep& step : problem.steps)
    if (step.operand) addresses.push_back(step.operand->address);
  return addresses;
}

}  // namespace braze::cuda
