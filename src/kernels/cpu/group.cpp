#include "kernels/cpu/group.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace braze::cpu {

Operand operand_of(const Plan& plan, const Group& group, ValueId id) {
  Operand operand;
  if (id == kNoValue) return operand;
  const auto found = std::find(group.inputs.begin(), group.inputs.end(), id);
  if (found != group.inputs.end()) {
    operand.input = static_cast<int>(found - group.inputs.begin());
    return operand;
  }
  const Value& value = plan.graph.value(id);
  ensure(value.is_constant(), "an operand is a constant or an input of its group");
  operand.constant = *value.constant;
  return operand;
}

const Node& anchor_of(const Graph& graph, const Group& group) {
  ensure(group.single(), "this family runs groups of one member");
  return graph.node(group.members.front().anchor);
}

ValueId stored_output(const Graph& graph, const Group& group, std::size_t index) {
  const Node& node = anchor_of(graph, group);
  const ValueId id = index == 0 && !group.members.front().epilogue.empty()
                         ? group.members.front().result
                         : node.output(index);
  return output_index(group, id) >= 0 ? id : kNoValue;
}

int output_index(const Group& group, ValueId id) {
  const auto found = std::find(group.outputs.begin(), group.outputs.end(), id);
  return id == kNoValue || found == group.outputs.end()
             ? -1
             : static_cast<int>(found - group.outputs.begin());
}

double bytes_of(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return static_cast<double>(element_count(value.shape)) *
         static_cast<double>(size_of(value.dtype));
}

double bytes_moved(const Graph& graph, const Group& group) {
  std::set<ValueId> values(group.inputs.begin(), group.inputs.end());
  values.insert(group.outputs.begin(), group.outputs.end());
  const auto add_constant = [&](ValueId id) {
    if (id != kNoValue && graph.value(id).is_constant()) values.insert(id);
  };
  for (const Group::Member& member : group.members) {
    for (const ValueId id : graph.node(member.anchor).inputs) add_constant(id);
    for (const EpilogueStep& step : member.epilogue.steps) add_constant(step.operand);
  }
  double bytes = 0;
  for (const ValueId id : values) bytes += bytes_of(graph, id);
  return bytes;
}

Work streaming_work(const Graph& graph, const Group& group, double flops, double efficiency) {
  Work work;
  work.flops = flops;
  work.dram_bytes = bytes_moved(graph, group);
  work.efficiency = efficiency;
  return work;
}

std::vector<Candidate> only_candidate(const Graph&, const Group&, const Device&) {
  return {Candidate{}};
}

}  // namespace braze::cpu
