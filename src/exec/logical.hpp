// Values between logical order (row-major, [N, C, spatial...]) and where a plan places them.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/plan.hpp"

namespace braze {

/// The bytes of a tensor as `placement` lays them; gaps between pixels are zero.
std::vector<std::byte> to_placed(const Tensor& tensor, const Placement& placement);
/// The tensor whose placed bytes begin at `data`.
Tensor from_placed(const void* data, DType dtype, const Shape& shape, const Placement& placement);

}  // namespace braze
