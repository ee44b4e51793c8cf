// A plan: which kernels run, on what, in which memory. Plain data, printable, a pure function of
// (graph, device, options, database).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "target/problem.hpp"

namespace braze {

enum class FusionLevel : std::uint8_t { kOff, kEpilogue, kFull };

struct PlanOptions {
  FusionLevel fusion = FusionLevel::kFull;
  bool nhwc_io = false;  // --io-layout nhwc: graph inputs and outputs are channels-last too
  int streams = 0;       // most kernels at once on a GPU; 0: as many as pay
};

/// Where the bytes of a value are when the plan runs.
enum class Memory : std::uint8_t { kNone, kConstant, kInput, kOutput, kArena };

struct Placement {
  Memory memory = Memory::kNone;
  std::int32_t index = 0;   // kInput, kOutput: which one
  std::int64_t offset = 0;  // bytes from the start of the arena, or of the input or output
  std::int64_t bytes = 0;   // extent in memory, from the first to the last element
  Layout layout = Layout::kModel;
  std::int64_t pitch = 0;  // kChannelsLast: elements from one pixel to the next, >= C
  ValueId view_of =
      kNoValue;  // shares the bytes of this value (a reshape, or a channel slice of a concat)
};

enum class KernelKind : std::uint8_t { kSingle, kEpilogue, kGroup, kRelayout, kReference };
const char* to_string(KernelKind kind);

struct KernelPlan {
  std::string name;    // unique, e.g. "k3_conv_direct"
  std::string family;  // row of the registry
  std::string backend;
  KernelKind kind = KernelKind::kSingle;
  Group group;  // relayout: no members; inputs[0] is copied to outputs[0]
  Candidate candidate;
  Work work;
  double est_us = 0;               // estimated, or measured
  bool measured = false;           // est_us was measured
  std::vector<std::string> nodes;  // ids of the model nodes it does
  // Kernels of one stream run one after another, in the order of Plan::kernels; of others, only
  // those listed here are done before this one begins, and what those had to wait for.
  std::int32_t stream = 0;
  std::vector<std::int32_t> waits;  // kernels of other streams, ascending
};

/// A join that fits in shape but was not made.
struct Refusal {
  std::vector<std::string> nodes;
  std::string rule;
  std::string reason;
};

struct Plan {
  Graph graph;  // resolved, simplified, compacted; relayouts have made it no different: they are
                // kernels, not nodes
  Device device;
  PlanOptions options;
  std::vector<Placement>
      placements;                   // by ValueId; relayout copies are values appended to the graph
  std::vector<KernelPlan> kernels;  // in order of execution
  std::vector<Folded> folded;       // graph.folded plus nodes that became views
  std::vector<Refusal> not_fused;
  std::int64_t arena_bytes = 0;
  std::int64_t largest_live_bytes =
      0;  // largest sum found of intermediates that cannot share bytes: arena_bytes is no less
};

}  // namespace braze
