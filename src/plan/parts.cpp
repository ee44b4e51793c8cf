#include "plan/parts.hpp"

#include <algorithm>

namespace braze {
namespace {

/// How often members read each value.
std::map<ValueId, int> count_reads(const Graph& graph, const Group& group) {
  std::map<ValueId, int> reads;
  for (const Group::Member& member : group.members) {
    for (const ValueId id : graph.node(member.anchor).inputs) ++reads[id];
    for (const EpilogueStep& step : member.epilogue.steps) ++reads[step.operand];
  }
  return reads;
}

bool is_stored(const Group& group, ValueId id) {
  return std::ranges::find(group.outputs, id) != group.outputs.end();
}

}  // namespace

std::int64_t first_channel(const Graph& graph, const Node& node, std::size_t index) {
  std::int64_t channel = 0;
  if (const auto* split = node.as<Split>()) {
    for (std::size_t i = 0; i < index; ++i) channel += split->sizes[i];
  } else {
    for (std::size_t i = 0; i < index; ++i) channel += graph.value(node.inputs[i]).shape[1];
  }
  return channel;
}

bool moves_channels(const Graph& graph, const Node& node) {
  if (node.inputs.empty() || node.outputs.empty()) return false;
  const Shape& x = graph.value(node.inputs[0]).shape;
  if (x.size() != 4) return false;
  if (const auto* concat = node.as<Concat>()) return concat->axis == 1;
  if (const auto* split = node.as<Split>()) return split->axis == 1;
  if (node.as<Slice>() == nullptr) return false;
  const Shape& y = graph.value(node.output()).shape;
  const auto* slice = node.as<Slice>();
  for (const std::size_t axis : {0U, 2U, 3U}) {
    if (x[axis] != y[axis] || slice->steps[axis] != 1) return false;
  }
  return true;
}

bool is_zipped(const Graph& graph, const Group& group, const Node& concat) {
  if (concat.as<Concat>() == nullptr || !moves_channels(graph, concat) ||
      is_stored(group, concat.output()))
    return false;
  const auto channels = [&](ValueId id) { return graph.value(id).shape[1]; };
  const bool two_equal =
      concat.inputs.size() == 2 && channels(concat.inputs[0]) == channels(concat.inputs[1]);
  const bool all_even = std::ranges::all_of(
      concat.inputs, [&](ValueId id) { return channels(id) % 2 == 0 && channels(id) > 0; });
  int readers = 0;
  for (const Group::Member& member : group.members) {
    const Node& node = graph.node(member.anchor);
    const bool step = std::ranges::any_of(member.epilogue.steps, [&](const EpilogueStep& one) {
      return one.operand == concat.output();
    });
    if (!step && std::ranges::find(node.inputs, concat.output()) == node.inputs.end()) continue;
    const auto* shuffle = node.as<ChannelShuffle>();
    if (step || shuffle == nullptr || !member.epilogue.empty()) return false;
    const bool pairs = two_equal && shuffle->groups == 2;
    if (!pairs && !(all_even && 2 * shuffle->groups == channels(concat.output()))) return false;
    ++readers;
  }
  return readers == 1;
}

std::map<ValueId, PartOf> parts_of(const Graph& graph, const Group& group) {
  std::map<ValueId, PartOf> parts;
  for (const Group::Member& member : group.members) {
    const Node& node = graph.node(member.anchor);
    if (!moves_channels(graph, node) || !member.epilogue.empty() ||
        is_stored(group, member.result) || graph.value(node.inputs[0]).is_constant())
      continue;
    if (const auto* slice = node.as<Slice>(); slice != nullptr && slice->steps[1] == 1)
      parts[member.result] = {node.inputs[0], slice->starts[1]};
    if (node.as<Split>() != nullptr) {
      const auto output = std::ranges::find(node.outputs, member.result);
      parts[member.result] = {
          node.inputs[0],
          first_channel(graph, node, static_cast<std::size_t>(output - node.outputs.begin()))};
    }
  }
  const std::map<ValueId, int> reads = count_reads(graph, group);
  for (const Group::Member& member : group.members) {
    const Node& node = graph.node(member.anchor);
    if (node.as<Concat>() == nullptr || !moves_channels(graph, node) || !member.epilogue.empty() ||
        is_zipped(graph, group, node))
      continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      const bool made =
          std::ranges::find(group.members, id, &Group::Member::result) != group.members.end();
      if (made && !is_stored(group, id) && reads.at(id) == 1 && !parts.contains(id))
        parts[id] = {member.result, first_channel(graph, node, i)};
    }
  }
  return parts;
}

}  // namespace braze
