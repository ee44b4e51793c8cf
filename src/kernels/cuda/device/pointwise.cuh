// Any chain of element-wise operations, in one pass: any rank, broadcast and layout.
//
// The chain is emitted:
//   struct Map {
//     static constexpr int kOperands, kAxes;
//     using Index = u32;  // what a group's number fits in
//     static __device__ void apply(const PointwiseParameters& p, i64 y, const i64 (&x)[kOperands]);
//   };
// apply() loads a group of V elements of every operand at its offset, computes and stores them.
#pragma once

#include "braze/arithmetic.cuh"
#include "braze/convert.cuh"
#include "braze/math.cuh"
#include "braze/pointwise_parameters.h"

namespace braze::device {

template <class Map, int kThreads>
__device__ __forceinline__ void pointwise(const PointwiseParameters& p) {
  using Index = typename Map::Index;
  launch_dependents();
  grid_dependency_wait();
  const i64 at = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= p.count) return;
  Index rest = static_cast<Index>(at);
  i64 y = 0, x[Map::kOperands] = {};
  BRAZE_UNROLL
  for (int axis = Map::kAxes - 1; axis >= 0; --axis) {
    Index here = rest;
    if (axis > 0) {
      const Index extent = static_cast<Index>(p.extent[axis]);
      rest = here / extent;
      here -= rest * extent;
    }
    y += here * p.y_stride[axis];
    BRAZE_UNROLL
    for (int i = 0; i < Map::kOperands; ++i) x[i] += here * p.x_stride[i][axis];
  }
  Map::apply(p, y, x);
}

}  // namespace braze::device
