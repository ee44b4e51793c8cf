#include "kernels/cuda/cudnn_problem.hpp"

#include <fmt/format.h>

namespace braze::cuda {
namespace {

std::string list_text(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values)
    text += fmt::format("{}{}", text.empty() ? "" : ",", value);
  return text;
}

std::string tensor_text(const CudnnTensor& tensor) {
  return fmt::format("{}[{}]/[{}]@{}", to_string(tensor.dtype), list_text(tensor.extents),
                     list_text(tensor.strides), tensor.alignment);
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
                  tensor_text(problem.x), tensor_text(problem.w), tensor_text(problem.y),
                  list_text(problem.pads_begin), list_text(problem.pads_end),
                  list_text(problem.strides), list_text(problem.dilations));
  for (const CudnnStep& step : problem.steps) {
    text += fmt::format(" {}", name_of(step.mode));
    if (step.lower) text += fmt::format(" lower {}", *step.lower);
    if (step.upper) text += fmt::format(" upper {}", *step.upper);
    if (step.slope) text += fmt::format(" slope {}", *step.slope);
    if (step.alpha) text += fmt::format(" alpha {}", *step.alpha);
    if (step.operand) text += fmt::format(" {}", tensor_text(*step.operand));
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
