// Tiles on the tensor cores of any architecture since sm_70 (bfloat16: sm_80): wmma on 16-bit
// elements, fp32 sums. Which lane holds what of a fragment is never used.
#pragma once

#include "braze/product.cuh"

namespace braze::device {

template <class T, int kTileRows, int kTileColumns, int kWarpsM, int kWarpsN, int kRowBytes>
class WmmaTile {
 public:
  using Element = T;
  using Place = Padded<kRowBytes>;
  static constexpr int kRows = kTileRows;
  static constexpr int kColumns = kTileColumns;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;

  __device__ WmmaTile() {
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) {
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j) {
        BRAZE_UNROLL
        for (int e = 0; e < 8; ++e) sum_[i][j][e] = 0;
      }
    }
  }

  static constexpr int kM = kTileRows / kWarpsM / 16;  // fragments of a warp
  static constexpr int kN = kTileColumns / kWarpsN / 16;
  static constexpr int kRegisters = kSame<T, half> ? 8 : 4;  // of a fragment

  /// load_a(fragment, i): rows 16 i of a warp, load_b(fragment, j): columns 16 j, at one depth.
  template <class LoadA, class LoadB>
  __device__ __forceinline__ void step(const LoadA& load_a, const LoadB& load_b) {
    u32 fragment_a[kM][kRegisters], fragment_b[kRegisters];
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) load_a(fragment_a[i], i);
    BRAZE_UNROLL
    for (int j = 0; j < kN; ++j) {
      load_b(fragment_b, j);
      BRAZE_UNROLL
      for (int i = 0; i < kM; ++i) wmma_mma<T>(sum_[i][j], fragment_a[i], fragment_b);
    }
  }

  __device__ void multiply(const unsigned char* a, const unsigned char* b) {
    constexpr u32 kPitch = Place::kPitch / sizeof(T);
    BRAZE_UNROLL
    for (int k = 0; k < kRowBytes / 32; ++k) {
      step(
          [&](u32(&fragment)[kRegisters], int i) {
            wmma_load_a_row(fragment, a + Place::at(first_row() + i * 16, 2 * k), kPitch);
          },
          [&](u32(&fragment)[kRegisters], int j) {
            wmma_load_b_col(fragment, b + Place::at(first_column() + j * 16, 2 * k), kPitch);
          });
    }
  }

  __device__ void put(float* to, int pitch) const {
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) {
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j)
        wmma_store_row(to + (first_row() + i * 16) * pitch + first_column() + j * 16, sum_[i][j],
                       static_cast<u32>(pitch));
    }
  }

  /// Sums of 16 rows and 16 columns, the i-th and j-th of the warp.
  __device__ __forceinline__ void put_block(float* to, int pitch, int i, int j) const {
    wmma_store_row(to, sum_[i][j], static_cast<u32>(pitch));
  }

  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int first_row() { return warp() / kWarpsN * kM * 16; }
  static __device__ __forceinline__ int first_column() { return warp() % kWarpsN * kN * 16; }

 private:
  static_assert(kM * kWarpsM * 16 == kRows && kN * kWarpsN * 16 == kColumns,
                "warps take whole fragments");

  float sum_[kM][kN][8];
};

}  // namespace braze::device
