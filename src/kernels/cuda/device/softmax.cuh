// Softmax and its logarithm along any axis: the largest element and the sum in one pass, the
// results in a second one.
#pragma once

#include "braze/lines.cuh"

namespace braze::device {

/// The sum of exp(x - largest) over the elements seen.
struct SoftmaxState {
  float largest, sum;
};
struct SoftmaxJoin {
  __device__ __forceinline__ SoftmaxState operator()(SoftmaxState a, SoftmaxState b) const {
    if (a.largest == -kInfinity) return b;
    if (b.largest == -kInfinity) return a;
    const float largest = a.largest > b.largest ? a.largest : b.largest;
    return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
  }
};

template <class X, class Y, bool kLog, int TX, int TY, bool kAlong>
__device__ __forceinline__ void softmax(const LinesParameters& p) {
  __shared__ SoftmaxState shared[TX * TY];
  launch_dependents();
  grid_dependency_wait();
  const Team<TX, TY, kAlong> team;
  const i64 line = static_cast<i64>(blockIdx.x) * TX + team.line;
  const bool exists = line < p.lines;
  i64 rest = line, x_at = 0, y_at = 0;
  for (int axis = p.outer_axes - 1; exists && axis >= 0; --axis) {
    const i64 next = axis > 0 ? rest / p.outer[axis].extent : 0;
    const i64 here = rest - next * p.outer[axis].extent;
    x_at += here * p.outer[axis].x;
    y_at += here * p.outer[axis].y;
    rest = next;
  }
  const X* const x = static_cast<const X*>(p.x) + x_at;
  Y* const y = static_cast<Y*>(p.y) + y_at;
  SoftmaxState state = {-kInfinity, 0};
  float not_a_number = 0;  // NaN or infinity: of what the state cannot hold
  for (int i = team.member; exists && i < p.extent; i += TY) {
    const float v = to_float(x[i * p.x_step]);
    if (v != v || v == kInfinity) not_a_number = v - v;
    state = SoftmaxJoin()(state, SoftmaxState{v, 1});
  }
  state.sum += not_a_number;
  state = team.join(state, shared, SoftmaxJoin());
  const float log_sum = logf(state.sum);
  for (int i = team.member; exists && i < p.extent; i += TY) {
    const float v = to_float(x[i * p.x_step]) - state.largest;
    y[i * p.y_step] = from_float<Y>(kLog ? v - log_sum : expf(v) / state.sum);
  }
}

}  // namespace braze::device
