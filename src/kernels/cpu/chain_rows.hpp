// Groups that run row by row: the parts that their files share.
//
//   chain_rows.cpp           the family's row: which groups it joins, candidates, build
//   chain_rows_cost.cpp      what a group takes
//   chain_rows_schedule.cpp  which rows of which member are computed when
//   chain_rows_run.cpp       the kernel
//   row_pointwise.cpp        elementwise members
//   row_copy.cpp             members that only move elements
//
// The result is cut into bands of rows; a band is computed a few rows at a time, from top to
// bottom, by one worker. Before some rows of the result, every member computes those rows of its
// own result that are needed and are not there yet (plan/tile.hpp). An intermediate lies
// channels-last in a buffer of as many rows as are needed at once and some more: where it is full,
// the rows that are still needed move to its beginning. A member is the kernel that its family runs
// alone, told which rows to compute; it sees the buffer as the whole image, of which it touches
// only rows that are there:
//
//   address(row) = buffer + (row - base) * row bytes,  base <= row < base + capacity
//
// From there an intermediate that others need is copied to memory, each row by one band.
//
// A part of another image (plan/parts.hpp) has no buffer of its own where both have one pitch: a
// Slice is read where its input lies, an input of a Concat is written where the result lies. Where
// a Concat of two is shuffled in two groups, the shuffle reads both and there is no Concat.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cpu/kernel.hpp"
#include "plan/tile.hpp"

namespace braze::cpu {

/// Which rows of which member are computed when. The same for all images of a batch.
struct RowSchedule {
  struct Shift {  // rows [from, from + count) of an image's buffer go to its beginning
    std::size_t image = 0;
    std::int64_t from = 0, count = 0;
  };
  struct Step {
    std::vector<Shift> shifts;       // first of all
    std::vector<std::int64_t> base;  // by image: its row at the beginning of its buffer
    std::vector<Interval> rows;      // by member: rows of its result to be computed
  };
  struct Band {
    std::vector<Step> steps;
    std::vector<Interval>
        owned;  // by image: rows of a stored intermediate that no other band stores
  };
  std::vector<Band> bands;
  std::vector<std::int64_t> capacity;  // by image: rows of its buffer; 0: it has none
};

/// The rows of `tiles` in bands and steps. Columns are not cut.
RowSchedule row_schedule(const GroupTiles& tiles, const Tiling& tiling);

/// The Concat whose inputs a ChannelShuffle reads instead of its result, which nobody makes
/// (plan/parts.hpp); null: none.
const Node* zipped_concat(const Graph& graph, const Group& group, const Node& node);

/// Member `index` of a group as a group of its own: its inputs are what its kernel reads.
Group part_of(const Graph& graph, const Group& group, std::size_t index);

/// The row whose kernels run a member row by row; null: none does.
const Row* row_of(const Graph& graph, const Node& node, const Device& device);

/// The tiles of a candidate: rows about as it says, in bands that suit the number of workers. So an
/// engine file is good for any number of them.
Tiling chain_rows_tiling(const Graph& graph, const Group& group, const Candidate& candidate,
                         const Device& device);

/// Sums, over the members, the longer of arithmetic and traffic of what each computes, where
/// intermediates are in the L2; weights come from further away for each step if they do not fit
/// beside them. Leaves out that caches are shared with other processes.
Work chain_rows_work(const Graph& graph, const Group& group, const Candidate& candidate,
                     const Device& device);

/// An elementwise member: copies its first operand, then everything is an epilogue.
bool is_row_pointwise(const Graph& graph, const Node& node);
std::unique_ptr<RowKernel> row_pointwise(const Plan& plan, const KernelPlan& part);

/// A member that only moves elements. `inside`: values that lie inside of others, and of which.
bool is_row_copy(const Graph& graph, const Group::Member& member);
std::unique_ptr<RowKernel> row_copy(const Plan& plan, const KernelPlan& part,
                                    const std::map<ValueId, ValueId>& inside);
/// A ChannelShuffle of a zipped Concat; the Concat.
std::unique_ptr<RowKernel> row_zip(const Plan& plan, const KernelPlan& part, const Node& concat);
std::unique_ptr<RowKernel> row_nothing();

/// Does a part lie inside of `whole`, as placed?
bool lies_inside(const Plan& plan, ValueId part, ValueId whole);

/// The kernel. `parts` are the members' own.
std::unique_ptr<Kernel> chain_rows_kernel(const Plan& plan, const KernelPlan& kernel,
                                          const Tiling& tiling,
                                          std::vector<std::unique_ptr<RowKernel>> parts);

}  // namespace braze::cpu
