// Run-time parameters of reduce.cuh.
#pragma once

#include "braze/divisor.h"

namespace braze::device {

inline constexpr int kReduceAxes = 8;

struct ReduceAxis {
  long long from, to;  // strides in elements; to is 0 along reduced axes
  Divisor extent;
};

/// y[kept] = f(all x[kept, reduced]). The last kept axis counts groups of V results, whose elements
/// lie together.
struct ReduceParameters {
  const void* x;
  void* y;
  void* partial;      // where the reduced elements are split over several blocks: their states,
  unsigned* arrived;  // and how many of the blocks are done, 0 before and after
  long long groups, terms, y_step;
  float inverse;  // 1 / terms
  ReduceAxis kept[kReduceAxes], reduced[kReduceAxes];
  int kept_axes, reduced_axes;
};

}  // namespace braze::device
