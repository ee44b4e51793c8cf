#include "select.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"

namespace braze {
namespace {

/// The number that `text` is all of, or -1.
int parse_number(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? number : -1;
}

}  // namespace

Device select_device(const Options& options) {
  const std::string_view name = options.device;
  if (options.threads < 0)
    fail(ErrorCode::kUsage, "threads is {}; expected 0 (all) or more", options.threads);
  if (name == "cpu") return cpu_device(options.threads);
  constexpr std::string_view kArchitecture = "cuda:sm_";
  if (name.starts_with(kArchitecture) && parse_number(name.substr(kArchitecture.size())) >= 0) {
    return cuda_device(parse_number(name.substr(kArchitecture.size())));
  }
  if (name == "cuda" || (name.starts_with("cuda:") && parse_number(name.substr(5)) >= 0)) {
    fail(ErrorCode::kDevice,
         "device '{}' cannot be used: this build of Braze has kernels for the CPU only", name);
  }
  fail(ErrorCode::kUsage, "device '{}' is unknown; expected cpu, cuda, cuda:N or cuda:sm_XX", name);
}

void check_supported(const Options& options, const Device& device) {
  if (device.kind == DeviceKind::kCuda) {
    fail(ErrorCode::kUnsupported, "device '{}': this build of Braze has kernels for the CPU only",
         device.name);
  }
  if (options.precision != Precision::kFp32)
    fail(ErrorCode::kUnsupported, "the CPU computes in fp32; --precision asks for another type");
  if (options.backend == Backend::kCudnn)
    fail(ErrorCode::kUnsupported, "the cudnn backend needs --device cuda");
  if (!(options.max_error > 0))
    fail(ErrorCode::kUsage, "max-error is {}; expected a number above 0", options.max_error);
}

PassOptions pass_options(const Options& options, const Device& device) {
  PassOptions passes;
  passes.disabled = options.disabled_passes;
  passes.promote_half = device.kind == DeviceKind::kCpu;
  return passes;
}

PlanOptions plan_options(const Options& options) {
  PlanOptions plan;
  switch (options.fusion) {
    case Fusion::kOff:
      plan.fusion = FusionLevel::kOff;
      break;
    case Fusion::kEpilogue:
      plan.fusion = FusionLevel::kEpilogue;
      break;
    case Fusion::kFull:
      plan.fusion = FusionLevel::kFull;
      break;
  }
  plan.nhwc_io = options.nhwc_io;
  return plan;
}

void bind_constants(Graph& graph, const std::map<std::string, Tensor>& constants) {
  for (const auto& [name, tensor] : constants) {
    const auto found = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                    [&](ValueId id) { return graph.value(id).name == name; });
    if (found == graph.inputs.end())
      fail(ErrorCode::kUsage, "the model has no input '{}' to bind to a constant", name);
    Value& value = graph.value(*found);
    if (tensor.dtype() != value.dtype || tensor.shape() != value.shape) {
      fail(ErrorCode::kInput, "input '{}' is {} {}; expected {} {}", name,
           to_string(tensor.dtype()), to_string(tensor.shape()), to_string(value.dtype),
           to_string(value.shape));
    }
    value.constant = tensor.clone();
    graph.inputs.erase(found);
  }
  graph.touch();
}

}  // namespace braze
