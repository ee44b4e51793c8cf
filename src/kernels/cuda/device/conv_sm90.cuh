// Convolution and its epilogue for sm_90a: y[pixel, k] = sum over taps and channels of
// x[pixel moved by tap, c] w[k, tap, c], on the tensor cores of a warpgroup.
//
// One warp of a block loads: for each step (a tap, and a block of kRowBytes of channels) a box of
// activations and one of weights, by TMA, into a ring of stages in shared memory. The other warps,
// in warpgroups of 4, multiply: 64 pixels times kChannels each, accumulators in registers. Padding
// is what the TMA finds outside of the image: zeros. Blocks stay and walk over tiles, so the loads
// of a tile run while the tile before is stored. Sums begin with the bias, which comes with the
// first weights. A further warp loads an operand of the epilogue (a residual) in the same way, in
// chunks of channels.
//
// A second input, of another convolution, adds steps to the same sum.
//
// A cluster of kSplit blocks shares a tile's sum: each does a part of the steps, then they send
// each other their accumulators, and each finishes a part of the tile's pixels.
#pragma once

#include "braze/conv_sm90_tile.cuh"

namespace braze::device {

/// Announces a step's bytes and asks for its weights, and in a tile's first step for the bias.
template <class Tile>
__device__ __forceinline__ void conv_sm90_load_weights(const ConvSm90Parameters& p,
                                                       const ConvSm90Memory<Tile>& memory,
                                                       int stage, int step, bool first,
                                                       int channel) {
  Barrier* const full = memory.full + stage;
  unsigned char* const to = memory.weights + stage * Tile::kChannels * Tile::kRowBytes;
  barrier_arrive_expect(full, Tile::kShared.stage + (first ? Tile::kShared.bias : 0));
  tma_load_2d(to, &p.weights, full, step * Tile::kStepChannels, channel);
  if (first)
    bulk_load(memory.bias + stage * Tile::kChannels, p.bias + channel, full, Tile::kShared.bias);
}

/// One thread: fills the ring.
template <class Tile>
__device__ __forceinline__ void conv_sm90_load(const ConvSm90Parameters& p,
                                               const ConvSm90Memory<Tile>& memory,
                                               ConvSm90Part<Tile> part) {
  tma_prefetch(&p.weights);
  tma_prefetch(&p.activations);
  constexpr bool kSum = Tile::kOther != ConvSm90Input::kNone;
  if constexpr (kSum) tma_prefetch(&p.others);
  // Weights are no kernel's result: the first are asked for before this kernel's turn.
  int early = min(Tile::kStages, part.end - part.begin);
  for (int i = 0; i < early; ++i) {
    conv_sm90_load_weights<Tile>(p, memory, i, part.begin + i, i == 0,
                                 part.channel(p, part.first_tile));
  }
  grid_dependency_wait();

  Ring<Tile::kStages> ring;
  for (int tile = part.first_tile; tile < p.tiles; tile += part.stride) {
    const int channel = part.channel(p, tile);
    const int pixel = part.pixel(p, tile);
    part.enter(p, tile);
    ConvSm90Walk<Tile, Tile::kIm2col> walk(p.source, p.activations, p, pixel, channel, part.begin);
    ConvSm90OtherWalk<Tile> other(p.other, p.others, p, pixel, channel,
                                  kSum ? max(part.begin - p.first_steps, 0) : 0);
    for (int step = part.begin; step < part.end; ++step, ring.next()) {
      if (early > 0) {
        --early;
      } else {
        barrier_wait(memory.empty + ring.stage, ring.parity ^ 1);
        conv_sm90_load_weights<Tile>(p, memory, ring.stage, step, step == part.begin, channel);
      }
      unsigned char* const to = memory.activations + ring.stage * Tile::kPixels * Tile::kRowBytes;
      if (!kSum || step < p.first_steps) {
        walk.load(to, memory.full + ring.stage);
        walk.next();
      } else {
        other.load(to, memory.full + ring.stage);
        other.next();
      }
    }
  }
}

/// One thread: loads the operand of the epilogue for the pixels that the block finishes.
template <class Tile>
__device__ __forceinline__ void conv_sm90_load_staged(const ConvSm90Parameters& p,
                                                      const ConvSm90Memory<Tile>& memory,
                                                      const ConvSm90Part<Tile>& part) {
  tma_prefetch(&p.staged);
  grid_dependency_wait();
  Ring<Tile::kChunks> ring;
  for (int tile = part.first_tile; tile < p.tiles; tile += part.stride) {
    const int pixel = part.pixel(p, tile) + part.rank * (Tile::kPixels / Tile::kSplit);
    for (int chunk = 0; chunk < Tile::kShared.tile_chunks; ++chunk, ring.next()) {
      barrier_wait(memory.staged_empty + ring.stage, ring.parity ^ 1);
      Barrier* const full = memory.staged_full + ring.stage;
      barrier_arrive_expect(full, Tile::kShared.chunk);
      tma_load_2d(memory.staged + ring.stage * Tile::kShared.chunk, &p.staged, full,
                  part.channel(p, tile) + chunk * Tile::kShared.chunk_channels, pixel);
    }
  }
}

/// acc = the sum over the part's steps (one at least), for the warpgroup's pixels.
template <class Tile>
__device__ __forceinline__ void conv_sm90_multiply(float (&acc)[Tile::kProducts][Tile::kRegisters],
                                                   const ConvSm90Memory<Tile>& memory,
                                                   Ring<Tile::kStages>& ring, int warpgroup,
                                                   const ConvSm90Part<Tile>& part) {
  const u64 activations = matrix_descriptor<Tile::kRowBytes>(
      shared_address(memory.activations + warpgroup * Tile::kProducts * 64 * Tile::kRowBytes));
  const u64 weights = matrix_descriptor<Tile::kRowBytes>(shared_address(memory.weights));
  const auto multiply = [&] {
    const u64 a = activations + ring.stage * (Tile::kPixels * Tile::kRowBytes / 16);
    const u64 b = weights + ring.stage * (Tile::kChannels * Tile::kRowBytes / 16);
    wgmma_fence();
    BRAZE_UNROLL
    for (int m = 0; m < Tile::kProducts; ++m) {
      BRAZE_UNROLL
      for (int k = 0; k < Tile::kRowBytes / 32; ++k) {
        wgmma<typename Tile::Element>(acc[m], a + m * (64 * Tile::kRowBytes / 16) + 2 * k,
                                      b + 2 * k, true);
      }
    }
    wgmma_commit();
  };
  barrier_wait(memory.full + ring.stage, ring.parity);
  conv_sm90_begin<Tile>(acc, memory.bias + ring.stage * Tile::kChannels, part.rank == 0);
  multiply();
  int before = ring.stage;
  ring.next();
  for (int step = part.begin + 1; step < part.end; ++step) {
    barrier_wait(memory.full + ring.stage, ring.parity);
    multiply();
    wgmma_wait<1>();
    conv_sm90_release(memory.empty + before);
    before = ring.stage;
    ring.next();
  }
  wgmma_wait<0>();
  BRAZE_UNROLL
  for (int m = 0; m < Tile::kProducts; ++m) wgmma_registers(acc[m]);
  conv_sm90_release(memory.empty + before);
}

/// A warp of a warpgroup that multiplies.
template <class Tile, class Epilogue, class Result, Store kStore>
__device__ __forceinline__ void conv_sm90_compute(const ConvSm90Parameters& p,
                                                  const ConvSm90Memory<Tile>& memory,
                                                  ConvSm90Part<Tile> part, int warp) {
  Ring<Tile::kStages> ring;
  Ring<Tile::kChunks> staged;
  float acc[Tile::kProducts][Tile::kRegisters];
  grid_dependency_wait();
  for (int tile = part.first_tile; tile < p.tiles; tile += part.stride) {
    part.enter(p, tile);
    conv_sm90_multiply<Tile>(acc, memory, ring, warp / 4, part);
    const int pixel = part.pixel(p, tile), channel = part.channel(p, tile);
    const int first_row = warp / 4 * (64 * Tile::kProducts) + warp % 4 * 16;
    if constexpr (Tile::kSplit == 1) {
      conv_sm90_finish<Tile, Epilogue, Result, kStore, false>(p, memory, staged, acc, pixel,
                                                              first_row, channel);
    } else {
      BRAZE_UNROLL
      for (int m = 0; m < Tile::kProducts; ++m)
        conv_sm90_send<Tile>(memory, acc[m], part.rank, first_row + 64 * m);
      barrier_wait_cluster(memory.exchanged, 0);
      conv_sm90_finish_part<Tile, Epilogue, Result, kStore>(
          p, memory, pixel + part.rank * (Tile::kPixels / Tile::kSplit), channel);
      return;  // the grid has a cluster for each tile
    }
  }
}

template <class Tile, class Epilogue, class Result, Store kStore>
__device__ __forceinline__ void conv_sm90(const ConvSm90Parameters& p) {
  BRAZE_DYNAMIC_SHARED(shared);
  const ConvSm90Memory<Tile> memory(shared);
  const ConvSm90Part<Tile> part(p);
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  launch_dependents();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      barrier_init(memory.full + stage, 1);
      barrier_init(memory.empty + stage, Tile::kMathThreads / 32);
    }
    for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
      barrier_init(memory.staged_full + chunk, 1);
      barrier_init(memory.staged_empty + chunk, Tile::kMathThreads / 32);
    }
    if constexpr (Tile::kSplit > 1) barrier_init(memory.exchanged, 1);
    barrier_init_fence();
    if constexpr (Tile::kSplit > 1)
      barrier_arrive_expect(memory.exchanged, Tile::kPixels * Tile::kChannels * 4);
  }
  __syncthreads();
  // Nothing is sent to a block that has not begun; loads of its own come before.
  if constexpr (Tile::kSplit > 1) cluster_arrive();

  if (warp >= Tile::kMathThreads / 32) {
    if constexpr (Tile::kMovesRegisters) registers_down<Tile::kLoadRegisters>();
    if (threadIdx.x == Tile::kMathThreads) conv_sm90_load<Tile>(p, memory, part);
    if constexpr (Tile::kStagesOperand) {
      if (threadIdx.x == Tile::kMathThreads + 32) conv_sm90_load_staged<Tile>(p, memory, part);
    }
    if constexpr (Tile::kSplit > 1) cluster_wait();
  } else {
    if constexpr (Tile::kMovesRegisters) registers_up<Tile::kMathRegisters>();
    if constexpr (Tile::kSplit > 1) cluster_wait();
    conv_sm90_compute<Tile, Epilogue, Result, kStore>(p, memory, part, warp);
  }
}

}  // namespace braze::device
