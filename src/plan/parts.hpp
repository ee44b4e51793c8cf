// Values of a group that lie inside of another one's pixels: nothing is copied for them.
#pragma once

#include <cstdint>
#include <map>

#include "target/problem.hpp"

namespace braze {

/// Channels [channel, channel + its own) of `whole`.
struct PartOf {
  ValueId whole = kNoValue;
  std::int64_t channel = 0;
};

/// The first channel of input `index` of a Concat along channels, or of output `index` of a Split.
std::int64_t first_channel(const Graph& graph, const Node& node, std::size_t index);

/// Is it a Slice along channels alone, a Split or a Concat along channels, of planes?
bool moves_channels(const Graph& graph, const Node& node);

/// Is this a Concat along channels that only a ChannelShuffle of the group reads, which might as
/// well read its inputs: it makes pairs of two of them, or takes them apart into pairs' first and
/// second channels? Then nobody makes its result.
bool is_zipped(const Graph& graph, const Group& group, const Node& concat);

/// By value, of results that the group does not store:
///   what a Slice or Split cuts out along channels is a part of what it is cut from;
///   what only a Concat along channels reads is a part of what that makes, unless it is zipped.
/// Whoever makes or reads such a part must take a pitch.
std::map<ValueId, PartOf> parts_of(const Graph& graph, const Group& group);

}  // namespace braze
