// Chains on mma.sync: fp16, bf16, tf32.
#pragma once

#include "braze/chain.cuh"
#include "braze/product_sm80.cuh"

namespace braze::device {

template <class T, int kTileRows, int kTileColumns, int kWarpsM, int kWarpsN>
class ChainMma {
  using Tile = MmaTile<T, kTileRows, kTileColumns, kWarpsM, kWarpsN, 64, kSame<T, tf32>>;

 public:
  static constexpr int kRows = kTileRows, kColumns = kTileColumns;
  static constexpr int kTogether = Tile::kN % 4 == 0 ? 4 : 2;  // fragments, 8 columns each
  static constexpr int kVector = 2 * kTogether;
  static_assert(Tile::kThreads == kChainThreads, "a chain's threads all multiply");

  template <class F>
  __device__ __forceinline__ void rows(const F& offset_of, int) {
    BRAZE_UNROLL
    for (int i = 0; i < Tile::kM; ++i)
      row_[i] = offset_of(Tile::a_row() + i * 16) + Tile::a_chunk() * 16;
  }
  __device__ __forceinline__ void step(const unsigned char* image, const unsigned char* weights) {
    const unsigned char* const mine = weights + Swizzled<32>::at(Tile::b_row(), Tile::b_chunk());
    tile_.step(
        [&](u32(&fragment)[4], int i) {
          ldmatrix_x4(fragment, image + row_[i]);
          if constexpr (kSame<T, tf32>) {
            BRAZE_UNROLL
            for (int e = 0; e < 4; ++e) fragment[e] = float_to_tf32(__uint_as_float(fragment[e]));
          }
        },
        [&](u32(&fragment)[4], int j) { ldmatrix_x4(fragment, mine + j * 16 * 32); });
  }
  /// Of kTogether fragments a lane has columns 2 t and 2 t + 1 of each, which chain_pack made
  /// adjacent channels.
  template <class Begin, class F>
  __device__ __forceinline__ void finish(float*, const Begin& begin, const F& f) const {
    const int row = Tile::first_row() + Tile::lane() / 4;
    BRAZE_UNROLL
    for (int j = 0; j < Tile::kN; j += kTogether) {
      const int channel = Tile::first_column() + j * 8 + Tile::lane() % 4 * kVector;
      const auto constants = begin(channel);
      BRAZE_UNROLL
      for (int i = 0; i < 2 * Tile::kM; ++i) {
        float v[kVector];
        BRAZE_UNROLL
        for (int e = 0; e < kVector; ++e) v[e] = tile_.sum(i / 2, j + e / 2, i % 2 * 2 + e % 2);
        f(row + i * 8, channel, v, constants);
      }
    }
  }

 private:
  Tile tile_;
  int row_[Tile::kM];
};

}  // namespace braze::device
