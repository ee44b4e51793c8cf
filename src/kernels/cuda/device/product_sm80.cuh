// Tiles on the tensor cores of sm_80 and up: ldmatrix and mma.sync on 16-bit elements or tf32, fp32
// sums. A step covers 32 bytes of depth: two chunks, 16 or 8 elements.
#pragma once

#include "braze/product.cuh"

namespace braze::device {

/// kRounds: elements of a have more than tf32's mantissa, and are rounded on the way.
template <class T, int kTileRows, int kTileColumns, int kWarpsM, int kWarpsN, int kRowBytes,
          bool kRounds>
class MmaTile {
 public:
  using Element = T;
  using Place = Swizzled<kRowBytes>;
  static constexpr int kRows = kTileRows;
  static constexpr int kColumns = kTileColumns;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;

  __device__ MmaTile() {
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) {
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j) {
        BRAZE_UNROLL
        for (int e = 0; e < 4; ++e) sum_[i][j][e] = 0;
      }
    }
  }

  static constexpr int kM = kTileRows / kWarpsM / 16;  // fragments of a warp
  static constexpr int kN = kTileColumns / kWarpsN / 8;

  // Lane l names row l % 8 of matrix l / 8: (rows 0-7, 8-15) x (chunk 0, 1) of a; of b the same
  // with chunks first. Here, of the first fragment; others are 16 rows on.
  static __device__ __forceinline__ int a_row() { return first_row() + lane() % 16; }
  static __device__ __forceinline__ int a_chunk() { return lane() / 16; }
  static __device__ __forceinline__ int b_row() {
    return first_column() + lane() % 8 + lane() / 16 * 8;
  }
  static __device__ __forceinline__ int b_chunk() { return lane() / 8 % 2; }

  /// load_a(fragment, i): rows 16 i of a warp, load_b(fragment, j): columns 16 j, at one depth.
  template <class LoadA, class LoadB>
  __device__ __forceinline__ void step(const LoadA& load_a, const LoadB& load_b) {
    u32 fragment_a[kM][4], fragment_b[kN / 2][4];
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) load_a(fragment_a[i], i);
    BRAZE_UNROLL
    for (int j = 0; j < kN / 2; ++j) load_b(fragment_b[j], j);
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) {
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j) {
        const u32 columns[2] = {fragment_b[j / 2][j % 2 * 2], fragment_b[j / 2][j % 2 * 2 + 1]};
        if constexpr (kSame<T, tf32>) {
          mma_m16n8k8_tf32(sum_[i][j], fragment_a[i], columns);
        } else {
          mma_m16n8k16<T>(sum_[i][j], fragment_a[i], columns);
        }
      }
    }
  }

  __device__ void multiply(const unsigned char* a, const unsigned char* b) {
    BRAZE_UNROLL
    for (int k = 0; k < kRowBytes / 32; ++k) {
      step(
          [&](u32(&fragment)[4], int i) {
            ldmatrix_x4(fragment, a + Place::at(a_row() + i * 16, 2 * k + a_chunk()));
            if constexpr (kRounds) {
              BRAZE_UNROLL
              for (int e = 0; e < 4; ++e) fragment[e] = float_to_tf32(__uint_as_float(fragment[e]));
            }
          },
          [&](u32(&fragment)[4], int j) {
            ldmatrix_x4(fragment, b + Place::at(b_row() + j * 16, 2 * k + b_chunk()));
          });
    }
  }

  __device__ void put(float* to, int pitch) const {
    BRAZE_UNROLL
    for (int i = 0; i < kM; ++i) {
      BRAZE_UNROLL
      for (int j = 0; j < kN; ++j) {
        float* const at = to + (first_row() + i * 16 + lane() / 4) * pitch + first_column() +
                          j * 8 + lane() % 4 * 2;
        store_vector<float, 2>(at, {sum_[i][j][0], sum_[i][j][1]});
        store_vector<float, 2>(at + 8 * pitch, {sum_[i][j][2], sum_[i][j][3]});
      }
    }
  }

  /// Of the fragment of rows 16 i and columns 8 j of the warp, at lane l: row l / 4 + 8 (e / 2),
  /// column l % 4 * 2 + e % 2.
  __device__ __forceinline__ float sum(int i, int j, int e) const { return sum_[i][j][e]; }

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int first_row() { return warp() / kWarpsN * kM * 16; }
  static __device__ __forceinline__ int first_column() { return warp() % kWarpsN * kN * 8; }

 private:
  static_assert(kM * kWarpsM * 16 == kRows && kN * kWarpsN * 8 == kColumns && kN % 2 == 0,
                "warps take whole fragments, those of b in pairs");

  float sum_[kM][kN][4];
};

}  // namespace braze::device
