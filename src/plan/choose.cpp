#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "plan/make_plan.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

/// Bytes a group reads and writes, each value and each constant of its nodes once.
double traffic(const Plan& plan, const Group& group) {
  std::set<ValueId> values(group.inputs.begin(), group.inputs.end());
  values.insert(group.outputs.begin(), group.outputs.end());
  for (const Group::Member& member : group.members) {
    for (const ValueId input : plan.graph.node(member.anchor).inputs) {
      if (input != kNoValue) values.insert(input);
    }
  }
  double bytes = 0;
  for (const ValueId id : values) {
    const Value& value = plan.graph.value(id);
    bytes +=
        static_cast<double>(element_count(value.shape)) * static_cast<double>(size_of(value.dtype));
  }
  return bytes;
}

/// Results of epilogue steps that a step by step execution would have written and read again.
double bytes_kept(const Plan& plan, const Group& group) {
  double bytes = 0;
  for (const Group::Member& member : group.members) {
    const Value& value = plan.graph.value(member.result);
    bytes += static_cast<double>(member.epilogue.steps.size()) *
             static_cast<double>(element_count(value.shape)) *
             static_cast<double>(size_of(value.dtype));
  }
  return bytes;
}

/// The type a group multiplies in.
DType compute_type(const Plan& plan, const Group& group) {
  if (group.members.empty()) return DType::kFloat32;
  const Node& anchor = plan.graph.node(group.members[0].anchor);
  return plan.graph.value(anchor.inputs.empty() ? anchor.output() : anchor.inputs[0]).dtype;
}

}  // namespace

void choose_candidates(Plan& plan, const Registry& registry) {
  int number = 0;
  for (KernelPlan& kernel : plan.kernels) {
    kernel.name = fmt::format("k{}_{}", number++, kernel.family);
    const KernelFamily& row = family_of(registry, kernel.family);
    kernel.est_us = -1;
    std::vector<Candidate> candidates;
    if (row.candidates != nullptr && !kernel.group.members.empty())
      candidates = row.candidates(plan.graph, kernel.group, plan.device);
    if (candidates.empty()) candidates.emplace_back();
    for (const Candidate& candidate : candidates) {
      Work work;
      if (row.work != nullptr && !kernel.group.members.empty())
        work = row.work(plan.graph, kernel.group, candidate, plan.device);
      work.dram_bytes = traffic(plan, kernel.group);
      work.onchip_bytes = bytes_kept(plan, kernel.group);
      const double us = estimate_us(work, compute_type(plan, kernel.group), plan.device);
      if (kernel.est_us >= 0 && us >= kernel.est_us) continue;
      kernel.est_us = us;
      kernel.work = work;
      kernel.candidate = candidate;
    }
  }
}

namespace {

/// The model node that a graph node is a part of: itself, or for a helper that a pass inserted
/// before the node that stands for the model node, that one.
std::string model_node(const Graph& graph, NodeId id) {
  while (graph.node(id).origins.empty()) {
    const std::vector<NodeId>& users = graph.users(graph.node(id).output());
    if (users.empty()) break;
    id = users.front();
  }
  const Node& node = graph.node(id);
  const bool itself = node.origins.empty() || std::find(node.origins.begin(), node.origins.end(),
                                                        node.id) != node.origins.end();
  return itself ? node.id : node.origins.front();
}

/// Refusals name nodes of the model.
void name_model_nodes(Plan& plan) {
  std::map<std::string, NodeId> node_of;
  for (const NodeId id : plan.graph.order()) node_of[plan.graph.node(id).id] = id;
  for (Refusal& refusal : plan.not_fused) {
    std::vector<std::string> named;
    for (const std::string& id : refusal.nodes) {
      const auto found = node_of.find(id);
      std::string name = found == node_of.end() ? id : model_node(plan.graph, found->second);
      if (std::find(named.begin(), named.end(), name) == named.end())
        named.push_back(std::move(name));
    }
    refusal.nodes = std::move(named);
  }
}

}  // namespace

void account_for_nodes(Plan& plan) {
  name_model_nodes(plan);
  plan.folded.insert(plan.folded.begin(), plan.graph.folded.begin(), plan.graph.folded.end());
  // A model node that several graph nodes stand for is listed where its last part runs.
  std::map<std::string, std::size_t> owner;
  std::vector<std::vector<std::string>> nodes(plan.kernels.size());
  const auto collect = [&](std::size_t k, NodeId id) {
    for (const std::string& origin : plan.graph.node(id).origins) {
      owner[origin] = k;
      nodes[k].push_back(origin);
    }
  };
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    for (const NodeId cast : plan.kernels[k].group.casts) collect(k, cast);
    for (const Group::Member& member : plan.kernels[k].group.members) {
      collect(k, member.anchor);
      for (const EpilogueStep& step : member.epilogue.steps) collect(k, step.node);
    }
  }
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    for (const std::string& origin : nodes[k]) {
      std::vector<std::string>& list = plan.kernels[k].nodes;
      if (owner[origin] == k && std::find(list.begin(), list.end(), origin) == list.end())
        list.push_back(origin);
    }
  }
  std::set<std::string> seen;
  std::erase_if(plan.folded, [&](const Folded& entry) {
    return owner.contains(entry.node) || !seen.insert(entry.node).second;
  });
}

double estimate_us(const Work& work, DType compute, const Device& device) {
  double peak = device.tf32 ? device.flops_tf32 : device.flops_fp32;
  if (compute == DType::kFloat16 || compute == DType::kBFloat16) peak = device.flops_fp16;
  if (compute == DType::kInt8 || compute == DType::kUInt8) peak = device.ops_int8;
  // Bytes that fit in the last-level cache are taken to be there.
  const double bandwidth =
      work.dram_bytes < device.cache_bytes ? device.cache_bandwidth : device.dram_bandwidth;
  const double compute_us = work.flops / (work.efficiency * peak) * 1e6;
  const double memory_us = work.dram_bytes / bandwidth * 1e6;
  return std::max(compute_us, memory_us) + device.launch_us;
}

}  // namespace braze
