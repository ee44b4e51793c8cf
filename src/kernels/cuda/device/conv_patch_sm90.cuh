// Convolution and its epilogue for sm_90a, from patches: y[k, pixel] = sum over channel blocks and
// taps of w[k, tap, c] x[pixel moved by tap, c], on the tensor cores of a warpgroup.
//
// A block has 64 output channels of a tile of pixels. Of each block of channels the patch of input
// pixels that all taps need (the tile and its halo) is loaded once, by TMA, 128 bytes a pixel; a
// tap is the same patch read from another pixel on: pixels of a patch are numbered through, `pitch`
// from row to row, and so are the tile's, so that every tap's operand is a run of rows. What is
// reckoned for the halo's columns is not stored. Strides read one plane of the patch for each
// phase. Weights come as ready images of shared memory, in a ring; their first steps are asked for
// before the kernel's turn, so that at small sizes only the patch is waited for.
//
// The rows of the weights' images are ordered so that a thread's accumulators are pairs of adjacent
// channels: rows i and i + 8 of 16 are channels 2 i and 2 i + 1. Four lanes swap them for 8
// adjacent channels of one pixel each.
//
// With two warpgroups a block stays and walks over tiles, which the warpgroups take in turn: one
// multiplies while the other goes through its epilogue. With one, a block has one tile, and a
// cluster of kSplit blocks may share its sum, as in conv_sm90.cuh.
#pragma once

#include "braze/conv_patch_sm90_parameters.h"
#include "braze/conv_sm90_tile.cuh"

namespace braze::device {

template <class ElementType, int kTilePixels, int kWarpgroupsInTurn, int kSplitBlocks, bool kStages>
struct ConvPatchTile {
  using Element = ElementType;  // half, bfloat16
  static constexpr int kPixels = kTilePixels, kSplit = kSplitBlocks;
  static constexpr int kWarpgroups = kWarpgroupsInTurn;
  static constexpr bool kStagesOperand = kStages;
  static constexpr int kRegisters = kPixels / 2, kMathThreads = 128;  // of a warpgroup
  static constexpr int kMathRegisters = 232, kLoadRegisters = 40;  // of two warpgroups, and a third
  static_assert(kSplit == 1 || kWarpgroups == 1, "split sums are one tile for each cluster");
  // A unit: 8 channels of a pixel. Each thread has one of every 16 pixels.
  static constexpr int kThreadUnits = kPixels / 16;
  static constexpr int kUnits = kThreadUnits * kMathThreads, kPartUnits = kUnits / kSplit;
};

/// The block's shared memory.
struct ConvPatchMemory {
  Barrier *weights_full, *weights_empty;  // [weight stage]
  Barrier *patch_full, *patch_empty;      // [patch stage]
  Barrier *staged_full, *staged_empty;    // [warpgroup]
  Barrier *turn, *exchanged;              // turn: [warpgroup]
  unsigned char* patches;                 // [patch stage][plane][pixel][128 bytes], swizzled
  unsigned char* weights;                 // [weight stage][64 outputs][128 bytes], swizzled
  unsigned char* staged;                  // [warpgroup][pixel][128 bytes], swizzled
  float* exchange;                        // [block of the cluster][half][unit][4]

  __device__ __forceinline__ ConvPatchMemory(unsigned char* shared, const ConvPatchParameters& p)
      : weights_full(reinterpret_cast<Barrier*>(shared)),
        weights_empty(weights_full + kMostWeightStages),
        patch_full(weights_empty + kMostWeightStages),
        patch_empty(patch_full + kMostPatchStages),
        staged_full(patch_empty + kMostPatchStages),
        staged_empty(staged_full + 2),
        turn(staged_empty + 2),
        exchanged(turn + 2),
        patches(shared + kPatchBarriers),
        weights(patches + p.patch_stages * p.patch_bytes),
        staged(weights + p.weight_stages * kPatchWeights),
        exchange(reinterpret_cast<float*>(staged + p.staged_bytes)) {}
};

/// A place in a ring whose length is known at run time.
struct PatchRing {
  int stage = 0;
  u32 parity = 0;  // of the round
  __device__ __forceinline__ void next(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
  __device__ __forceinline__ void skip(int count, int stages) {
    stage += count;
    parity ^= static_cast<u32>(stage / stages) & 1u;
    stage %= stages;
  }
};

/// What a block does: steps [begin, end) of the sum of tiles first, first + stride, ...; and where
/// one of them lies.
template <class Tile>
struct ConvPatchPart {
  int rank, begin, end, first, stride;
  int channel_tile, n, x, y;

  explicit __device__ __forceinline__ ConvPatchPart(const ConvPatchParameters& p) {
    rank = Tile::kSplit > 1 ? static_cast<int>(cluster_rank()) : 0;
    begin = rank * p.steps / Tile::kSplit;
    end = (rank + 1) * p.steps / Tile::kSplit;
    first = static_cast<int>(blockIdx.x) / Tile::kSplit;
    stride = static_cast<int>(gridDim.x) / Tile::kSplit;
    move_to(p, first);
  }
  __device__ __forceinline__ void move_to(const ConvPatchParameters& p, int tile) {
    channel_tile = tile % p.channel_tiles;
    tile /= p.channel_tiles;
    x = tile % p.tiles_x * p.columns;
    tile /= p.tiles_x;
    y = tile % p.tiles_y * p.rows;
    n = tile / p.tiles_y;
  }
};

/// The operand of the epilogue, for a warpgroup.
__device__ __forceinline__ void conv_patch_load_staged(const ConvPatchParameters& p,
                                                       const ConvPatchMemory& memory, int warpgroup,
                                                       int channel, int x, int y, int n) {
  Barrier* const full = memory.staged_full + warpgroup;
  barrier_arrive_expect(full, p.staged_loaded);
  tma_load_4d(memory.staged + warpgroup * p.staged_bytes, &p.staged, full, channel, x, y, n);
}

/// One thread: fills the rings.
template <class Tile>
__device__ __forceinline__ void conv_patch_load(const ConvPatchParameters& p,
                                                const ConvPatchMemory& memory,
                                                ConvPatchPart<Tile> part) {
  constexpr int kStepChannels = 64;
  const auto load_weights = [&](int stage, int step) {
    barrier_arrive_expect(memory.weights_full + stage, kPatchWeights);
    const i64 at = static_cast<i64>(part.channel_tile) * p.steps + step;
    bulk_load(memory.weights + stage * kPatchWeights, p.weights + at * kPatchWeights,
              memory.weights_full + stage, kPatchWeights);
  };
  const auto load_patch = [&](int stage, int block) {
    Barrier* const full = memory.patch_full + stage;
    unsigned char* to = memory.patches + stage * p.patch_bytes;
    barrier_arrive_expect(full, p.planes_x * p.planes_y * p.plane_loaded);
    for (int i = 0; i < p.planes_y; ++i) {
      for (int j = 0; j < p.planes_x; ++j, to += p.plane_bytes) {
        tma_load_4d(to, &p.activations, full, block * kStepChannels,
                    part.x * p.stride + p.corner_x + j, part.y * p.stride + p.corner_y + i, part.n);
      }
    }
  };
  tma_prefetch(&p.activations);
  int early = min(p.weight_stages, part.end - part.begin);
  for (int i = 0; i < early; ++i) load_weights(i, part.begin + i);
  grid_dependency_wait();

  PatchRing weights, patch;
  int turn = 0;
  for (int tile = part.first; tile < p.tiles; tile += part.stride, ++turn) {
    part.move_to(p, tile);
    int tap = part.begin % p.taps, block = part.begin / p.taps;
    for (int step = part.begin; step < part.end; ++step, weights.next(p.weight_stages)) {
      if (tap == 0 || step == part.begin) {
        barrier_wait(memory.patch_empty + patch.stage, patch.parity ^ 1);
        load_patch(patch.stage, block);
        patch.next(p.patch_stages);
        if (Tile::kStagesOperand && Tile::kWarpgroups == 1 && step == part.begin)
          conv_patch_load_staged(p, memory, 0, part.channel_tile * 64, part.x, part.y, part.n);
      }
      if (early > 0) {
        --early;
      } else {
        barrier_wait(memory.weights_empty + weights.stage, weights.parity ^ 1);
        load_weights(weights.stage, step);
      }
      if (++tap == p.taps) tap = 0, ++block;
    }
    if constexpr (Tile::kStagesOperand && Tile::kWarpgroups == 2) {
      barrier_wait(memory.staged_empty + turn % 2, static_cast<u32>(turn / 2 % 2) ^ 1u);
      conv_patch_load_staged(p, memory, turn % 2, part.channel_tile * 64, part.x, part.y, part.n);
    }
  }
}

/// acc = the sum over the part's steps (one at least).
template <class Tile>
__device__ __forceinline__ void conv_patch_multiply(
    float (&acc)[Tile::kRegisters], const ConvPatchParameters& p, const ConvPatchMemory& memory,
    const ConvPatchPart<Tile>& part, PatchRing& weights, PatchRing& patch, int warpgroup) {
  const u64 all_weights = matrix_descriptor<128>(shared_address(memory.weights));
  const u64 all_patches = matrix_descriptor<128>(shared_address(memory.patches));
  int tap = part.begin % p.taps;
  Barrier *read_weights = nullptr, *read_patch = nullptr;  // by the step before
  for (int step = part.begin; step < part.end; ++step) {
    if (tap == 0 || step == part.begin) {
      if (p.patch_stages == 1 && read_patch != nullptr) {  // the next one comes to its place
        wgmma_wait<0>();
        conv_sm90_release(read_patch);
        read_patch = nullptr;
      }
      barrier_wait(memory.patch_full + patch.stage, patch.parity);
    }
    barrier_wait(memory.weights_full + weights.stage, weights.parity);
    const u64 a = all_weights + weights.stage * (kPatchWeights / 16);
    const u64 b = all_patches + patch.stage * (p.patch_bytes / 16) + p.tap_at[tap] * 8;
    wgmma_fence();
    BRAZE_UNROLL
    for (int k = 0; k < 4; ++k) {
      wgmma<typename Tile::Element>(acc, a + 2 * k, b + 2 * k, k > 0 || step > part.begin);
    }
    wgmma_commit();
    if (step > part.begin) {
      wgmma_wait<1>();
      conv_sm90_release(read_weights);
      if (read_patch != nullptr) conv_sm90_release(read_patch);
    }
    read_weights = memory.weights_empty + weights.stage;
    read_patch = nullptr;
    weights.next(p.weight_stages);
    if (++tap == p.taps) {
      read_patch = memory.patch_empty + patch.stage;
      patch.next(p.patch_stages);
      tap = 0;
    }
  }
  if constexpr (Tile::kWarpgroups == 2) conv_sm90_release(memory.turn + (warpgroup ^ 1));
  wgmma_wait<0>();
  wgmma_registers(acc);
  if constexpr (Tile::kWarpgroups == 2) {
    conv_sm90_release(read_weights);
    conv_sm90_release(read_patch);
  }
}

/// Where units lie in the tile.
template <class Tile>
struct ConvPatchUnits {
  /// Unit i of this thread, of all of the block.
  static __device__ __forceinline__ int index(int i) {
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return (warp * Tile::kThreadUnits + i) * 32 + lane;
  }
  static __device__ __forceinline__ int channel(int unit) {
    return unit / (Tile::kThreadUnits * 32) * 16 + unit % 32 / 16 * 8;
  }
  static __device__ __forceinline__ int pixel(int unit) {
    const int of_four = unit % 16 / 4;
    return unit / 32 % Tile::kThreadUnits * 16 + of_four / 2 * 8 + unit % 4 * 2 + of_four % 2;
  }
};

/// Four lanes, t = 0, ..., 3 of them, hold of each of four groups i of 8
/// channels, channels 2 t and 2 t + 1 in a[i]: lane t gets all 8 of group t in v.
__device__ __forceinline__ void transpose_quad(float (&v)[8], const float (&a)[4][2]) {
  const bool odd = threadIdx.x / 4 % 2 != 0, high = threadIdx.x / 8 % 2 != 0;
  float pair[2][4];  // groups of this lane's parity: channels of two lanes
  BRAZE_UNROLL
  for (int i = 0; i < 2; ++i) {
    BRAZE_UNROLL
    for (int e = 0; e < 2; ++e) {
      const float keep = odd ? a[2 * i + 1][e] : a[2 * i][e];
      const float send = odd ? a[2 * i][e] : a[2 * i + 1][e];
      const float got = __shfl_xor_sync(0xffffffffu, send, 4);
      pair[i][e] = odd ? got : keep;
      pair[i][2 + e] = odd ? keep : got;
    }
  }
  BRAZE_UNROLL
  for (int e = 0; e < 4; ++e) {
    const float keep = high ? pair[1][e] : pair[0][e];
    const float send = high ? pair[0][e] : pair[1][e];
    const float got = __shfl_xor_sync(0xffffffffu, send, 8);
    v[e] = high ? got : keep;
    v[4 + e] = high ? keep : got;
  }
}

/// Unit i of the thread, out of its quad's accumulators.
template <class Tile>
__device__ __forceinline__ void conv_patch_unit(float (&v)[8], const float (&acc)[Tile::kRegisters],
                                                int i) {
  float pairs[4][2];
  BRAZE_UNROLL
  for (int j = 0; j < 4; ++j) {
    pairs[j][0] = acc[4 * (2 * i + j / 2) + j % 2];
    pairs[j][1] = acc[4 * (2 * i + j / 2) + 2 + j % 2];
  }
  transpose_quad(v, pairs);
}

/// Adds the bias to a unit and says where it belongs.
template <class Tile, class Results>
__device__ __forceinline__ void conv_patch_place(const ConvPatchParameters& p,
                                                 const ConvPatchMemory& memory,
                                                 const ConvPatchPart<Tile>& part, Results& results,
                                                 int i, int unit, const float (&bias)[8],
                                                 int warpgroup) {
  BRAZE_UNROLL
  for (int e = 0; e < 8; ++e) results.v[i][e] += bias[e];
  int index = ConvPatchUnits<Tile>::pixel(unit);
  const int channel = ConvPatchUnits<Tile>::channel(unit);
  const int row = index * p.pitch_inverse >> 20, column = index - row * p.pitch;
  const int y = part.y + row, x = part.x + column;
  const bool exists = row < p.rows && column < p.columns && y < p.height && x < p.width;
  if (!exists) index = 0;
  results.place(p.y, i, part.n, exists ? y * p.width + x : 0, exists,
                part.channel_tile * 64 + channel,
                memory.staged + warpgroup * p.staged_bytes + index * 128 + channel * 2);
}

/// Epilogue and store of whole sums, from registers.
template <class Tile, class Epilogue, class Result, Store kStore>
__device__ __forceinline__ void conv_patch_finish(const ConvPatchParameters& p,
                                                  const ConvPatchMemory& memory,
                                                  const ConvPatchPart<Tile>& part,
                                                  const float (&acc)[Tile::kRegisters],
                                                  const float (&bias)[8], int warpgroup) {
  // Some at a time: a warp that is alone on its scheduler waits for nothing but itself.
  constexpr int kUnits = Tile::kThreadUnits;
  constexpr int kTogether = kUnits % 7 == 0 ? 7 : kUnits % 5 == 0 ? 5 : kUnits % 4 == 0 ? 4 : 2;
  BRAZE_UNROLL
  for (int j = 0; j < Tile::kThreadUnits; j += kTogether) {
    Vectors<Epilogue, Result, kStore, kTogether> results;
    BRAZE_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      conv_patch_unit<Tile>(results.v[i], acc, j + i);
      conv_patch_place(p, memory, part, results, i, ConvPatchUnits<Tile>::index(j + i), bias,
                       warpgroup);
    }
    results.finish(p.y, p.e);
  }
}

/// Sends each unit to the block that finishes it.
template <class Tile>
__device__ __forceinline__ void conv_patch_send(const ConvPatchMemory& memory,
                                                const ConvPatchPart<Tile>& part,
                                                const float (&acc)[Tile::kRegisters]) {
  BRAZE_UNROLL
  for (int i = 0; i < Tile::kThreadUnits; ++i) {
    float v[8];
    conv_patch_unit<Tile>(v, acc, i);
    const int unit = ConvPatchUnits<Tile>::index(i);
    const u32 to = static_cast<u32>(unit / Tile::kPartUnits);
    const u32 barrier = cluster_address(memory.exchanged, to);
    BRAZE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int slot = (2 * part.rank + half) * Tile::kPartUnits + unit % Tile::kPartUnits;
      cluster_store_async(cluster_address(memory.exchange + 4 * slot, to), barrier, v[4 * half],
                          v[4 * half + 1], v[4 * half + 2], v[4 * half + 3]);
    }
  }
}

/// Sums what the cluster's blocks sent, in their order; epilogue and store. Thread t has units t,
/// t + 128, ... of the block's part.
template <class Tile, class Epilogue, class Result, Store kStore, int kCount>
__device__ __forceinline__ void conv_patch_finish_part(const ConvPatchParameters& p,
                                                       const ConvPatchMemory& memory,
                                                       const ConvPatchPart<Tile>& part,
                                                       const float (&bias)[kCount][8]) {
  Vectors<Epilogue, Result, kStore, kCount> results;
  BRAZE_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const int index = static_cast<int>(threadIdx.x) + i * Tile::kMathThreads;
    const int local = index < Tile::kPartUnits ? index : 0;
    BRAZE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float sum[4] = {};
      BRAZE_UNROLL
      for (int block = 0; block < Tile::kSplit; ++block) {
        float x[4];
        load_vector<float, 4>(
            x, memory.exchange + 4 * ((2 * block + half) * Tile::kPartUnits + local));
        BRAZE_UNROLL
        for (int e = 0; e < 4; ++e) sum[e] += x[e];
      }
      BRAZE_UNROLL
      for (int e = 0; e < 4; ++e) results.v[i][4 * half + e] = sum[e];
    }
    conv_patch_place(p, memory, part, results, i, part.rank * Tile::kPartUnits + local, bias[i], 0);
    results.exists[i] = results.exists[i] && index < Tile::kPartUnits;
  }
  results.finish(p.y, p.e);
}

/// The biases that a thread adds, of a block with one tile: no kernel's result, they are there when
/// the sums are.
template <class Tile>
struct ConvPatchBias {
  static constexpr int kCount = Tile::kSplit > 1 ? ceil_div(Tile::kPartUnits, Tile::kMathThreads)
                                                 : 1;
  float v[kCount][8];

  __device__ __forceinline__ ConvPatchBias(const ConvPatchParameters& p,
                                           const ConvPatchPart<Tile>& part) {
    BRAZE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const int index = static_cast<int>(threadIdx.x) + i * Tile::kMathThreads;
      const int unit = Tile::kSplit == 1
                           ? ConvPatchUnits<Tile>::index(0)
                           : part.rank * Tile::kPartUnits + (index < Tile::kPartUnits ? index : 0);
      load_vector<float, 8>(v[i],
                            p.bias + part.channel_tile * 64 + ConvPatchUnits<Tile>::channel(unit));
    }
  }
};

/// The warpgroup that multiplies, of a block with one tile.
template <class Tile, class Epilogue, class Result, Store kStore>
__device__ __forceinline__ void conv_patch_one(const ConvPatchParameters& p,
                                               const ConvPatchMemory& memory,
                                               const ConvPatchPart<Tile>& part) {
  const ConvPatchBias<Tile> bias(p, part);
  grid_dependency_wait();
  float acc[Tile::kRegisters];
  PatchRing weights, patch;
  conv_patch_multiply<Tile>(acc, p, memory, part, weights, patch, 0);
  if constexpr (Tile::kSplit > 1) conv_patch_send<Tile>(memory, part, acc);
  if constexpr (Tile::kStagesOperand) barrier_wait(memory.staged_full, 0);
  if constexpr (Tile::kSplit == 1) {
    conv_patch_finish<Tile, Epilogue, Result, kStore>(p, memory, part, acc, bias.v[0], 0);
  } else {
    barrier_wait_cluster(memory.exchanged, 0);
    conv_patch_finish_part<Tile, Epilogue, Result, kStore>(p, memory, part, bias.v);
  }
}

/// One of two warpgroups that take tiles in turn.
template <class Tile, class Epilogue, class Result, Store kStore>
__device__ __forceinline__ void conv_patch_in_turn(const ConvPatchParameters& p,
                                                   const ConvPatchMemory& memory,
                                                   ConvPatchPart<Tile> part, int warpgroup) {
  const int patches = p.steps / p.taps;
  PatchRing weights, patch;
  if (warpgroup == 1) weights.skip(p.steps, p.weight_stages), patch.skip(patches, p.patch_stages);
  grid_dependency_wait();
  u32 round = 0;
  for (int tile = part.first + warpgroup * part.stride; tile < p.tiles;
       tile += 2 * part.stride, ++round) {
    part.move_to(p, tile);
    float bias[8];
    load_vector<float, 8>(bias, p.bias + part.channel_tile * 64 +
                                    ConvPatchUnits<Tile>::channel(ConvPatchUnits<Tile>::index(0)));
    float acc[Tile::kRegisters];
    // The first one begins by itself.
    barrier_wait(memory.turn + warpgroup, (round + (warpgroup == 0 ? 1u : 0u)) & 1u);
    conv_patch_multiply<Tile>(acc, p, memory, part, weights, patch, warpgroup);
    weights.skip(p.steps, p.weight_stages), patch.skip(patches, p.patch_stages);
    if constexpr (Tile::kStagesOperand) barrier_wait(memory.staged_full + warpgroup, round & 1u);
    conv_patch_finish<Tile, Epilogue, Result, kStore>(p, memory, part, acc, bias, warpgroup);
    if constexpr (Tile::kStagesOperand) {
      __syncwarp();
      conv_sm90_release(memory.staged_empty + warpgroup);
    }
  }
}

template <class Tile, class Epilogue, class Result, Store kStore>
__device__ __forceinline__ void conv_patch_sm90(const ConvPatchParameters& p) {
  BRAZE_DYNAMIC_SHARED(shared);
  const ConvPatchMemory memory(shared, p);
  const ConvPatchPart<Tile> part(p);
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  constexpr int kLoader = Tile::kMathThreads * Tile::kWarpgroups, kWarps = Tile::kMathThreads / 32;
  launch_dependents();
  if (threadIdx.x == kLoader) {
    for (int stage = 0; stage < p.weight_stages; ++stage) {
      barrier_init(memory.weights_full + stage, 1);
      barrier_init(memory.weights_empty + stage, kWarps);
    }
    for (int stage = 0; stage < p.patch_stages; ++stage) {
      barrier_init(memory.patch_full + stage, 1);
      barrier_init(memory.patch_empty + stage, kWarps);
    }
    for (int warpgroup = 0; warpgroup < Tile::kWarpgroups; ++warpgroup) {
      barrier_init(memory.staged_full + warpgroup, 1);
      barrier_init(memory.staged_empty + warpgroup, kWarps);
      barrier_init(memory.turn + warpgroup, kWarps);
    }
    barrier_init(memory.exchanged, 1);
    barrier_init_fence();
    if constexpr (Tile::kSplit > 1) barrier_arrive_expect(memory.exchanged, Tile::kUnits * 32);
  }
  __syncthreads();
  // Nothing is sent to a block that has not begun; loads of its own come before.
  if constexpr (Tile::kSplit > 1) cluster_arrive();
  if (warp >= kLoader / 32) {
    if constexpr (Tile::kWarpgroups == 2) registers_down<Tile::kLoadRegisters>();
    if (threadIdx.x == kLoader) conv_patch_load<Tile>(p, memory, part);
    if constexpr (Tile::kSplit > 1) cluster_wait();
  } else {
    if constexpr (Tile::kSplit > 1) cluster_wait();
    if constexpr (Tile::kWarpgroups == 2) {
      registers_up<Tile::kMathRegisters>();
      conv_patch_in_turn<Tile, Epilogue, Result, kStore>(p, memory, part, warp / 4);
    } else {
      conv_patch_one<Tile, Epilogue, Result, kStore>(p, memory, part);
    }
  }
}

}  // namespace braze::device
