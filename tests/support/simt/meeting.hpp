// What happens when the lanes of a warp meet: shuffles, ballots, and the tensor cores' loads and
// products.
#pragma once

#include <span>

#include "support/simt/runtime.hpp"

namespace braze::simt {

/// "__shfl_sync", "ldmatrix.x4", ...
const char* name_of(Meeting meeting);

/// Does what the lanes of `mask` met for. parts[lane] is what a lane brought. Null, or what is
/// wrong. `is_shared` tells whether memory is shared memory of the block.
const char* hold(Meeting meeting, std::span<void* const, 32> parts, unsigned mask,
                 bool (*is_shared)(const void* p, unsigned bytes));

}  // namespace braze::simt
