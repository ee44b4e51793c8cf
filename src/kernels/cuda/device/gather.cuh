// Gather along one axis. Indices outside of the axis are clamped: memory that is not x's is never
// read.
#pragma once

#include "braze/copy.cuh"
#include "braze/gather_parameters.h"

namespace braze::device {

template <class T, class Pick, class Index, int kThreads>
__device__ __forceinline__ void gather(const GatherParameters& p) {
  launch_dependents();
  grid_dependency_wait();
  const i64 at = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= p.count) return;
  const Index run = static_cast<Index>(p.run), picks = static_cast<Index>(p.picks);
  const Index line = static_cast<Index>(at) / run, inner = static_cast<Index>(at) - line * run;
  const Index outer = line / picks, pick = line - outer * picks;
  i64 index = static_cast<const Pick*>(p.index)[pick];
  if (index < 0) index += p.extent;
  index = index < 0 ? 0 : (index >= p.extent ? p.extent - 1 : index);
  static_cast<T*>(p.y)[at] = static_cast<const T*>(p.x)[(outer * p.extent + index) * p.run + inner];
}

}  // namespace braze::device
