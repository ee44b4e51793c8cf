// Where Resize reads: per axis, the input elements and weights of each output element. Resize is
// separable.
#pragma once

#include <vector>

#include "graph/op.hpp"

namespace braze {

struct ResizeTap {
  std::int64_t index = 0;  ///< in [0, input extent)
  double weight = 1;
};

/// The taps of each output element along `axis` of a resolved Resize whose input has `extent`
/// elements there (nearest: one tap of weight 1). None: the element lies outside of the input and
/// is op.extrapolation.
std::vector<std::vector<ResizeTap>> resize_taps(const Resize& op, std::size_t axis,
                                                std::int64_t extent);

}  // namespace braze
