// Boxes that kernels walk: axes with a stride for each operand, collapsed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/device/divisor.h"
#include "plan/plan.hpp"

namespace braze::cuda {

/// One axis of a box; strides[0] is the result's, the others those of the operands. 0 where an
/// operand does not vary.
struct BoxAxis {
  std::int64_t extent = 1;
  Ints strides;
};

/// Axes of extent 1 are dropped, the others ordered as the result lies in memory, outermost first,
/// and neighbours joined that are one axis for every operand.
void collapse(std::vector<BoxAxis>& axes);

/// ceil(n / size), as an extent of a grid.
std::uint32_t blocks_for(std::int64_t n, std::int64_t size);

/// What kernels divide by `n` with; n is below 2^31, 0 is taken for 1.
device::Divisor divisor_of(std::int64_t n);

/// May this many elements be read or written at once at every multiple of `strides` elements from
/// where the value lies?
bool is_aligned(const Plan& plan, ValueId id, std::span<const std::int64_t> strides, int vector);

/// Threads of a block of small independent tasks: fewer where a grid of whole blocks would leave
/// SMs idle.
int threads_for(std::int64_t tasks, const Device& device);

/// Does a kernel's number of tasks fit 32-bit arithmetic?
inline const char* index_type(std::int64_t count) { return count < (1LL << 31) ? "u32" : "i64"; }

}  // namespace braze::cuda
