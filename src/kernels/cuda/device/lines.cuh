// Blocks whose threads share lines of elements: TX lines, TY threads each.
#pragma once

#include "braze/convert.cuh"
#include "braze/lines_parameters.h"
#include "braze/math.cuh"

namespace braze::device {

/// kAlong: neighbouring threads share a line, else they have different ones; whichever elements lie
/// together.
template <int TX, int TY, bool kAlong>
struct Team {
  int line, member;
  __device__ __forceinline__ Team() {
    const int thread = static_cast<int>(threadIdx.x);
    line = kAlong ? thread / TY : thread % TX;
    member = kAlong ? thread % TY : thread / TX;
  }
  /// join() of all members' states, for each of them, in a tree. All threads of the block call it.
  template <class State, class Join>
  __device__ __forceinline__ State join(State mine, State* shared, const Join& join) const {
    State* const at = shared + line * TY + member;
    *at = mine;
    __syncthreads();
    BRAZE_UNROLL
    for (int half = TY / 2; half > 0; half /= 2) {
      if (member < half) *at = join(*at, at[half]);
      __syncthreads();
    }
    const State all = shared[line * TY];
    __syncthreads();
    return all;
  }
};

struct Sum {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

}  // namespace braze::device
