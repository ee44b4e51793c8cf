// From the user's options to those of the stages.
#pragma once

#include "braze/braze.hpp"
#include "passes/pipeline.hpp"
#include "plan/plan.hpp"
#include "target/device.hpp"

namespace braze {

/// kUnsupported for options that this device or build does not do, naming the option.
void check_supported(const Options& options, const Device& device);
PassOptions pass_options(const Options& options);
/// The float type that a network is computed in.
DType compute_type(const Options& options);
PlanOptions plan_options(const Options& options);
/// Graph inputs in `constants` become constants: they are no inputs any more. kUsage, kInput naming
/// the input.
void bind_constants(Graph& graph, const std::map<std::string, Tensor>& constants);

}  // namespace braze
