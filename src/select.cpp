#include "select.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace braze {
void check_supported(const Options& options, const Device& device) {
  if (device.kind == DeviceKind::kCpu && options.precision != Precision::kFp32)
    fail(ErrorCode::kUsage, "the CPU computes in fp32; --precision asks for another type");
  if (device.kind == DeviceKind::kCpu && options.backend == Backend::kCudnn)
    fail(ErrorCode::kUsage, "the cudnn backend needs --device cuda");
  if (options.streams < 0)
    fail(ErrorCode::kUsage, "streams is {}; expected 0 (as many as pay) or more", options.streams);
  if (!std::isfinite(options.max_error) || options.max_error <= 0)
    fail(ErrorCode::kUsage, "max-error is {}; expected a number above 0", options.max_error);
}

PassOptions pass_options(const Options& options) {
  PassOptions passes;
  passes.disabled = options.disabled_passes;
  passes.promote_half = true;  // passes reckon in float32; lower_precision() comes after them
  return passes;
}

DType compute_type(const Options& options) {
  if (options.precision == Precision::kFp16) return DType::kFloat16;
  if (options.precision == Precision::kBf16) return DType::kBFloat16;
  return DType::kFloat32;
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
  plan.streams = options.streams;
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
