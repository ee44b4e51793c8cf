// Reductions along any axes. A block is TX groups of V results wide; its TY threads of each group
// share the terms, and join what they have in a tree. Where gridDim.y > 1 the terms are split over
// that many blocks too, of which the last one to be done joins the others' states in order: the
// same bits every time.
#pragma once

#include "braze/arithmetic.cuh"
#include "braze/convert.cuh"
#include "braze/math.cuh"
#include "braze/reduce_parameters.h"

namespace braze::device {

// ---- What is computed: a state, how a term enters it, how two join, what it gives. C is float,
// double, i64 or u64.

template <class C>
__device__ __forceinline__ C infinity() {
  return static_cast<C>(kInfinity);
}
template <class C>
inline constexpr bool kIsReal = kIsFloating<C>;

template <class C>
__device__ __forceinline__ C sum_of(C a, C b) {
  if constexpr (kIsReal<C>)
    return a + b;
  else
    return Integer<C>::add(a, b);
}
template <class C>
__device__ __forceinline__ C product_of(C a, C b) {
  if constexpr (kIsReal<C>)
    return a * b;
  else
    return Integer<C>::mul(a, b);
}
template <class C>
__device__ __forceinline__ C magnitude_of(C a) {
  if constexpr (kIsReal<C>)
    return fabs(a);
  else
    return Integer<C>::fabsf(a);
}

template <class C>
struct SumOf {
  using State = C;
  static __device__ State start() { return 0; }
  static __device__ State add(State s, C x, i64) { return sum_of(s, x); }
  static __device__ State join(State a, State b) { return sum_of(a, b); }
  static __device__ C finish(State s, i64) { return s; }
};
template <class C>
struct MeanOf : SumOf<C> {
  static __device__ C finish(C s, i64 terms) {
    if constexpr (kIsReal<C>)
      return s / static_cast<C>(terms);
    else
      return terms == 0 ? C{0} : Integer<C>::div(s, static_cast<C>(terms));
  }
};
template <class C>
struct L1Of : SumOf<C> {
  static __device__ C add(C s, C x, i64) { return sum_of(s, magnitude_of(x)); }
};
template <class C>
struct SumSquareOf : SumOf<C> {
  static __device__ C add(C s, C x, i64) { return sum_of(s, product_of(x, x)); }
};
template <class C>
struct L2Of : SumSquareOf<C> {
  static __device__ C finish(C s, i64) { return sqrt(s); }
};
template <class C>
struct LogSumOf : SumOf<C> {
  static __device__ C finish(C s, i64) { return log(s); }
};
template <class C>
struct ProdOf {
  using State = C;
  static __device__ State start() { return 1; }
  static __device__ State add(State s, C x, i64) { return product_of(s, x); }
  static __device__ State join(State a, State b) { return product_of(a, b); }
  static __device__ C finish(State s, i64) { return s; }
};
/// NaN wins. Of no terms: the least value of a type T.
template <class C, class T>
struct MaxOf {
  using State = C;
  static __device__ State start() {
    if constexpr (kIsReal<C>)
      return -infinity<C>();
    else if constexpr (T(-1) > T(0))
      return 0;
    else
      return static_cast<C>(static_cast<u64>(-1) << (8 * sizeof(T) - 1));
  }
  static __device__ State join(State a, State b) { return a != a || a > b ? a : b; }
  static __device__ State add(State s, C x, i64) { return join(s, x); }
  static __device__ C finish(State s, i64) { return s; }
};
template <class C, class T>
struct MinOf {
  using State = C;
  static __device__ State start() {
    if constexpr (kIsReal<C>)
      return infinity<C>();
    else if constexpr (T(-1) > T(0))
      return static_cast<C>(static_cast<T>(-1));
    else
      return static_cast<C>(~(static_cast<u64>(-1) << (8 * sizeof(T) - 1)));
  }
  static __device__ State join(State a, State b) { return a != a || a < b ? a : b; }
  static __device__ State add(State s, C x, i64) { return join(s, x); }
  static __device__ C finish(State s, i64) { return s; }
};
/// log(sum of exp(x - largest)) + largest
template <class C>
struct LogSumExpOf {
  struct State {
    C largest, sum;
  };
  static __device__ State start() { return {-infinity<C>(), 0}; }
  static __device__ State join(State a, State b) {
    const C largest = a.largest != a.largest || a.largest > b.largest ? a.largest : b.largest;
    if (largest == infinity<C>() || largest == -infinity<C>() || largest != largest)
      return {largest, largest == -infinity<C>() ? C{0} : largest};
    return {largest, a.sum * exp(a.largest - largest) + b.sum * exp(b.largest - largest)};
  }
  static __device__ State add(State s, C x, i64) { return join(s, State{x, 1}); }
  static __device__ C finish(State s, i64) {
    if (s.largest == infinity<C>() || s.largest != s.largest) return s.largest;
    return s.largest == -infinity<C>() ? s.largest : log(s.sum) + s.largest;
  }
};
/// The first (last) of the largest (smallest) terms; NaN is neither, but where it comes first it
/// stays.
template <class C, bool kMax, bool kLast>
struct ArgOf {
  struct State {
    C value;
    i64 index;  // -1: of no terms
  };
  static __device__ State start() { return {C{}, -1}; }
  static __device__ bool wins(State a, State b) {  // a over b
    if (b.index < 0 || a.index < 0) return b.index < 0;
    if (a.value != a.value || b.value != b.value) {
      if (a.value != a.value && a.index == 0) return true;
      if (b.value != b.value && b.index == 0) return false;
      if (a.value != a.value && b.value != b.value) return a.index < b.index;
      return b.value != b.value;
    }
    if (a.value == b.value) return kLast ? a.index > b.index : a.index < b.index;
    return kMax ? a.value > b.value : a.value < b.value;
  }
  static __device__ State join(State a, State b) { return wins(a, b) ? a : b; }
  static __device__ State add(State s, C x, i64 index) { return join(s, State{x, index}); }
  static __device__ i64 finish(State s, i64) { return s.index; }
};

// ---- The loops.

template <class Index>
__device__ __forceinline__ void reduce_offsets(const ReduceAxis (&axes)[kReduceAxes], int count,
                                               Index index, i64& from, i64& to) {
  for (int axis = count - 1; axis >= 0; --axis) {
    Index here = index;
    if (axis > 0) {
      const Index extent = static_cast<Index>(axes[axis].extent);
      index = here / extent;
      here -= index * extent;
    }
    from += here * axes[axis].from;
    to += here * axes[axis].to;
  }
}

/// Joins the states of the threads that share a group; its first thread has the result.
template <class Op, int V, int TX, int TY>
__device__ __forceinline__ void reduce_tree(typename Op::State (&state)[V],
                                            typename Op::State* shared, int tx, int ty) {
  const auto at = [&](int member, int i) ->
      typename Op::State& { return shared[(member * TX + tx) * V + i]; };
  BRAZE_UNROLL
  for (int i = 0; i < V; ++i) at(ty, i) = state[i];
  __syncthreads();
  BRAZE_UNROLL
  for (int half = TY / 2; half > 0; half /= 2) {
    if (ty < half) {
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) at(ty, i) = Op::join(at(ty, i), at(ty + half, i));
    }
    __syncthreads();
  }
  BRAZE_UNROLL
  for (int i = 0; i < V; ++i) state[i] = at(0, i);
  __syncthreads();
}

/// kTermsTogether: neighbouring threads share the terms of a group, else they are of different
/// groups: whichever lie beside each other.
template <class T, class Y, class C, class Op, int V, int TX, int TY, bool kTermsTogether,
          class Index>
__device__ __forceinline__ void reduce(const ReduceParameters& p) {
  using State = typename Op::State;
  __shared__ State shared[TX * TY * V];
  __shared__ unsigned last;
  launch_dependents();
  grid_dependency_wait();
  const int thread = static_cast<int>(threadIdx.x);
  const int tx = kTermsTogether ? thread / TY : thread % TX;
  const int ty = kTermsTogether ? thread % TY : thread / TX;
  const i64 group = static_cast<i64>(blockIdx.x) * TX + tx;
  State state[V];
  BRAZE_UNROLL
  for (int i = 0; i < V; ++i) state[i] = Op::start();
  i64 x_at = 0, y_at = 0;
  if (group < p.groups) {
    reduce_offsets<Index>(p.kept, p.kept_axes, static_cast<Index>(group), x_at, y_at);
    const T* const x = static_cast<const T*>(p.x) + x_at;
    const i64 step = static_cast<i64>(TY) * gridDim.y;
    constexpr int kAhead = V > 1 || sizeof(C) > 4 ? 4 : 8;  // loads that are under way together
    for (i64 term = static_cast<i64>(blockIdx.y) * TY + ty; term < p.terms; term += kAhead * step) {
      i64 at[kAhead];
      BRAZE_UNROLL
      for (int j = 0; j < kAhead; ++j) {
        at[j] = min(term + j * step, p.terms - 1);
        if (p.reduced_axes == 1) {
          at[j] *= p.reduced[0].from;
        } else {
          i64 from = 0, unused = 0;
          reduce_offsets<Index>(p.reduced, p.reduced_axes, static_cast<Index>(at[j]), from, unused);
          at[j] = from;
        }
      }
      C in[kAhead][V];
      BRAZE_UNROLL
      for (int j = 0; j < kAhead; ++j) load_elements<T, (V > 1)>(in[j], x + at[j], 1);
      BRAZE_UNROLL
      for (int j = 0; j < kAhead; ++j) {
        if (term + j * step >= p.terms) break;
        BRAZE_UNROLL
        for (int i = 0; i < V; ++i) state[i] = Op::add(state[i], in[j][i], term + j * step);
      }
    }
  }
  reduce_tree<Op, V, TX, TY>(state, shared, tx, ty);

  if (gridDim.y > 1) {
    State* const partial = static_cast<State*>(p.partial) + group * V;
    const i64 stride = p.groups * V;
    if (ty == 0 && group < p.groups) {
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) partial[blockIdx.y * stride + i] = state[i];
      __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(p.arrived + blockIdx.x, gridDim.y - 1) + 1;
    __syncthreads();
    if (last != gridDim.y) return;
    __threadfence();
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i) state[i] = Op::start();
    for (u32 block = static_cast<u32>(ty); group < p.groups && block < gridDim.y; block += TY) {
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) state[i] = Op::join(state[i], partial[block * stride + i]);
    }
    reduce_tree<Op, V, TX, TY>(state, shared, tx, ty);
  }
  if (ty == 0 && group < p.groups) {
    BRAZE_UNROLL
    for (int i = 0; i < V; ++i)
      static_cast<Y*>(p.y)[y_at + i * p.y_step] = convert<Y>(Op::finish(state[i], p.terms));
  }
}

}  // namespace braze::device
