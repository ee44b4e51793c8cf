#include "plan/make_plan.hpp"
#include "plan/stages.hpp"

namespace braze {

Plan make_plan(const Graph& graph, const Device& device, const PlanOptions& options,
               const Registry& registry, const Knowledge& knowledge) {
  Plan plan;
  plan.graph = graph.compacted();
  plan.device = device;
  plan.options = options;
  form_groups(plan, registry);
  if (options.fusion == FusionLevel::kFull) join_groups(plan, registry);
  assign_layouts(plan, registry);
  make_views(plan, registry);
  choose_candidates(plan, registry, knowledge);
  assign_streams(plan);
  assign_memory(plan, registry);
  account_for_nodes(plan);
  return plan;
}

}  // namespace braze
