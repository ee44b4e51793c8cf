#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/make_plan.hpp"

namespace braze {
namespace {

const char* to_string(Layout layout) {
  return layout == Layout::kModel ? "model" : "channels-last";
}

const char* to_string(Memory memory) {
  switch (memory) {
    case Memory::kNone:
      return "none";
    case Memory::kConstant:
      return "constant";
    case Memory::kInput:
      return "input";
    case Memory::kOutput:
      return "output";
    case Memory::kArena:
      return "arena";
  }
  return "?";
}

/// Of a member's anchor.
const char* name_of(const Node& node) {
  const auto* binary = node.as<Binary>();
  return binary != nullptr ? braze::to_string(binary->fn) : braze::to_string(node.kind());
}

std::string print_value(const Plan& plan, ValueId id) {
  const Value& value = plan.graph.value(id);
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  std::string text = fmt::format("%{} {} {} {}", value.name, braze::to_string(value.dtype),
                                 braze::to_string(value.shape), to_string(placement.layout));
  if (placement.layout == Layout::kChannelsLast && placement.pitch != value.shape[1])
    text += fmt::format(" pitch {}", placement.pitch);
  return text + fmt::format(" {}+{}", to_string(placement.memory), placement.offset);
}

}  // namespace

const char* to_string(KernelKind kind) {
  switch (kind) {
    case KernelKind::kSingle:
      return "single";
    case KernelKind::kEpilogue:
      return "epilogue";
    case KernelKind::kGroup:
      return "group";
    case KernelKind::kRelayout:
      return "relayout";
    case KernelKind::kReference:
      return "reference";
  }
  return "?";
}

std::string describe(const Plan& plan, const KernelPlan& kernel) {
  const auto layout = [&plan](const std::vector<ValueId>& ids) {
    return ids.empty() ? "-" : to_string(plan.placements[static_cast<std::size_t>(ids[0])].layout);
  };
  std::string text =
      fmt::format("{} -> {}", layout(kernel.group.inputs), layout(kernel.group.outputs));
  for (const Group::Member& member : kernel.group.members) {
    if (!kernel.group.single())
      text += fmt::format("; {}", name_of(plan.graph.node(member.anchor)));
    if (!member.epilogue.empty())
      text += fmt::format("{} {}", kernel.group.single() ? ";" : "", print(member.epilogue));
  }
  if (!kernel.candidate.algorithm.empty()) text += fmt::format("; {}", kernel.candidate.algorithm);
  for (const Candidate::Parameter& parameter : kernel.candidate.parameters)
    text += fmt::format("; {} {}", parameter.name, parameter.value);
  if (kernel.stream != 0) text += fmt::format("; stream {}", kernel.stream);
  std::vector<std::string> waits;
  for (const std::int32_t other : kernel.waits)
    waits.push_back(plan.kernels[static_cast<std::size_t>(other)].name);
  if (!waits.empty()) text += fmt::format("; after {}", fmt::join(waits, ", "));
  return text;
}

std::string print(const Plan& plan) {
  std::string text =
      fmt::format("plan for {}: {} kernels, arena {} bytes, largest live set {} bytes\n",
                  plan.device.name, plan.kernels.size(), plan.arena_bytes, plan.largest_live_bytes);
  for (const KernelPlan& kernel : plan.kernels) {
    text += fmt::format("{} {} [{}] {}\n", kernel.name, to_string(kernel.kind),
                        fmt::join(kernel.nodes, ", "), describe(plan, kernel));
    for (const ValueId id : kernel.group.inputs)
      text += fmt::format("    in  {}\n", print_value(plan, id));
    for (const ValueId id : kernel.group.outputs)
      text += fmt::format("    out {}\n", print_value(plan, id));
  }
  for (const Folded& entry : plan.folded)
    text += fmt::format("folded {} into {}\n", entry.node, entry.into);
  for (const Refusal& refusal : plan.not_fused)
    text += fmt::format("not fused [{}] {}: {}\n", fmt::join(refusal.nodes, ", "), refusal.rule,
                        refusal.reason);
  return text;
}

}  // namespace braze
