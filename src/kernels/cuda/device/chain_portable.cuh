// Chains on wmma: fp16 from sm_70, bf16 from sm_80. 16 rows of a product lie `pitch` apart: pixels
// of one line.
#pragma once

#include "braze/chain.cuh"
#include "braze/product_portable.cuh"

namespace braze::device {

template <class T, int kTileRows, int kTileColumns, int kWarpsM, int kWarpsN>
class ChainWmma {
  using Tile = WmmaTile<T, kTileRows, kTileColumns, kWarpsM, kWarpsN, 64>;

 public:
  static constexpr int kRows = kTileRows, kColumns = kTileColumns;
  static constexpr int kVector = 8;
  static_assert(Tile::kThreads == kChainThreads, "a chain's threads all multiply");

  template <class F>
  __device__ __forceinline__ void rows(const F& offset_of, int pitch) {
    BRAZE_UNROLL
    for (int i = 0; i < Tile::kM; ++i) row_[i] = offset_of(Tile::first_row() + i * 16);
    pitch_ = static_cast<u32>(pitch) / sizeof(T);
  }
  __device__ __forceinline__ void step(const unsigned char* image, const unsigned char* weights) {
    tile_.step([&](u32(&fragment)[Tile::kRegisters],
                   int i) { wmma_load_a_row(fragment, image + row_[i], pitch_); },
               [&](u32(&fragment)[Tile::kRegisters], int j) {
                 wmma_load_b_col(fragment, weights + (Tile::first_column() + j * 16) * 32,
                                 32 / sizeof(T));
               });
  }
  template <class F>
  __device__ __forceinline__ void finish(float* scratch, const F& f) const {
    finish_blocks<Tile, Tile::kM, Tile::kN>(tile_, scratch, f);
  }

 private:
  Tile tile_;
  int row_[Tile::kM];
  u32 pitch_;
};

}  // namespace braze::device
