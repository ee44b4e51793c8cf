#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "plan/make_plan.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

/// Measured times closer than this are equal: the way that comes first is taken.
constexpr double kTie = 1.01;

/// The fastest of the measured ways; nothing if none was measured.
std::optional<Way> fastest_measured(const std::vector<Way>& ways, std::string_view problem,
                                    const Measurements& measurements) {
  std::vector<Way> measured;
  for (Way way : ways) {
    const std::optional<double> us = measurements.us(problem, name_of(way));
    if (!us) continue;
    way.est_us = *us;
    measured.push_back(std::move(way));
  }
  if (measured.empty()) return std::nullopt;
  const double least =
      std::ranges::min_element(measured, {}, [](const Way& way) { return way.est_us; })->est_us;
  return *std::ranges::find_if(measured,
                               [least](const Way& way) { return way.est_us <= least * kTie; });
}

}  // namespace

void choose_candidates(Plan& plan, const Registry& registry, const Knowledge& knowledge) {
  int number = 0;
  for (KernelPlan& kernel : plan.kernels) {
    const std::vector<Way> ways = ways_of(plan, kernel, registry, knowledge);
    std::optional<Way> fastest;
    if (knowledge.measurements != nullptr)
      fastest = fastest_measured(ways, problem_text(plan, kernel), *knowledge.measurements);
    take(kernel, fastest.value_or(ways.front()));
    kernel.measured = fastest.has_value();
    kernel.name = fmt::format("k{}_{}", number++, kernel.family);
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
  return std::max({compute_us, memory_us, device.kernel_us}) + device.launch_us;
}

}  // namespace braze
