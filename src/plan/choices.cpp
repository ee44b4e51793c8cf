#include "plan/choices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/print.hpp"
#include "plan/make_plan.hpp"
#include "plan/parts.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

/// Bytes a group reads and writes, each value and each constant of its nodes once.
double traffic(const Plan& plan, const Group& group) {
  std::set<ValueId> values(group.inputs.begin(), group.inputs.end());
  values.insert(group.outputs.begin(), group.outputs.end());
  for (const Group::Member& member : group.members) {
    for (const ValueId input : plan.graph.node(member.anchor).inputs) {
      if (input != kNoValue && plan.graph.value(input).is_constant()) values.insert(input);
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

/// Results of members and of epilogue steps that a step by step execution would have written and
/// read again; what is a part of another one is not counted twice.
double bytes_kept(const Plan& plan, const Group& group) {
  double bytes = 0;
  const std::map<ValueId, PartOf> parts = parts_of(plan.graph, group);
  for (const Group::Member& member : group.members) {
    const Value& value = plan.graph.value(member.result);
    const bool stored = std::ranges::find(group.outputs, member.result) != group.outputs.end() ||
                        parts.contains(member.result);
    const std::size_t inside = stored ? 0 : 1;
    bytes += static_cast<double>(member.epilogue.steps.size() + inside) *
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

/// Adds a family's candidates for the group to the ways from number `first` on, which are in the
/// order of their estimates; equal ones in the order they come.
void add_ways(std::vector<Way>& ways, std::size_t first, const Plan& plan, const Group& group,
              const KernelFamily& family) {
  std::vector<Candidate> candidates;
  if (family.candidates != nullptr && !group.members.empty())
    candidates = family.candidates(plan.graph, group, plan.device);
  if (candidates.empty()) candidates.emplace_back();
  for (Candidate& candidate : candidates) {
    Way way{&family, std::move(candidate), {}, 0};
    if (family.work != nullptr && !group.members.empty())
      way.work = family.work(plan.graph, group, way.candidate, plan.device);
    way.work.dram_bytes = traffic(plan, group);
    way.work.onchip_bytes = bytes_kept(plan, group);
    way.est_us = estimate_us(way.work, compute_type(plan, group), plan.device);
    const auto begin = ways.begin() + static_cast<std::ptrdiff_t>(first);
    ways.insert(std::ranges::upper_bound(begin, ways.end(), way.est_us, {}, &Way::est_us),
                std::move(way));
  }
}

bool has_gaps(const Plan& plan, ValueId id) {
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  const Value& value = plan.graph.value(id);
  return placement.layout == Layout::kChannelsLast && placement.pitch != value.shape[1];
}

/// Does the family take the steps of a member one after another?
bool takes_steps(const Plan& plan, const KernelFamily& family, const Group::Member& member) {
  if (family.takes_step == nullptr) return true;
  Group::Member grown{member.anchor, {}, plan.graph.node(member.anchor).output()};
  for (const EpilogueStep& step : member.epilogue.steps) {
    if (!family.takes_step(plan.graph, grown, step, plan.device).ok) return false;
    grown.epilogue.steps.push_back(step);
    grown.result = plan.graph.node(step.node).output();
  }
  return true;
}

/// May `other` run a group of `own` as it lies in memory? Only families that read and write every
/// layout are asked, and none that is a last resort.
bool takes_over(const Plan& plan, const KernelPlan& kernel, const KernelFamily& own,
                const KernelFamily& other) {
  const Group& group = kernel.group;
  if (other.name == own.name || other.backend != own.backend || !group.single() ||
      kernel.kind == KernelKind::kRelayout || kernel.kind == KernelKind::kReference ||
      other.name == "reference" || other.layouts != LayoutRule::kEach)
    return false;
  const std::vector<EpilogueStep>& steps = group.members[0].epilogue.steps;
  const auto operands = std::ranges::count_if(
      steps, [](const EpilogueStep& step) { return step.operand != kNoValue; });
  const bool converts = !group.casts.empty() || (!steps.empty() && steps.back().cast);
  const bool gaps =
      std::ranges::any_of(group.inputs, [&](ValueId id) { return has_gaps(plan, id); }) ||
      std::ranges::any_of(group.outputs, [&](ValueId id) { return has_gaps(plan, id); });
  const std::int64_t most = other.most_steps + (!steps.empty() && steps.back().cast ? 1 : 0);
  if ((!steps.empty() && !other.epilogue) || std::ssize(steps) > most ||
      operands > other.most_operands || (converts && !other.converts) || (gaps && !other.pitched))
    return false;
  return takes_steps(plan, other, group.members[0]) &&
         other.supports(plan.graph, plan.graph.node(group.members[0].anchor), plan.device).ok;
}

/// Names values by the order in which a group's description meets them.
class Describer {
 public:
  Describer(const Plan& plan, const Group& group) : plan_(plan), group_(group) {}

  std::string describe() {
    std::string text;
    if (plan_.device.tf32 && compute_type(plan_, group_) == DType::kFloat32) text += "tf32 ";
    if (group_.members.empty()) text += fmt::format("Copy({}); ", name(group_.inputs[0]));
    for (const NodeId cast : group_.casts) text += fmt::format("{}; ", node(cast));
    for (const Group::Member& member : group_.members) {
      text += node(member.anchor);
      if (!member.epilogue.empty()) text += fmt::format(" {}", print(member.epilogue));
      for (const EpilogueStep& step : member.epilogue.steps) {
        if (step.operand != kNoValue) text += fmt::format(" {}", name(step.operand));
      }
      text += fmt::format(" -> {}; ", name(member.result));
    }
    text += "stores";
    for (const ValueId id : group_.outputs) text += fmt::format(" {}", name(id));
    return text + values_;
  }

 private:
  std::string node(NodeId id) {
    const Node& node = plan_.graph.node(id);
    std::vector<std::string> operands;
    for (const ValueId input : node.inputs)
      operands.push_back(input == kNoValue ? "_" : name(input));
    return fmt::format("{}{}({})", to_string(node.kind()), print_attributes(node.op),
                       fmt::join(operands, " "));
  }

  std::string name(ValueId id) {
    const auto [found, added] = names_.try_emplace(id, fmt::format("v{}", names_.size()));
    if (added) values_ += fmt::format("; {} {}", found->second, description(id));
    return found->second;
  }

  /// "float16[1,64,56,56] channels-last 128+64": pitch, and bytes past a multiple of 16.
  std::string description(ValueId id) const {
    const Value& value = plan_.graph.value(id);
    std::string text = fmt::format("{}{}", to_string(value.dtype), to_string(value.shape));
    if (value.is_constant()) return fmt::format("{} constant", text);
    const auto in = [id](const std::vector<ValueId>& ids) {
      return std::ranges::find(ids, id) != ids.end();
    };
    if (!in(group_.inputs) && !in(group_.outputs)) return text;  // never in memory
    const Placement& placement = plan_.placements[static_cast<std::size_t>(id)];
    if (placement.layout == Layout::kChannelsLast)
      text += fmt::format(" channels-last {}", placement.pitch);
    std::int64_t offset = 0;
    for (ValueId part = id; plan_.placements[static_cast<std::size_t>(part)].view_of != kNoValue;
         part = plan_.placements[static_cast<std::size_t>(part)].view_of)
      offset += plan_.placements[static_cast<std::size_t>(part)].offset;
    if (offset % 16 != 0) text += fmt::format("+{}", offset % 16);
    return text;
  }

  const Plan& plan_;
  const Group& group_;
  std::map<ValueId, std::string> names_;
  std::string values_;
};

}  // namespace

std::vector<Way> ways_of(const Plan& plan, const KernelPlan& kernel, const Registry& registry,
                         const Knowledge& knowledge) {
  std::vector<Way> ways;
  const KernelFamily& own = family_of(registry, kernel.family);
  add_ways(ways, 0, plan, kernel.group, own);
  if (knowledge.measurements == nullptr) return ways;
  const std::size_t others = ways.size();
  for (const KernelFamily& row : registry) {
    if (takes_over(plan, kernel, own, row)) add_ways(ways, others, plan, kernel.group, row);
  }
  for (const Alternative& alternative : knowledge.alternatives) {
    if (alternative.family != own.name && alternative.takes(plan, kernel.group).ok)
      add_ways(ways, others, plan, kernel.group, family_of(registry, alternative.family));
  }
  return ways;
}

std::string name_of(std::string_view family, const Candidate& candidate) {
  std::string text(family);
  for (const Candidate::Parameter& parameter : candidate.parameters)
    text += fmt::format(" {}={}", parameter.name, parameter.value);
  return text;
}

std::string problem_text(const Plan& plan, const KernelPlan& kernel) {
  return Describer(plan, kernel.group).describe();
}

void take(KernelPlan& kernel, const Way& way) {
  kernel.family = way.family->name;
  kernel.backend = way.family->backend;
  kernel.candidate = way.candidate;
  kernel.work = way.work;
  kernel.est_us = way.est_us;
}

}  // namespace braze
