// What the planner asks a kernel family: can you run this group, how, and at what cost?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "target/device.hpp"
#include "target/epilogue.hpp"

namespace braze {

/// Where a value's elements lie. Images only (rank >= 3) may be channels-last.
enum class Layout : std::uint8_t {
  kModel,         // row-major in the logical order, [N, C, spatial...]
  kChannelsLast,  // [N, spatial..., C], `pitch` elements from one pixel to the next
};

/// A connected sub-graph run as one kernel. One anchor and its epilogue, or several anchors in a
/// chain: the same thing with more members.
struct Group {
  struct Member {
    NodeId anchor = kNoNode;    // Conv, Pool, MatMul, pointwise head, ...
    Epilogue epilogue;          // on its result
    ValueId result = kNoValue;  // what is left after the epilogue
  };
  std::vector<Member> members;  // in order of execution
  std::vector<ValueId> inputs;  // read from memory: non-constant inputs of the members, each once,
                                // then epilogue operands
  std::vector<NodeId> casts;    // Casts done while loading: an input of the group is the operand of
                                // one, and the members read its result
  std::vector<ValueId>
      outputs;  // stored: the last member's result(s), and intermediates that others need

  [[nodiscard]] bool single() const { return members.size() == 1; }
};

struct Support {
  bool ok = true;
  std::string rule;    // "channel-limit"
  std::string reason;  // for people: what was found, what the family takes
  static Support yes() { return {}; }
  static Support no(std::string rule, std::string reason) {
    return {false, std::move(rule), std::move(reason)};
  }
};

/// Which layouts a family reads and writes.
enum class LayoutRule : std::uint8_t {
  kModelOnly,     // every image in model layout
  kChannelsLast,  // every image channels-last
  kEach,          // each input and output in either layout, independently
  kSame,          // all images in one layout, whichever
};

/// A point in a family's space of implementations. Meaning of the numbers is the family's own;
/// printed by name in plans.
struct Candidate {
  struct Parameter {
    std::string name;
    std::int64_t value = 0;
  };
  std::vector<Parameter> parameters;
  std::string algorithm = {};  // for people, where it is not the obvious one: "winograd F(4x4,3x3)"
  [[nodiscard]] std::int64_t get(std::string_view name, std::int64_t otherwise = 0) const;
};

/// How a kernel of several members walks over its last result: tiles of rows x columns, each with
/// all that it needs of the members before (plan/tile.hpp).
struct Tiling {
  std::int64_t rows = 0, columns = 0;  // at once
  // Tiles follow one another downwards within a band of so many rows of the result, and rows of
  // intermediates stay on chip for the next tile; 0: no tile knows of another one.
  std::int64_t band = 0;
};

/// Work and traffic of a group under a candidate. The planner turns it into time with a Device.
struct Work {
  double flops = 0;         // including recomputed halo
  double dram_bytes = 0;    // inputs + outputs + weights, each once
  double onchip_bytes = 0;  // intermediate bytes never written to memory
  double efficiency = 1;    // fraction of the peak rate the inner loop reaches, 0..1
  double units = 0;         // CUDA: multiprocessors that its blocks would fill; 0: not told
};

inline constexpr int kNoLimit = 1 << 30;

/// One row of a registry: a kernel family and what the planner must know of it.
struct KernelFamily {
  std::string_view name;     // "conv_direct"
  std::string_view backend;  // "cpu", "cuda", "cudnn"
  LayoutRule layouts = LayoutRule::kModelOnly;
  bool epilogue = false;         // takes any Epilogue on its single output
  int most_steps = kNoLimit;     // of an epilogue
  int most_operands = kNoLimit;  // of those that have one, likewise
  bool pitched = false;   // reads and writes channels-last with pitch > C (channel-offset views)
  bool converts = false;  // reads inputs of other float types than the members compute in, and
                          // stores its result as another
  bool in_place = false;  // may write its output over its first input when layouts agree
  bool stores = false;    // of a group of several members it stores intermediates that others need
  bool wanted = false;    // why it does not run a node is recorded in Plan::not_fused
  /// Is this node, with its dtypes and constness, something the family runs as a group's anchor?
  Support (*supports)(const Graph& graph, const Node& anchor, const Device& device) = nullptr;
  /// Is it faster, by estimate, than the families after it? Null: always. A node for which it is
  /// not goes to a later one, unless somebody measured.
  Support (*pays)(const Graph& graph, const Node& anchor, const Device& device) = nullptr;
  /// Does the family run this group of several members? Null: none. A refusal with a rule is of a
  /// group that has the family's shape, and is recorded; one without is of a group that has not.
  Support (*joins)(const Graph& graph, const Group& group, const Device& device) = nullptr;
  /// May this step follow the member as it is so far? Null: any may.
  Support (*takes_step)(const Graph& graph, const Group::Member& member, const EpilogueStep& step,
                        const Device& device) = nullptr;
  std::vector<Candidate> (*candidates)(const Graph& graph, const Group& group,
                                       const Device& device) = nullptr;
  Work (*work)(const Graph& graph, const Group& group, const Candidate& candidate,
               const Device& device) = nullptr;
  /// The layout that this group needs of an image that it reads or stores, where that depends on
  /// the group; nothing: either. Null: as `layouts` says.
  std::optional<Layout> (*layout_of)(const Graph& graph, const Group& group, ValueId id,
                                     const Device& device) = nullptr;
  /// Families that join and run tile by tile: the tiles of a candidate.
  Tiling (*tiling)(const Graph& graph, const Group& group, const Candidate& candidate,
                   const Device& device) = nullptr;
};

/// Families in order of preference: the first that supports an anchor wins unless cost says
/// otherwise.
using Registry = std::vector<KernelFamily>;

}  // namespace braze
