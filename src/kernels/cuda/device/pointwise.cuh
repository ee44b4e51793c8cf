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
#include "braze/divide.cuh"
#include "braze/math.cuh"
#include "braze/pointwise_parameters.h"

namespace braze::device {

template <class Map, int kThreads>
__device__ __forceinline__ void pointwise(const PointwiseParameters& p) {
  launch_dependents();
  const i64 at = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= p.count) return;
  auto rest = static_cast<typename Map::Index>(at);
  i64 y = 0, x[Map::kOperands] = {};
  BRAZE_UNROLL
  for (int axis = Map::kAxes - 1; axis >= 0; --axis) {
    const i64 here = axis > 0 ? split_off(rest, p.extent[axis]) : static_cast<i64>(rest);
    y += here * p.y_stride[axis];
    BRAZE_UNROLL
    for (int i = 0; i < Map::kOperands; ++i) x[i] += here * p.x_stride[i][axis];
  }
  grid_dependency_wait();
  Map::apply(p, y, x);
}

}  // namespace braze::device
