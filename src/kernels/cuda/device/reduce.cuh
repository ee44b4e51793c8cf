// Reductions along any axes. A block is TX groups of V results wide; its TY threads of each group
// share the terms. What they have they join through shuffles, then through shared memory. The terms
// may be split over more blocks: over those of a cluster, which send what they have to its first
// one; or over gridDim.y, of which the last one to be done joins the others' states. States are
// joined in a fixed order: the same bits every time.
#pragma once

#include "braze/arithmetic.cuh"
#include "braze/convert.cuh"
#include "braze/divide.cuh"
#include "braze/math.cuh"
#include "braze/ptx_sm90.cuh"
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
  static __device__ C finish(State s, const ReduceParameters&) { return s; }
};
template <class C>
struct MeanOf : SumOf<C> {
  static __device__ C finish(C s, const ReduceParameters& p) {
    if constexpr (kSame<C, float>)
      return s * p.inverse;
    else if constexpr (kIsReal<C>)
      return s / static_cast<C>(p.terms);
    else
      return p.terms == 0 ? C{0} : Integer<C>::div(s, static_cast<C>(p.terms));
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
  static __device__ C finish(C s, const ReduceParameters&) { return sqrt(s); }
};
template <class C>
struct LogSumOf : SumOf<C> {
  static __device__ C finish(C s, const ReduceParameters&) { return log(s); }
};
template <class C>
struct ProdOf {
  using State = C;
  static __device__ State start() { return 1; }
  static __device__ State add(State s, C x, i64) { return product_of(s, x); }
  static __device__ State join(State a, State b) { return product_of(a, b); }
  static __device__ C finish(State s, const ReduceParameters&) { return s; }
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
  static __device__ C finish(State s, const ReduceParameters&) { return s; }
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
  static __device__ C finish(State s, const ReduceParameters&) { return s; }
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
  static __device__ C finish(State s, const ReduceParameters&) {
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
  static __device__ i64 finish(State s, const ReduceParameters&) { return s.index; }
};

// ---- The loops.

template <class Index>
__device__ __forceinline__ void reduce_offsets(const ReduceAxis (&axes)[kReduceAxes], int count,
                                               Index index, i64& from, i64& to) {
#pragma unroll 1
  for (int axis = count - 1; axis >= 0; --axis) {
    const i64 here = axis > 0 ? split_off(index, axes[axis].extent) : static_cast<i64>(index);
    from += here * axes[axis].from;
    to += here * axes[axis].to;
  }
}

template <class State>
__device__ __forceinline__ State shuffle_xor(const State& state, int bits) {
  constexpr int kCount = sizeof(State) / 4;
  Words<kCount> words = __builtin_bit_cast(Words<kCount>, state);
  BRAZE_UNROLL
  for (int i = 0; i < kCount; ++i) words.at[i] = __shfl_xor_sync(0xffffffffu, words.at[i], bits);
  return __builtin_bit_cast(State, words);
}

/// Joins the states of lanes that differ in bits kBit to kEnd / 2 of their number. As long as there
/// are several results, each half of the lanes goes on with half of them: returns which one is the
/// first of max(1, N kBit / kEnd), now at the begin of `state`.
template <class Op, int kBit, int kEnd, int N>
__device__ __forceinline__ int reduce_lanes(typename Op::State (&state)[N], int lane) {
  if constexpr (kBit >= kEnd) {
    return 0;
  } else if constexpr (N == 1) {
    state[0] = Op::join(state[0], shuffle_xor(state[0], kBit));
    return reduce_lanes<Op, 2 * kBit, kEnd>(state, lane);
  } else {
    const bool upper = (lane & kBit) != 0;
    typename Op::State half[N / 2];
    BRAZE_UNROLL
    for (int i = 0; i < N / 2; ++i) {
      const typename Op::State low = state[i], high = state[i + N / 2];
      half[i] = Op::join(upper ? high : low, shuffle_xor(upper ? low : high, kBit));
    }
    const int first = reduce_lanes<Op, 2 * kBit, kEnd>(half, lane);
    BRAZE_UNROLL
    for (int i = 0; i < N / 2; ++i) state[i] = half[i];
    return first + (upper ? N / 2 : 0);
  }
}

/// How a block is laid out. kTermsTogether: neighbouring threads share the terms of a group, else
/// they are of different groups: whichever lie beside each other. kCluster: blocks that share the
/// terms.
template <class State, int V, int TX, int TY, bool kTermsTogether, int kCluster>
struct ReduceBlock {
  static constexpr int kThreads = TX * TY, kResults = TX * V;
  // Lanes that share: bits kBit to kEnd / 2.
  static constexpr int kBit = kTermsTogether ? 1 : TX;
  static constexpr int kEnd = kTermsTogether ? (TY < 32 ? TY : 32) : 32;
  static constexpr int kSharing = kEnd > kBit ? kEnd / kBit : 1;
  static constexpr int kLeft = V > kSharing ? V / kSharing : 1;  // results of a lane
  static constexpr int kParts = TY / kSharing;                   // of a result, in shared memory
  static_assert(kThreads % 32 == 0 && (!kTermsTogether || V == 1), "whole warps; rows one by one");

  // In shared memory: a barrier and what the cluster's blocks send to the first, then the parts.
  static constexpr int kExchangeBytes = kCluster > 1 ? 16 + kCluster* kResults * 4 : 0;
  State* parts;     // [part][result]
  float* exchange;  // [block][result]
  Barrier* barrier;

  __device__ explicit ReduceBlock(unsigned char* shared)
      : parts(reinterpret_cast<State*>(shared + (kExchangeBytes + 15) / 16 * 16)),
        exchange(reinterpret_cast<float*>(shared + 16)),
        barrier(reinterpret_cast<Barrier*>(shared)) {}
};

/// The states of a thread's share of a group's terms. kOneAxis: along which they are reduced.
template <class T, class C, class Op, int V, bool kOneAxis, class Index>
__device__ __forceinline__ void reduce_terms(typename Op::State (&state)[V],
                                             const ReduceParameters& p, const T* x, i64 begin,
                                             int step) {
  constexpr int kAhead = 8;  // loads that are under way together
  const i64 stride = p.reduced[0].from, next = step * stride;
  for (i64 term = begin; term < p.terms; term += kAhead * step) {
    Raw<T, V> raw[kAhead];
    BRAZE_UNROLL
    for (int j = 0; j < kAhead; ++j) {
      const bool exists = term + j * step < p.terms;  // else the first once more
      i64 at = 0, unused = 0;
      if constexpr (kOneAxis) {
        at = term * stride + (exists ? j * next : 0);
      } else {
        reduce_offsets(p.reduced, p.reduced_axes,
                       static_cast<Index>(exists ? term + j * step : term), at, unused);
      }
      raw[j] = load_raw<T, V>(x + at);
    }
    BRAZE_UNROLL
    for (int j = 0; j < kAhead; ++j) {
      if (term + j * step >= p.terms) continue;
      C in[V];
      if constexpr (kSame<C, float>) {
        raw_to_floats<T, V>(in, raw[j]);
      } else {
        const auto elements = __builtin_bit_cast(Vector<T, V>, raw[j]);
        BRAZE_UNROLL
        for (int i = 0; i < V; ++i) in[i] = convert<C>(elements.at[i]);
      }
      BRAZE_UNROLL
      for (int i = 0; i < V; ++i) state[i] = Op::add(state[i], in[i], term + j * step);
    }
  }
}

template <class T, class Y, class C, class Op, int V, int TX, int TY, bool kTermsTogether,
          bool kOneAxis, int kCluster, class Index>
__device__ __forceinline__ void reduce(const ReduceParameters& p) {
  using State = typename Op::State;
  using Block = ReduceBlock<State, V, TX, TY, kTermsTogether, kCluster>;
  BRAZE_DYNAMIC_SHARED(shared);
  const Block block(shared);
  launch_dependents();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int rank = kCluster > 1 ? static_cast<int>(cluster_rank()) : 0;
  if constexpr (kCluster > 1) {
    if (thread == 0) {
      barrier_init(block.barrier, 1);
      barrier_init_fence();
      barrier_arrive_expect(block.barrier, kCluster * Block::kResults * 4);
    }
    __syncthreads();
    cluster_arrive();  // nothing is sent to a block that has not begun
  }
  const int tx = kTermsTogether ? thread / TY : thread % TX;
  const int ty = kTermsTogether ? thread % TY : thread / TX;
  const i64 first_group = static_cast<i64>(blockIdx.x / kCluster) * TX;
  State state[V];
  BRAZE_UNROLL
  for (int i = 0; i < V; ++i) state[i] = Op::start();
  i64 x_at = 0, unused = 0;
  const bool mine = first_group + tx < p.groups;
  if (mine) reduce_offsets(p.kept, p.kept_axes, static_cast<Index>(first_group + tx), x_at, unused);
  const auto place_of = [&](int result) {  // in y; -1: nowhere
    const i64 group = first_group + result / V;
    i64 from = 0, to = result % V * p.y_step;
    if (result >= Block::kResults || group >= p.groups) return i64{-1};
    reduce_offsets(p.kept, p.kept_axes, static_cast<Index>(group), from, to);
    return to;
  };
  const i64 place = place_of(thread);
  grid_dependency_wait();
  if (mine) {
    reduce_terms<T, C, Op, V, kOneAxis, Index>(
        state, p, static_cast<const T*>(p.x) + x_at,
        (static_cast<i64>(blockIdx.y) * kCluster + rank) * TY + ty,
        static_cast<int>(gridDim.y) * kCluster * TY);
  }
  const int first = reduce_lanes<Op, Block::kBit, Block::kEnd>(state, lane);
  // One of the lanes that have a result alike.
  if (kTermsTogether ? lane % Block::kSharing == 0
                     : Block::kSharing == 1 || lane < Block::kResults) {
    State* const part = block.parts + ty / Block::kSharing * Block::kResults;
    BRAZE_UNROLL
    for (int i = 0; i < Block::kLeft; ++i) part[tx * V + first + i] = state[i];
  }
  __syncthreads();
  const auto joined = [&](int result) {
    State sum = block.parts[result];
    BRAZE_UNROLL
    for (int part = 1; part < Block::kParts; ++part)
      sum = Op::join(sum, block.parts[part * Block::kResults + result]);
    return sum;
  };
  const auto store = [&](int result, const State& sum) {
    const i64 to = result == thread ? place : place_of(result);
    if (to >= 0) static_cast<Y*>(p.y)[to] = convert<Y>(Op::finish(sum, p));
  };

  if constexpr (kCluster > 1) {
    static_assert(sizeof(State) == 4 && Block::kResults % 4 == 0, "blocks send four floats");
    cluster_wait();
    if (thread < Block::kResults / 4) {
      cluster_store_async(cluster_address(block.exchange + rank * Block::kResults + 4 * thread, 0),
                          cluster_address(block.barrier, 0), joined(4 * thread),
                          joined(4 * thread + 1), joined(4 * thread + 2), joined(4 * thread + 3));
    }
    if (rank > 0) return;
    for (int result = thread; result < Block::kResults; result += Block::kThreads) {
      barrier_wait_cluster(block.barrier, 0);
      State sum = block.exchange[result];
      BRAZE_UNROLL
      for (int other = 1; other < kCluster; ++other)
        sum = Op::join(sum, block.exchange[other * Block::kResults + result]);
      store(result, sum);
    }
  } else if (gridDim.y == 1) {
    for (int result = thread; result < Block::kResults; result += Block::kThreads)
      store(result, joined(result));
  } else {
    State* const partial = static_cast<State*>(p.partial) + first_group * V;
    const i64 stride = p.groups * V,
              end = min(static_cast<i64>(Block::kResults), stride - first_group * V);
    for (int result = thread; result < end; result += Block::kThreads)
      partial[blockIdx.y * stride + result] = joined(result);
    __threadfence();
    __syncthreads();
    const bool last =
        thread == 0 && atomicInc(p.arrived + blockIdx.x, gridDim.y - 1) + 1 == gridDim.y;
    if (__syncthreads_or(last ? 1 : 0) == 0) return;
    __threadfence();
    for (int result = thread; result < end; result += Block::kThreads) {
      State sum = partial[result];
#pragma unroll 8
      for (u32 other = 1; other < gridDim.y; ++other)
        sum = Op::join(sum, partial[other * stride + result]);
      store(result, sum);
    }
  }
}

}  // namespace braze::device
