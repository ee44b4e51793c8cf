// The convolution of conv_patch_sm90.cuh where a block has one tile, or one part of its sum, and
// all of its weights and patches are in shared memory at once: that of small images. As in
// conv_sm90_whole.cuh, there is little between the operands and the products: one copy brings all
// weights, before the kernel's turn; warps ask for patches side by side.
#pragma once

#include "braze/conv_patch_sm90.cuh"

namespace braze::device {

/// One thread: the weights of the part, which lie together.
template <class Tile>
__device__ __forceinline__ void conv_patch_whole_weights(const ConvPatchParameters& p,
                                                         const ConvPatchMemory& memory,
                                                         const ConvPatchPart<Tile>& part) {
  tma_prefetch(&p.activations);
  const u32 bytes = static_cast<u32>((part.end - part.begin) * kPatchWeights);
  const i64 at = static_cast<i64>(part.channel_tile) * p.steps + part.begin;
  barrier_arrive_expect(memory.weights_full, bytes);
  bulk_load(memory.weights, p.weights + at * kPatchWeights, memory.weights_full, bytes);
}

/// One thread of each warp: its share of the patches, and the epilogue's operand.
template <class Tile>
__device__ __forceinline__ void conv_patch_whole_load(const ConvPatchParameters& p,
                                                      const ConvPatchMemory& memory,
                                                      const ConvPatchPart<Tile>& part, int warp,
                                                      int first_block, int patches) {
  const int x = part.x * p.stride + p.corner_x, y = part.y * p.stride + p.corner_y;
  for (int patch = warp; patch < patches; patch += 4) {
    Barrier* const full = memory.patch_full + patch;
    unsigned char* to = memory.patches + patch * p.patch_bytes;
    barrier_arrive_expect(full, p.planes_x * p.planes_y * p.plane_loaded);
    for (int i = 0; i < p.planes_y; ++i) {
      for (int j = 0; j < p.planes_x; ++j, to += p.plane_bytes)
        tma_load_4d(to, &p.activations, full, (first_block + patch) * 64, x + j, y + i, part.n);
    }
  }
  if (Tile::kStagesOperand && warp == 3)
    conv_patch_load_staged(p, memory, 0, part.channel_tile * 64, part.x, part.y, part.n);
}

/// acc = the sum over the part's steps (one at least), which begin with `tap` of the first patch.
template <class Tile>
__device__ __forceinline__ void conv_patch_whole_multiply(float (&acc)[Tile::kRegisters],
                                                          const ConvPatchParameters& p,
                                                          const ConvPatchMemory& memory, int tap,
                                                          int steps) {
  u64 a = matrix_descriptor<128>(shared_address(memory.weights));
  u64 patch = matrix_descriptor<128>(shared_address(memory.patches));
  BRAZE_UNROLL
  for (int r = 0; r < Tile::kRegisters; ++r) acc[r] = 0;
  wgmma_registers(acc);
  barrier_wait(memory.weights_full, 0);
  for (Barrier* full = memory.patch_full; steps > 0; ++full, patch += p.patch_bytes / 16) {
    barrier_wait(full, 0);
    const int end = min(p.taps, tap + steps);
    steps -= end - tap;
    for (; tap < end; ++tap, a += kPatchWeights / 16) {
      const u64 b = patch + p.tap_at[tap] * 8;
      wgmma_fence();
      BRAZE_UNROLL
      for (int k = 0; k < 4; ++k) wgmma<typename Tile::Element>(acc, a + 2 * k, b + 2 * k, true);
      wgmma_commit();
    }
    tap = 0;
  }
  wgmma_wait<0>();
  wgmma_registers(acc);
}

template <class Tile, class Epilogue, class Result, Store kStore>
__device__ __forceinline__ void conv_patch_sm90_whole(const ConvPatchParameters& p) {
  BRAZE_DYNAMIC_SHARED(shared);
  const ConvPatchMemory memory(shared, p);
  const ConvPatchPart<Tile> part(p);
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int first_block = part.begin / p.taps;
  const int patches = (part.end - 1) / p.taps - first_block + 1;
  if (threadIdx.x == 0) {
    barrier_init(memory.weights_full, 1);
    for (int patch = 0; patch < patches; ++patch) barrier_init(memory.patch_full + patch, 1);
    barrier_init(memory.staged_full, 1);
    barrier_init(memory.exchanged, 1);
    barrier_init_fence();
    if constexpr (Tile::kSplit > 1) barrier_arrive_expect(memory.exchanged, Tile::kUnits * 32);
    conv_patch_whole_weights<Tile>(p, memory, part);
  }
  __syncthreads();
  if constexpr (Tile::kSplit > 1) cluster_arrive();

  const ConvPatchBias<Tile> bias(p, part);
  grid_dependency_wait();
  if (threadIdx.x % 32 == 0)
    conv_patch_whole_load<Tile>(p, memory, part, warp, first_block, patches);
  launch_dependents();
  __syncwarp();
  float acc[Tile::kRegisters];
  conv_patch_whole_multiply<Tile>(acc, p, memory, part.begin - first_block * p.taps,
                                  part.end - part.begin);
  if constexpr (Tile::kSplit > 1) {
    cluster_wait();  // all of its blocks have begun
    conv_patch_send<Tile>(memory, part, acc);
  }
  if constexpr (Tile::kStagesOperand) barrier_wait(memory.staged_full, 0);
  if constexpr (Tile::kSplit == 1) {
    conv_patch_finish<Tile, Epilogue, Result, kStore>(p, memory, part, acc, bias.v[0], 0);
  } else {
    barrier_wait_cluster(memory.exchanged, 0);
    conv_patch_finish_part<Tile, Epilogue, Result, kStore>(p, memory, part, bias.v);
  }
}

}  // namespace braze::device
