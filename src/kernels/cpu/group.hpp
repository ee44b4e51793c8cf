// What kernels ask about their group: the anchor, where an operand comes from, bytes moved.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/kernel.hpp"
#include "plan/plan.hpp"

namespace braze::cpu {

/// Where a value comes from when the kernel runs.
struct Operand {
  int input = -1;   // index in KernelArguments::inputs; -1: not read at run time
  Tensor constant;  // defined where the value is a constant

  [[nodiscard]] bool present() const { return input >= 0 || constant.defined(); }
  [[nodiscard]] const void* data(const KernelArguments& arguments) const {
    return input >= 0 ? arguments.inputs[static_cast<std::size_t>(input)] : constant.data();
  }
};

/// The operand `id` of a kernel; not present for kNoValue. kInternal if the group does not read it.
Operand operand_of(const Plan& plan, const Group& group, ValueId id);

/// The node of a group with one member.
const Node& anchor_of(const Graph& graph, const Group& group);

/// The value that a group with one member stores for output `index` of its anchor, after the
/// epilogue; kNoValue if it does not.
ValueId stored_output(const Graph& graph, const Group& group, std::size_t index = 0);

/// Index of a stored value in group.outputs, and so in KernelArguments::outputs; -1 if it is not
/// stored.
int output_index(const Group& group, ValueId id);

/// Bytes of a value's elements.
double bytes_of(const Graph& graph, ValueId id);

/// Bytes of the inputs, outputs and constants of a group, each once.
double bytes_moved(const Graph& graph, const Group& group);

/// The work of a family that passes over its bytes once and does `flops` operations on the way.
Work streaming_work(const Graph& graph, const Group& group, double flops, double efficiency = 1);

/// The one candidate of families that have nothing to choose.
std::vector<Candidate> only_candidate(const Graph& graph, const Group& group, const Device& device);

}  // namespace braze::cpu
