// Transposed convolution on the tensor cores, 16-bit types, channels-last.
//
// The outputs o = q * stride + first of one phase see the same taps, each at input q + delta: per
// phase a product whose rows are the q of all images, whose columns are output channels and whose
// depth is taps times input channels. A block makes 64 rows by 64 columns of one phase.
#pragma once

#include "braze/conv_transpose_parameters.h"
#include "braze/epilogue.cuh"

namespace braze::device {

#if __CUDA_ARCH__ >= 800

inline constexpr int kTransposeTile = 64;   // rows, and columns
inline constexpr int kTransposeDepth = 32;  // elements of a stage: 64 bytes of a row
inline constexpr int kTransposeStages = 3;
inline constexpr int kTransposeThreads = 128;
inline constexpr int kTransposeStageBytes = 2 * kTransposeTile * 64;
inline constexpr int kTransposePitch = kTransposeTile + 4;  // of the sums, floats

/// Byte of a chunk of 16 bytes of a row of 64: eight adjacent rows are in different banks.
__device__ __forceinline__ int transpose_chunk(int row, int chunk) {
  return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4);
}

/// Row r of a phase: image and q.
struct TransposeRow {
  int n, q[3];
};
__device__ __forceinline__ TransposeRow transpose_row(const TransposePhase& phase, int r) {
  TransposeRow row;
  BRAZE_UNROLL
  for (int axis = 2; axis >= 0; --axis) {
    const int next = r / phase.count[axis];
    row.q[axis] = r - next * phase.count[axis];
    r = next;
  }
  row.n = r;
  return row;
}

template <class T, class Y, Store kStore, class Epilogue>
__device__ __forceinline__ void conv_transpose_mma(const ConvTransposeMmaParameters& p) {
  alignas(128) __shared__ unsigned char memory[kTransposeStages * kTransposeStageBytes];
  launch_dependents();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  u32 rest = blockIdx.x;
  const int column = static_cast<int>(rest % static_cast<u32>(p.column_tiles)) * kTransposeTile;
  rest /= static_cast<u32>(p.column_tiles);
  const TransposePhase& phase = p.phase[rest % static_cast<u32>(p.phases)];
  const int first_row = static_cast<int>(rest / static_cast<u32>(p.phases)) * kTransposeTile;
  const int rows = p.images * phase.count[0] * phase.count[1] * phase.count[2];
  if (first_row >= rows) return;

  // This thread brings chunk `chunk` of two rows of each operand.
  const int chunk = thread % 4, own = thread / 4;
  TransposeRow mine[2];
  bool exists[2];
  BRAZE_UNROLL
  for (int j = 0; j < 2; ++j) {
    const int r = first_row + own + 32 * j;
    exists[j] = r < rows;
    mine[j] = transpose_row(phase, exists[j] ? r : first_row);
  }
  const int depth_blocks = p.depth / kTransposeDepth;  // of one tap; p.depth is padded
  const int blocks = (phase.tap_end - phase.tap_begin) * depth_blocks;
  const T* const x = static_cast<const T*>(p.x);
  const T* const w = static_cast<const T*>(p.w);
  const auto bring = [&](int block) {
    if (block < blocks) {
      unsigned char* const stage = memory + block % kTransposeStages * kTransposeStageBytes;
      const int tap = phase.tap_begin + block / depth_blocks;
      const int c = block % depth_blocks * kTransposeDepth + chunk * 8;
      const TransposeTap& delta = p.tap[tap];
      BRAZE_UNROLL
      for (int j = 0; j < 2; ++j) {
        const int d = mine[j].q[0] + delta.delta[0], h = mine[j].q[1] + delta.delta[1],
                  v = mine[j].q[2] + delta.delta[2];
        const bool inside = exists[j] && c < p.inputs && d >= 0 && d < p.in[0] && h >= 0 &&
                            h < p.in[1] && v >= 0 && v < p.in[2];
        const T* const from =
            inside ? x + mine[j].n * p.x_n + d * p.x_axis[0] + h * p.x_axis[1] + v * p.x_axis[2] + c
                   : x;
        cp_async_16(stage + transpose_chunk(own + 32 * j, chunk), from, inside ? 16 : 0);
        const i64 row = static_cast<i64>(tap) * p.padded_outputs + column + own + 32 * j;
        cp_async_16(stage + kTransposeTile * 64 + transpose_chunk(own + 32 * j, chunk),
                    w + row * p.depth + c, 16);
      }
    }
    cp_async_commit();
  };

  // A warp has 32 rows by 32 columns.
  float sum[2][4][4] = {};
  const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  grid_dependency_wait();
  BRAZE_UNROLL
  for (int block = 0; block < kTransposeStages - 1; ++block) bring(block);
  for (int block = 0; block < blocks; ++block) {
    cp_async_wait<kTransposeStages - 2>();
    __syncthreads();
    bring(block + kTransposeStages - 1);
    const unsigned char* const a = memory + block % kTransposeStages * kTransposeStageBytes;
    const unsigned char* const b = a + kTransposeTile * 64;
    BRAZE_UNROLL
    for (int k = 0; k < 2; ++k) {
      u32 left[2][4], right[2][4];
      BRAZE_UNROLL
      for (int i = 0; i < 2; ++i) {
        ldmatrix_x4(left[i], a + transpose_chunk(warp_row + 16 * i + lane % 16, 2 * k + lane / 16));
        ldmatrix_x4(right[i], b + transpose_chunk(warp_column + 16 * i + lane / 16 * 8 + lane % 8,
                                                  2 * k + lane / 8 % 2));
      }
      BRAZE_UNROLL
      for (int i = 0; i < 2; ++i) {
        BRAZE_UNROLL
        for (int j = 0; j < 4; ++j) {
          const u32 columns[2] = {right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]};
          mma_m16n8k16<T>(sum[i][j], left[i], columns);
        }
      }
    }
  }
  cp_async_wait<0>();
  __syncthreads();

  // Through shared memory to threads that each finish eight channels of a pixel.
  float* const sums = reinterpret_cast<float*>(memory);
  BRAZE_UNROLL
  for (int i = 0; i < 2; ++i) {
    BRAZE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int row = warp_row + 16 * i + lane / 4, at = warp_column + 8 * j + lane % 4 * 2;
      BRAZE_UNROLL
      for (int half_row = 0; half_row < 2; ++half_row) {
        float* const to = sums + (row + 8 * half_row) * kTransposePitch + at;
        to[0] = sum[i][j][2 * half_row];
        to[1] = sum[i][j][2 * half_row + 1];
      }
    }
  }
  __syncthreads();
  for (int vector = thread; vector < kTransposeTile * 8; vector += kTransposeThreads) {
    const int row = vector / 8, channel = column + vector % 8 * 8;
    if (first_row + row >= rows || channel >= p.y.channels) continue;
    const TransposeRow at_row = transpose_row(phase, first_row + row);
    int o[3];
    BRAZE_UNROLL
    for (int axis = 0; axis < 3; ++axis)
      o[axis] = at_row.q[axis] * p.stride[axis] + phase.first[axis];
    const Position at{at_row.n, (o[0] * p.out[1] + o[1]) * p.out[2] + o[2], channel,
                      min(8, p.y.channels - channel)};
    float v[8];
    BRAZE_UNROLL
    for (int i = 0; i < 8; ++i) v[i] = sums[row * kTransposePitch + vector % 8 * 8 + i];
    Epilogue::apply(v, p.e, at);
    store_result<Y, kStore>(v, p.y, at);
  }
}

#endif

}  // namespace braze::device
