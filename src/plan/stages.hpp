// The planner's stages, in order. Each fills more of the Plan; make_plan (plan.cpp) is the path
// through them.
#pragma once

#include "plan/choices.hpp"
#include "plan/plan.hpp"

namespace braze {

/// The row of a registry by name; kInternal if there is none. The pseudo-family "view" (a Reshape:
/// no kernel unless the layout forces a copy) has a row of its own.
const KernelFamily& family_of(const Registry& registry, std::string_view name);

/// Group formation: which nodes share a kernel. Fills kernels (family, group, kind, nodes) in order
/// of execution, and not_fused.
void form_groups(Plan& plan, const Registry& registry);

/// Joins kernels that follow one another into groups of several members, where a family of the
/// registry runs them in less time by estimate (see join.cpp). Adds to not_fused what fits in shape
/// and was not made.
void join_groups(Plan& plan, const Registry& registry);

/// Model layout or channels-last for every value; where a kernel cannot read what is there, a
/// relayout kernel and the value it makes. Fills placements' layout, pitch and bytes.
void assign_layouts(Plan& plan, const Registry& registry);

/// Reshapes, channel concats, splits and slices as views of other values: drops their kernels,
/// fills view_of, offset and pitch. Then gives each graph output a value that can lie in the
/// caller's buffer.
void make_views(Plan& plan, const Registry& registry);

/// Family, candidate, work and time of every kernel: the fastest measured way, or where nobody has
/// measured, its own family's fastest by estimate.
void choose_candidates(Plan& plan, const Registry& registry, const Knowledge& knowledge);

/// On a GPU, branches that leave most of it idle go to streams of their own (see streams.cpp).
/// Fills stream and waits.
void assign_streams(Plan& plan);

/// Fills waits from stream: all that a kernel reads and other streams make, and no more than that
/// takes.
void assign_waits(Plan& plan);

/// Arena offsets by liveness, in place where safe. Fills memory, index, offset; arena_bytes and
/// largest_live_bytes.
void assign_memory(Plan& plan, const Registry& registry);

/// Each model node under exactly one kernel, or under folded.
void account_for_nodes(Plan& plan);

/// Bytes from the first to the last element of a value placed densely with this layout and pitch.
std::int64_t extent_bytes(const Value& value, Layout layout, std::int64_t pitch);

/// Images have a channel axis and at least one spatial axis: rank 3 and up.
inline bool is_image(const Value& value) { return value.shape.size() >= 3; }
/// An image whose bytes are the same in both layouts: one pixel, or one channel.
bool is_layout_neutral(const Value& value);

/// Is the value, which may arrive at run time, the filter of a convolution in the group? It has no
/// channels-last form, whatever its rank.
bool is_filter(const Graph& graph, const Group& group, ValueId id);

/// A kernel that copies `from` to `to`, whatever their layouts.
KernelPlan copy_kernel(const Plan& plan, ValueId from, ValueId to);
/// A new value like `from`, for a copy of it.
ValueId add_copy(Plan& plan, ValueId from, std::string_view suffix, Layout layout);

}  // namespace braze
