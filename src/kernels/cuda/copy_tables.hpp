// Copies whose source follows a table along some axes.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cuda/emit.hpp"

namespace braze::cuda {

/// For each element of an axis of the result, the element of the input's axis that it copies; -1:
/// it is filled. nullopt: the axis is copied as it is.
using AxisTable = std::optional<std::vector<std::int64_t>>;

/// A kernel that copies the anchor's first input to its output, of one rank, through a table for
/// each axis, and fills the rest with `fill`.
Kernel build_table_copy(const Plan& plan, const KernelPlan& kernel,
                        const std::vector<AxisTable>& tables, double fill);

}  // namespace braze::cuda
