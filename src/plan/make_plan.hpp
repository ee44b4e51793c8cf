// Graph + device + options -> plan.
#pragma once

#include "plan/choices.hpp"
#include "plan/plan.hpp"

namespace braze {

/// Plans a resolved, simplified graph. Pure: the same arguments give the same plan. kUnsupported
/// naming a node that no family runs.
Plan make_plan(const Graph& graph, const Device& device, const PlanOptions& options,
               const Registry& registry, const Knowledge& knowledge = {});

/// The plan as text: kernels with layouts and memory, folded nodes, refusals.
std::string print(const Plan& plan);

/// Seconds-scale model of a kernel's time on a device, in microseconds:
///   max(flops / (efficiency * peak), dram_bytes / bandwidth, shortest kernel) + launch.
/// Left out: cache reuse between kernels, imbalance between workers, frequency changes.
double estimate_us(const Work& work, DType compute, const Device& device);

/// "in: channels-last, out: model; add(channel) relu"
std::string describe(const Plan& plan, const KernelPlan& kernel);

}  // namespace braze
