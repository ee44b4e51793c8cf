// Tiles in exact fp32, on no tensor core: a thread holds kM x kN sums in registers. Threads of a
// warp stand 4 x 8; rows and columns of a thread are kThreadsM and kThreadsN apart, so that a
// warp's loads lie in different banks. kParts threads share a thread's sums, each over chunks of
// the depth of its own: more warps hide latency, and reads per product stay as few.
#pragma once

#include "braze/product.cuh"

namespace braze::device {

template <int kTileRows, int kTileColumns, int kThreadsM, int kThreadsN, int kParts, int kRowBytes>
class FmaTile {
 public:
  using Element = float;
  using Place = Swizzled<kRowBytes>;
  static constexpr int kRows = kTileRows;
  static constexpr int kColumns = kTileColumns;
  static constexpr int kThreads = kThreadsM * kThreadsN * kParts;

  __device__ FmaTile() {
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) {
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j) sum_[i][j] = 0;
    }
  }

  __device__ void multiply(const unsigned char* a, const unsigned char* b) {
    const int row = thread_row(), column = thread_column();
    // With few chunks of a part all loads may go before the products.
#pragma unroll kParts == 1 ? 1 : kRowBytes / 16 / kParts
    for (int i = 0; i < kRowBytes / 16 / kParts; ++i) {
      const int chunk = i * kParts + part();
      float x[kM][4], y[4];
      BRAZE_UNROLL
      for (int i = 0; i < kM; ++i) load_chunk(x[i], a + Place::at(row + i * kThreadsM, chunk));
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j) {
        load_chunk(y, b + Place::at(column + j * kThreadsN, chunk));
        BRAZE_UNROLL
        for (int e = 0; e < 4; ++e) {
          BRAZE_UNROLL
          for (int i = 0; i < kM; ++i) sum_[i][j] += x[i][e] * y[e];
        }
      }
    }
  }

  /// Parts add up in turn.
  __device__ void put(float* to, int pitch) const {
    BRAZE_UNROLL
    for (int turn = 0; turn < kParts; ++turn) {
      if (turn > 0) __syncthreads();
      if (turn != part()) continue;
      BRAZE_UNROLL
      for (int i = 0; i < kM; ++i) {
        BRAZE_UNROLL
        for (int j = 0; j < kN; ++j) {
          float* const at =
              to + (thread_row() + i * kThreadsM) * pitch + thread_column() + j * kThreadsN;
          *at = turn == 0 ? sum_[i][j] : *at + sum_[i][j];
        }
      }
    }
  }

 private:
  static constexpr int kM = kRows / kThreadsM;
  static constexpr int kN = kColumns / kThreadsN;
  static_assert(kThreadsM % 4 == 0 && kThreadsN % 8 == 0, "whole warps");
  static_assert(kRowBytes / 16 % kParts == 0, "parts have equally many chunks");

  static __device__ __forceinline__ void load_chunk(float (&v)[4], const unsigned char* p) {
    load_vector<float, 4>(v, reinterpret_cast<const float*>(p));
  }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int part() {
    return static_cast<int>(threadIdx.x) / (kThreadsM * kThreadsN);
  }
  /// Of the part.
  static __device__ __forceinline__ int warp() {
    return static_cast<int>(threadIdx.x) / 32 % (kThreadsM * kThreadsN / 32);
  }
  static __device__ __forceinline__ int thread_row() {
    return warp() / (kThreadsN / 8) * 4 + lane() / 8;
  }
  static __device__ __forceinline__ int thread_column() {
    return warp() % (kThreadsN / 8) * 8 + lane() % 8;
  }

  float sum_[kM][kN];
};

}  // namespace braze::device
