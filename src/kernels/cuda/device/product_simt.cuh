// Tiles in exact fp32, on no tensor core: a thread holds kM x kN sums in registers. Threads of a
// warp stand 4 x 8; rows and columns of a thread are kThreadsM and kThreadsN apart, so that a
// warp's loads lie in different banks.
#pragma once

#include "braze/product.cuh"

namespace braze::device {

template <int kTileRows, int kTileColumns, int kThreadsM, int kThreadsN, int kRowBytes>
class FmaTile {
 public:
  using Element = float;
  using Place = Swizzled<kRowBytes>;
  static constexpr int kRows = kTileRows;
  static constexpr int kColumns = kTileColumns;
  static constexpr int kThreads = kThreadsM * kThreadsN;

  __device__ FmaTile() {
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) {
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j) sum_[i][j] = 0;
    }
  }

  __device__ void multiply(const unsigned char* a, const unsigned char* b) {
    const int row = thread_row(), column = thread_column();
#pragma unroll 1
    for (int chunk = 0; chunk < kRowBytes / 16; ++chunk) {
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

  __device__ void put(float* to, int pitch) const {
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) {
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j)
        to[(thread_row() + i * kThreadsM) * pitch + thread_column() + j * kThreadsN] = sum_[i][j];
    }
  }

 private:
  static constexpr int kM = kRows / kThreadsM;
  static constexpr int kN = kColumns / kThreadsN;
  static_assert(kThreadsM % 4 == 0 && kThreadsN % 8 == 0, "whole warps");

  static __device__ __forceinline__ void load_chunk(float (&v)[4], const unsigned char* p) {
    load_vector<float, 4>(v, reinterpret_cast<const float*>(p));
  }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int thread_row() {
    return warp() / (kThreadsN / 8) * 4 + lane() / 8;
  }
  static __device__ __forceinline__ int thread_column() {
    return warp() % (kThreadsN / 8) * 8 + lane() % 8;
  }

  float sum_[kM][kN];
};

}  // namespace braze::device
