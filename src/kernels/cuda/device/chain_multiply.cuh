// What multiplies in a chain. Rows of a product are pixels, gathered out of an image in shared
// memory; columns are output channels, whose weights lie in steps of 32 bytes of depth. A policy
// has
//   rows(offset_of, pitch)  sets where its rows begin: offset_of(row), in bytes; from each row of
//                           16 to the next it is `pitch`, where kLines
//   step(image, weights)    sums += rows of the image at one depth times the weights of a step
//   finish(scratch, begin, f)
//                           f(row, channel, v, begin(channel)) of all sums, kVector adjacent
//                           channels at once
#pragma once

#include "braze/product_rows.cuh"

namespace braze::device {

/// Exact fp32 sums on no tensor core: threads stand kThreadsM x kThreadsN, those of a warp 4 x 8.
template <class T, int kTileRows, int kTileColumns, int kThreadsM, int kThreadsN>
class ChainFma {
 public:
  static constexpr int kRows = kTileRows, kColumns = kTileColumns;
  static constexpr int kVector = 1;

  __device__ ChainFma() {
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) {
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j) sum_[i][j] = 0;
    }
  }
  template <class F>
  __device__ __forceinline__ void rows(const F& offset_of, int) {
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) row_[i] = offset_of(thread_row() + i * kThreadsM);
  }
  __device__ __forceinline__ void step(const unsigned char* image, const unsigned char* weights) {
    BRAZE_UNROLL
    for (int chunk = 0; chunk < 2; ++chunk) {
      float x[kM][kChunk], w[kChunk];
      BRAZE_UNROLL
      for (int i = 0; i < kM; ++i) load(x[i], image + row_[i] + chunk * 16);
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j) {
        load(w, weights + Swizzled<32>::at(thread_column() + j * kThreadsN, chunk));
        BRAZE_UNROLL
        for (int e = 0; e < kChunk; ++e) {
          BRAZE_UNROLL
          for (int i = 0; i < kM; ++i) sum_[i][j] += x[i][e] * w[e];
        }
      }
    }
  }
  template <class Begin, class F>
  __device__ __forceinline__ void finish(float*, const Begin& begin, const F& f) const {
    BRAZE_UNROLL
    for (int j = 0; j < kN; ++j) {
      const int column = thread_column() + j * kThreadsN;
      const auto constants = begin(column);
      BRAZE_UNROLL
      for (int i = 0; i < kM; ++i) {
        float v[1] = {sum_[i][j]};
        f(thread_row() + i * kThreadsM, column, v, constants);
      }
    }
  }

 private:
  static constexpr int kM = kRows / kThreadsM, kN = kColumns / kThreadsN;
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(T));
  static_assert(kThreadsM % 4 == 0 && kThreadsN % 8 == 0, "whole warps");

  static __device__ __forceinline__ void load(float (&v)[kChunk], const unsigned char* p) {
    load_vector<T, kChunk>(v, reinterpret_cast<const T*>(p));
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
  int row_[kM];
};

}  // namespace braze::device
