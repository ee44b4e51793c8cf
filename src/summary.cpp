// The plan as users see it.
#include <algorithm>

#include "base/error.hpp"
#include "plan/make_plan.hpp"
#include "state.hpp"

namespace braze {
namespace {

TensorInfo info_of(const Plan& plan, std::string name, ValueId id) {
  const Value& value = plan.graph.value(id);
  Shape shape = value.shape;
  if (plan.options.nhwc_io && shape.size() >= 3)
    std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return {std::move(name), value.dtype, std::move(shape)};
}

}  // namespace

void describe(Model::State& state) {
  const Plan& plan = state.program->plan();
  for (const ValueId id : plan.graph.inputs)
    state.inputs.push_back(info_of(plan, plan.graph.value(id).name, id));
  for (const GraphOutput& output : plan.graph.outputs)
    state.outputs.push_back(info_of(plan, output.name, output.value));

  PlanSummary& summary = state.summary;
  summary.device = plan.device.name;
  summary.nhwc_io = plan.options.nhwc_io;
  for (const KernelPlan& kernel : plan.kernels) {
    summary.kernels.push_back({.name = kernel.name,
                               .backend = kernel.backend,
                               .family = kernel.family,
                               .detail = describe(plan, kernel),
                               .nodes = kernel.nodes,
                               .kind = to_string(kernel.kind),
                               .flops = kernel.work.flops,
                               .dram_bytes = kernel.work.dram_bytes,
                               .onchip_bytes = kernel.work.onchip_bytes,
                               .est_us = kernel.est_us,
                               .measured = kernel.measured,
                               .stream = kernel.stream,
                               .waits = {}});
    for (const std::int32_t other : kernel.waits)
      summary.kernels.back().waits.push_back(plan.kernels[static_cast<std::size_t>(other)].name);
  }
  for (const Folded& folded : plan.folded) summary.folded.push_back({folded.node, folded.into});
  for (const Refusal& refusal : plan.not_fused)
    summary.not_fused.push_back({refusal.nodes, refusal.rule, refusal.reason});
  summary.launches = static_cast<std::int64_t>(plan.kernels.size());
  summary.peak_bytes = plan.arena_bytes;
  summary.largest_live_bytes = plan.largest_live_bytes;
  for (ValueId id = 0; id < plan.graph.value_count(); ++id) {
    const Value& value = plan.graph.value(id);
    if (value.is_constant())
      summary.constant_bytes += static_cast<std::int64_t>(value.constant->bytes());
  }
}

}  // namespace braze
