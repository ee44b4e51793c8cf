// Groups of several members, for tests: kernels of a plan without chains, put together.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cuda/families.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::cuda::testing {

/// The network in `dtype` with one kernel for each anchor and its epilogue.
inline Plan plan_of_parts(Graph graph, DType dtype, int sm = 80) {
  if (dtype != DType::kFloat32) lower_precision(graph, dtype, true);
  Registry registry = cuda::registry();
  for (KernelFamily& family : registry) family.joins = nullptr;
  return make_plan(std::move(graph), cuda_device(sm), {FusionLevel::kFull, false}, registry);
}

/// All kernels between those that have the nodes `first` and `last`, as one group. What is read
/// outside of it is stored too.
inline Group chain_group(const Plan& plan, const std::string& first, const std::string& last) {
  const auto of = [&](const std::string& node) {
    const auto found = std::ranges::find_if(plan.kernels, [&](const KernelPlan& kernel) {
      return std::ranges::find(kernel.nodes, node) != kernel.nodes.end();
    });
    if (found == plan.kernels.end()) throw std::runtime_error("no node " + node);
    return static_cast<std::size_t>(found - plan.kernels.begin());
  };
  const std::size_t begin = of(first), end = of(last);
  const auto contains = [](const std::vector<ValueId>& ids, ValueId id) {
    return std::ranges::find(ids, id) != ids.end();
  };
  Group group;
  std::vector<ValueId> made;
  for (std::size_t k = begin; k <= end; ++k) {
    const Group& part = plan.kernels[k].group;
    group.members.insert(group.members.end(), part.members.begin(), part.members.end());
    group.casts.insert(group.casts.end(), part.casts.begin(), part.casts.end());
    for (const ValueId id : part.inputs) {
      if (!contains(made, id) && !contains(group.inputs, id)) group.inputs.push_back(id);
    }
    made.insert(made.end(), part.outputs.begin(), part.outputs.end());
  }
  for (const ValueId id : made) {
    bool outside = plan.graph.is_output(id) || id == group.members.back().result;
    for (std::size_t k = end + 1; k < plan.kernels.size(); ++k)
      outside = outside || contains(plan.kernels[k].group.inputs, id);
    if (outside) group.outputs.push_back(id);
  }
  return group;
}

}  // namespace braze::cuda::testing
