// A few rows times a large constant matrix: y[row, output] = epilogue(alpha * sum of x[row, k]
// w[output, k]). The weights' bytes bound it, or, where there are few of them, latency.
//
// A warp takes tiles of 16 outputs and groups of 64 bytes of depth: 1 KiB of weights, in the order
// in which its lanes want them, so that they come from memory as registers. Lane (g, t) of 8 x 4
// holds 16 bytes of x of a row at depth 16 t: which element is which step of an mma's depth is free
// as long as both operands agree. A warp has two batches of groups under way; the first one's
// weights are asked for before this kernel's turn. kDown warps, of kSplit blocks of a cluster,
// share a tile's sum and add up in order.
#pragma once

#include "braze/epilogue.cuh"
#include "braze/matrix_vector_parameters.h"
#include "braze/ptx_sm90.cuh"

namespace braze::device {

using Register4 = Vector<u32, 4>;

/// On the tensor cores of sm_80 and up: weights are a, 16 outputs; x is b, kBlocks times 8 rows.
/// Vector s of a lane has, for outputs g and g + 8, bytes 8 s to 8 s + 7 of the 16.
template <class T, int kBlocks>
class VectorMma {
 public:
  using Element = T;
  static constexpr int kRows = 8 * kBlocks, kVectors = kBlocks;
  static constexpr int kGroups = kBlocks == 1 ? 4 : kBlocks == 2 ? 2 : 1;  // of a batch
  static __device__ __forceinline__ int row(int vector) { return vector * 8 + lane() / 4; }

  __device__ __forceinline__ void multiply(const Register4 (&w)[2], const Register4 (&x)[kBlocks]) {
    BRAZE_UNROLL
    for (int s = 0; s < 2; ++s) {
      const u32 outputs[4] = {w[s].at[0], w[s].at[1], w[s].at[2], w[s].at[3]};
      BRAZE_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        const u32 rows[2] = {x[i].at[2 * s], x[i].at[2 * s + 1]};
        if constexpr (kSame<T, tf32>) {
          mma_m16n8k8_tf32(sum_[i], outputs, rows);
        } else {
          mma_m16n8k16<T>(sum_[i], outputs, rows);
        }
      }
    }
  }
  /// Writes sums of the warp, of rows below `rows`.
  __device__ __forceinline__ void put(float* to, int rows) {
    BRAZE_UNROLL
    for (int i = 0; i < kBlocks; ++i) {
      BRAZE_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int row = i * 8 + lane() % 4 * 2 + e % 2;
        if (row < rows) to[row * kVectorPitch + lane() / 4 + e / 2 * 8] = sum_[i][e];
      }
    }
  }

 private:
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  float sum_[kBlocks][4] = {};
};

/// In fp32 on no tensor core. Vector s of a lane has all 16 bytes of output g + 8 s.
template <class T, int kCount>
class VectorFma {
 public:
  using Element = T;
  static constexpr int kRows = kCount, kVectors = kCount;
  static constexpr int kGroups = kCount == 1 ? 4 : kCount == 2 ? 3 : kCount == 4 ? 2 : 1;
  static __device__ __forceinline__ int row(int vector) { return vector; }

  __device__ __forceinline__ void multiply(const Register4 (&w)[2], const Register4 (&x)[kCount]) {
    constexpr int kEach = 4 / static_cast<int>(sizeof(T));  // elements of a register
    BRAZE_UNROLL
    for (int r = 0; r < 4; ++r) {
      BRAZE_UNROLL
      for (int e = 0; e < kEach; ++e) {
        const float low = element(w[0].at[r], e), high = element(w[1].at[r], e);
        BRAZE_UNROLL
        for (int m = 0; m < kCount; ++m) {
          const float factor = element(x[m].at[r], e);
          sum_[m][0] += factor * low;
          sum_[m][1] += factor * high;
        }
      }
    }
  }
  __device__ __forceinline__ void put(float* to, int rows) {
    BRAZE_UNROLL
    for (int m = 0; m < kCount; ++m) {
      BRAZE_UNROLL
      for (int s = 0; s < 2; ++s) {
        float sum = sum_[m][s];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (m < rows && lane() % 4 == m % 4) to[m * kVectorPitch + lane() / 4 + s * 8] = sum;
      }
    }
  }

 private:
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ float element(u32 bits, int e) {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(bits);
    } else {
      return to_float(T{static_cast<u16>(bits >> (16 * e))});
    }
  }
  float sum_[kCount][2] = {};
};

/// 16 bytes of a row at depth k, as they are multiplied; zeros past the end. kAtOnce: whole vectors
/// exist, and are aligned.
template <class T, class In, bool kAtOnce>
__device__ __forceinline__ Register4 load_of_row(const In* row, int k, int depth) {
  constexpr int kElements = 16 / static_cast<int>(sizeof(T));
  Vector<In, kElements> in;
  if (kAtOnce && k < depth) {
    in = *reinterpret_cast<const Vector<In, kElements>*>(row + k);
  } else {
    BRAZE_UNROLL
    for (int i = 0; i < kElements; ++i)
      in.at[i] = !kAtOnce && k + i < depth ? row[k + i] : from_float<In>(0.0f);
  }
  Vector<T, kElements> out;
  BRAZE_UNROLL
  for (int i = 0; i < kElements; ++i) {
    if constexpr (kSame<T, tf32>) {
      out.at[i] = {__uint_as_float(float_to_tf32(to_float(in.at[i])))};
    } else if constexpr (kSame<T, In>) {
      out.at[i] = in.at[i];
    } else {
      out.at[i] = from_float<T>(to_float(in.at[i]));
    }
  }
  return __builtin_bit_cast(Register4, out);
}

/// Epilogue and store of a finished sum.
template <class Y, class Epilogue>
__device__ __forceinline__ void finish_output(
    const MatrixVectorParameters& p, float sum, int row, int output,
    const typename Epilogue::template Constants<1>& constants) {
  if (output >= p.y.channels) return;
  float v[1] = {sum * p.alpha};
  const int n = row / p.y.pixels;
  const Position at{n, row - n * p.y.pixels, output, 1};
  Epilogue::apply(v, p.e, at, constants);
  store_result<Y, Store::kEach, 1>(v, p.y, at);
}

/// kAcross tiles of a block, kDown warps for each of them.
template <class Multiply, class In, bool kAtOnce, int kAcross, int kDown, int kSplit, class Y,
          class Epilogue>
__device__ __forceinline__ void matrix_vector(const MatrixVectorParameters& p) {
  using T = typename Multiply::Element;
  constexpr int kGroups = Multiply::kGroups, kParts = kDown * kSplit;
  constexpr int kThreads = 32 * kAcross * kDown, kOutputs = kVectorTile * kAcross;
  constexpr int kSums = Multiply::kRows * kVectorPitch;  // of a warp
  BRAZE_DYNAMIC_SHARED(shared);
  auto* const exchanged = reinterpret_cast<Barrier*>(shared);
  auto* const sums =
      reinterpret_cast<float*>(shared + kVectorBarrierBytes);  // [tile][warp][row][kVectorPitch]
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int rank = kSplit > 1 ? static_cast<int>(cluster_rank()) : 0;
  const int first_tile = static_cast<int>(blockIdx.x) / kSplit * kAcross;
  const int tile = first_tile + warp / kDown, part = rank * kDown + warp % kDown;

  struct Batch {
    Register4 w[kGroups][2], x[kGroups][Multiply::kVectors];
  };
  const auto* const weights =
      static_cast<const Register4*>(p.weights) + static_cast<i64>(tile) * p.groups * 64 + lane;
  const auto exists = [&](int group) { return group < p.groups && tile < p.tiles; };
  const auto load_weights = [&](Batch& batch, int first) {
    BRAZE_UNROLL
    for (int i = 0; i < kGroups; ++i) {
      const int group = first + i * kParts;
      BRAZE_UNROLL
      for (int s = 0; s < 2; ++s) {
        batch.w[i][s] = {};
        if (exists(group)) load_once(batch.w[i][s].at, weights + group * 64 + s * 32);
      }
    }
  };
  const auto load_rows = [&](Batch& batch, int first) {
    BRAZE_UNROLL
    for (int i = 0; i < kGroups; ++i) {
      const int group = first + i * kParts;
      const int k = (group * kVectorGroupBytes + lane % 4 * 16) / static_cast<int>(sizeof(T));
      BRAZE_UNROLL
      for (int j = 0; j < Multiply::kVectors; ++j) {
        const int row = Multiply::row(j);
        batch.x[i][j] = {};
        if (exists(group) && row < p.rows) {
          batch.x[i][j] = load_of_row<T, In, kAtOnce>(
              static_cast<const In*>(p.x) + row * p.stride_row, k, p.depth);
        }
      }
    }
  };
  Multiply product;
  const auto multiply = [&](const Batch& batch) {
    BRAZE_UNROLL
    for (int i = 0; i < kGroups; ++i) product.multiply(batch.w[i], batch.x[i]);
  };

  launch_dependents();
  Batch even, odd;
  load_weights(even, part);
  if constexpr (kSplit > 1) {
    if (threadIdx.x == 0) {
      barrier_init(exchanged, 1);
      barrier_init_fence();
      if (rank == 0) {
        barrier_arrive_expect(exchanged,
                              static_cast<u32>(kSplit * kOutputs * p.rows * sizeof(float)));
      }
    }
    __syncthreads();
    cluster_arrive();
  }
  // Threads finish one output each, of several rows.
  static_assert(kThreads % kOutputs == 0, "a thread's outputs are the same of all rows");
  const int output = static_cast<int>(threadIdx.x) % kOutputs;
  typename Epilogue::template Constants<1> constants;
  Epilogue::load(constants, p.e, min(first_tile * kVectorTile + output, p.y.channels - 1));
  grid_dependency_wait();
  load_rows(even, part);
  for (int group = part;;) {
    constexpr int kStep = kGroups * kParts;
    const auto step = [&](const Batch& now, Batch& next) {
      group += kStep;
      load_weights(next, group);
      load_rows(next, group);
      multiply(now);
      return group < p.groups;
    };
    if (!step(even, odd) || !step(odd, even)) break;
  }
  product.put(sums + warp * kSums, p.rows);
  __syncthreads();

  // Sums of the block's warps, in order.
  const auto sum_of = [&](int row, int output) {
    const float* const from =
        sums + output / kVectorTile * kDown * kSums + row * kVectorPitch + output % kVectorTile;
    float sum = 0;
    BRAZE_UNROLL
    for (int i = 0; i < kDown; ++i) sum += from[i * kSums];
    return sum;
  };
  if constexpr (kSplit == 1) {
    for (int i = static_cast<int>(threadIdx.x); i < p.rows * kOutputs; i += kThreads) {
      const int row = i / kOutputs;
      finish_output<Y, Epilogue>(p, sum_of(row, output), row, first_tile * kVectorTile + output,
                                 constants);
    }
  } else {
    // To the cluster's first block, which adds them up in order of the blocks.
    float* const all = sums + kAcross * kDown * kSums;  // [block][row][output]
    cluster_wait();
    const u32 barrier = cluster_address(exchanged, 0);
    const u32 to = cluster_address(all + rank * p.rows * kOutputs, 0);
    for (int i = static_cast<int>(threadIdx.x) * 4; i < p.rows * kOutputs; i += kThreads * 4) {
      const int row = i / kOutputs, begin = i % kOutputs;
      cluster_store_async(to + static_cast<u32>(i) * 4, barrier, sum_of(row, begin),
                          sum_of(row, begin + 1), sum_of(row, begin + 2), sum_of(row, begin + 3));
    }
    if (rank != 0) return;
    barrier_wait_cluster(exchanged, 0);
    for (int i = static_cast<int>(threadIdx.x); i < p.rows * kOutputs; i += kThreads) {
      float sum = 0;
      BRAZE_UNROLL
      for (int block = 0; block < kSplit; ++block) sum += all[block * p.rows * kOutputs + i];
      finish_output<Y, Epilogue>(p, sum, i / kOutputs, first_tile * kVectorTile + output,
                                 constants);
    }
  }
}

}  // namespace braze::device
