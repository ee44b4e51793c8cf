// The convolution of conv_sm90.cuh where a block has one tile, or one part of its sum, and all of
// its steps are in shared memory at once: that of small images, where what counts is the time from
// the end of the kernel before to the end of this one.
//
// A warpgroup that is alone on its multiprocessor waits for each of its own instructions, so there
// are few: no ring and no barriers but one for each step, which its warps ask for side by side,
// weights before the kernel's turn; products of all steps follow each other.
#pragma once

#include "braze/conv_sm90_tile.cuh"

namespace braze::device {

/// Of one thread of each warp: the steps that it asks for are first, first + kStride, ...
template <class Tile>
struct ConvSm90Whole {
  static constexpr int kStride = Tile::kMathThreads / 32;
  const ConvSm90Parameters& p;
  const ConvSm90Memory<Tile>& memory;
  static constexpr bool kSum = Tile::kOther != ConvSm90Input::kNone;
  int first, begin, steps;
  int channel, pixel, staged_pixel;
  ConvSm90Walk<Tile, Tile::kIm2col> walk;
  ConvSm90OtherWalk<Tile> other;

  __device__ __forceinline__ ConvSm90Whole(const ConvSm90Parameters& parameters,
                                           const ConvSm90Memory<Tile>& shared,
                                           const ConvSm90Part<Tile>& part, int warp)
      : p(parameters),
        memory(shared),
        first(warp),
        begin(part.begin),
        steps(part.end - part.begin),
        channel(part.channel(parameters, part.first_tile)),
        pixel(part.pixel(parameters, part.first_tile)),
        staged_pixel(pixel + part.rank * (Tile::kPixels / Tile::kSplit)),
        walk(parameters.source, parameters.activations, parameters, pixel, channel, begin + first),
        other(parameters.other, parameters.others, parameters, pixel, channel,
              kSum ? begin + first - parameters.first_steps : 0) {}

  __device__ __forceinline__ void load_weights() const {
    tma_prefetch(&p.activations);
    if constexpr (kSum) tma_prefetch(&p.others);
    for (int step = first; step < steps; step += kStride) {
      barrier_arrive_expect(memory.full + step, Tile::kShared.stage);
      tma_load_2d(memory.weights + step * Tile::kChannels * Tile::kRowBytes, &p.weights,
                  memory.full + step, (begin + step) * Tile::kStepChannels, channel);
    }
  }
  /// After the kernels before.
  __device__ __forceinline__ void load_activations() {
    for (int step = first; step < steps; step += kStride) {
      unsigned char* const to = memory.activations + step * Tile::kPixels * Tile::kRowBytes;
      if (!kSum || begin + step < p.first_steps) {
        walk.load(to, memory.full + step);
      } else {
        other.load(to, memory.full + step);
      }
      walk.place(begin + step + kStride);
      if constexpr (kSum) other.place(begin + step + kStride - p.first_steps);
    }
    if constexpr (Tile::kStagesOperand) {
      for (int chunk = first; chunk < Tile::kShared.tile_chunks; chunk += kStride) {
        barrier_arrive_expect(memory.staged_full + chunk, Tile::kShared.chunk);
        tma_load_2d(memory.staged + chunk * Tile::kShared.chunk, &p.staged,
                    memory.staged_full + chunk, channel + chunk * Tile::kShared.chunk_channels,
                    staged_pixel);
      }
    }
  }
};

/// acc += the sum over the part's steps (one at least), for the warpgroup's pixels.
template <class Tile>
__device__ __forceinline__ void conv_sm90_whole_multiply(
    float (&acc)[Tile::kProducts][Tile::kRegisters], const ConvSm90Memory<Tile>& memory, int steps,
    int warpgroup) {
  u64 a = matrix_descriptor<Tile::kRowBytes>(
      shared_address(memory.activations + warpgroup * Tile::kProducts * 64 * Tile::kRowBytes));
  u64 b = matrix_descriptor<Tile::kRowBytes>(shared_address(memory.weights));
  for (int step = 0; step < steps; ++step) {
    barrier_wait(memory.full + step, 0);
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
    a += Tile::kPixels * Tile::kRowBytes / 16;
    b += Tile::kChannels * Tile::kRowBytes / 16;
  }
  wgmma_wait<0>();
  BRAZE_UNROLL
  for (int m = 0; m < Tile::kProducts; ++m) wgmma_registers(acc[m]);
}

template <class Tile, class Epilogue, class Result, Store kStore>
__device__ __forceinline__ void conv_sm90_whole(const ConvSm90Parameters& p) {
  BRAZE_DYNAMIC_SHARED(shared);
  const ConvSm90Memory<Tile> memory(shared);
  const ConvSm90Part<Tile> part(p);
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  if (threadIdx.x == 0) {
    for (int step = 0; step < part.end - part.begin; ++step) barrier_init(memory.full + step, 1);
    for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
      barrier_init(memory.staged_full + chunk, 1);
      barrier_init(memory.staged_empty + chunk, Tile::kMathThreads / 32);  // for conv_sm90_finish
    }
    if constexpr (Tile::kSplit > 1) barrier_init(memory.exchanged, 1);
    barrier_init_fence();
    if constexpr (Tile::kSplit > 1)
      barrier_arrive_expect(memory.exchanged, Tile::kPixels * Tile::kChannels * 4);
  }
  __syncthreads();
  if constexpr (Tile::kSplit > 1) cluster_arrive();

  ConvSm90Whole<Tile> loads(p, memory, part, warp);
  const bool leads = threadIdx.x % 32 == 0;
  if (leads) loads.load_weights();
  float acc[Tile::kProducts][Tile::kRegisters];
  conv_sm90_begin<Tile>(acc, p.bias + loads.channel, part.rank == 0);
  grid_dependency_wait();
  if (leads) loads.load_activations();
  launch_dependents();
  __syncwarp();
  conv_sm90_whole_multiply<Tile>(acc, memory, part.end - part.begin, warp / 4);

  const int first_row = warp / 4 * (64 * Tile::kProducts) + warp % 4 * 16;
  if constexpr (Tile::kSplit == 1) {
    Ring<Tile::kChunks> staged;
    conv_sm90_finish<Tile, Epilogue, Result, kStore, true>(p, memory, staged, acc, loads.pixel,
                                                           first_row, loads.channel);
  } else {
    cluster_wait();  // all of its blocks have begun
    BRAZE_UNROLL
    for (int m = 0; m < Tile::kProducts; ++m)
      conv_sm90_send<Tile>(memory, acc[m], part.rank, first_row + 64 * m);
    barrier_wait_cluster(memory.exchanged, 0);
    conv_sm90_finish_part<Tile, Epilogue, Result, kStore>(p, memory, loads.staged_pixel,
                                                          loads.channel);
  }
}

}  // namespace braze::device
