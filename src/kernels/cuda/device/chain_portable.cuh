// Chains on wmma: fp16 from sm_70, bf16 from sm_80. 16 rows of a product lie `pitch` apart: pixels
// of one line.
#pragma once

#include "braze/chain.cuh"
#include "braze/product_portable.cuh"

namespace braze::device {

inline constexpr int kChainScratchPitch = 20;  // floats from row to row of a block of 16 x 16 sums

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
  /// Which lane has which sum is not told: they go through the warp's scratch.
  template <class Begin, class F>
  __device__ __forceinline__ void finish(float* scratch, const Begin& begin, const F& f) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float* const mine = scratch + Tile::warp() * 16 * kChainScratchPitch;
    const int row = lane % 16, column = lane / 16 * 8;
    BRAZE_UNROLL
    for (int j = 0; j < Tile::kN; ++j) {
      const int channel = Tile::first_column() + j * 16 + column;
      const auto constants = begin(channel);
      BRAZE_UNROLL
      for (int i = 0; i < Tile::kM; ++i) {
        tile_.put_block(mine, kChainScratchPitch, i, j);
        __syncwarp();
        float v[8];
        load_vector<float, 8>(v, mine + row * kChainScratchPitch + column);
        __syncwarp();
        f(Tile::first_row() + i * 16 + row, channel, v, constants);
      }
    }
  }

 private:
  Tile tile_;
  int row_[Tile::kM];
  u32 pitch_;
};

}  // namespace braze::device
