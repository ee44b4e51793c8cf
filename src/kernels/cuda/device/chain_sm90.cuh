// Several convolutions and their epilogues in one kernel for sm_90a: results between them stay in
// shared memory.
//
// A tile of the last result needs, of every stage before, a tile with a halo. A stage multiplies as
// conv_patch_sm90.cuh does: 64 output channels times the pixels of its tile, numbered through, on
// the tensor cores of a warpgroup; what it reads lies in planes of 64 channels, 128 bytes a pixel,
// swizzled, and a tap is the same plane read from another pixel on. Where a tile is 8 columns wide,
// its rows are the groups of 8 of the product's operand, and nothing is computed for the halo.
// Stage 0 reads the input, which comes by TMA; the others read what the stage before has written:
// its epilogue, rounded, transposed on the way (stmatrix), zeros where there is no image. The last
// one's result leaves by TMA, too; what others read of the stages before is copied. An operand of
// an epilogue that is a tensor in memory comes by TMA to where the stage's result will be, and
// gives way to it value by value.
//
// One to three warpgroups multiply. They are teams, each with a tile of its own, so that one is in
// its epilogue while another multiplies; or one team, whose warpgroups share the pixels of a tile.
// Two more warps load: one the input, one the weights, which all teams read in the same order. They
// stay for all tiles of a block where they fit beside the tiles, else they come again for each.
// Where they stay, the teams' products of 64 channels take turns: without, all teams multiply at
// the same time, each at a part of the speed, and then all are in their epilogues.
#pragma once

#include "braze/chain_sm90_depthwise.cuh"

namespace braze::device {

/// One thread: the input of all tiles of the block. Teams that take turns need theirs one after
/// another; else all go on together, plane by plane.
template <class Tile>
__device__ __forceinline__ void chain_load_input(const ChainSm90Parameters& p,
                                                 const ChainSm90Memory& memory) {
  const int blocks = static_cast<int>(gridDim.x), planes = p.stage[0].planes;
  bool waited = false;
  const auto load = [&](const ChainSm90Place& at, int team, int plane, const PatchRing& ring) {
    const ChainSm90Input input(p, memory, team);
    Barrier* const full = input.full + ring.stage;
    unsigned char* to = input.planes + ring.stage * p.plane_bytes;
    barrier_wait(input.empty + ring.stage, ring.parity ^ 1);
    barrier_arrive_expect(full, p.phases_y * p.phases_x * p.phase_loaded);
    if (!waited) grid_dependency_wait();
    for (int i = 0; i < p.phases_y; ++i) {
      for (int j = 0; j < p.phases_x; ++j, to += p.phase_bytes) {
        tma_load_4d(to, &p.input, full, plane * 64, at.x * p.stride + p.corner_x + j,
                    at.y * p.stride + p.corner_y + i, at.n);
      }
    }
    // Kernels after this one come when its first operands are on their way.
    if (!waited) launch_dependents();
    waited = true;
  };
  PatchRing ring;  // of each team
  for (int first = static_cast<int>(blockIdx.x); first < p.tiles; first += Tile::kTeams * blocks) {
    if constexpr (Tile::kTurns || Tile::kTeams == 1) {
      PatchRing next;
      for (int team = 0; team < Tile::kTeams && first + team * blocks < p.tiles; ++team) {
        const ChainSm90Place at(p, first + team * blocks);
        next = ring;
        for (int plane = 0; plane < planes; ++plane, next.next(p.input_slots))
          load(at, team, plane, next);
      }
      ring = next;
    } else {
      for (int plane = 0; plane < planes; ++plane, ring.next(p.input_slots)) {
        for (int team = 0; team < Tile::kTeams && first + team * blocks < p.tiles; ++team)
          load(ChainSm90Place(p, first + team * blocks), team, plane, ring);
      }
    }
  }
}

/// One thread: the weights, which no kernel makes, once or for each round of tiles.
template <class Tile>
__device__ __forceinline__ void chain_load_weights(const ChainSm90Parameters& p,
                                                   const ChainSm90Memory& memory) {
  PatchRing ring;
  const int together = static_cast<int>(gridDim.x) * Tile::kTeams;
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles; tile += together) {
    for (int step = 0; step < p.steps; ++step, ring.next(p.weight_slots)) {
      if constexpr (!Tile::kResident)
        barrier_wait(memory.weights_empty + ring.stage, ring.parity ^ 1);
      barrier_arrive_expect(memory.weights_full + ring.stage, kChainWeights);
      bulk_load(memory.weights + ring.stage * kChainWeights,
                p.weights + static_cast<i64>(step) * kChainWeights,
                memory.weights_full + ring.stage, kChainWeights);
    }
    if constexpr (Tile::kResident) return;
  }
}

/// One thread of the team: asks for the operand of stage i, which is not the last.
template <int i, class Tile>
__device__ __forceinline__ void chain_ask(const ChainSm90Parameters& p,
                                          const ChainSm90Memory& memory,
                                          const ChainSm90Team<Tile>& team) {
  const ChainSm90StageParameters& s = p.stage[i];
  Barrier* const full = memory.loaded + team.team * kChainLoaded + i;
  barrier_arrive_expect(full, s.blocks * s.loaded_bytes);
  for (int block = 0; block < s.blocks; ++block) {
    tma_load_4d(team.buffers + s.to + block * s.to_plane, &p.operand[i], full, block * 64,
                team.at.x - s.left, team.at.y - s.top, team.at.n);
  }
}
/// The same of the last stage: 64 channels to a place whose result of before has been read.
template <class Tile>
__device__ __forceinline__ void chain_ask_last(const ChainSm90Parameters& p,
                                               const ChainSm90Memory& memory,
                                               const ChainSm90Team<Tile>& team, int place,
                                               int block) {
  Barrier* const full = memory.loaded + team.team * kChainLoaded + kMostChainStages - 1 + place;
  barrier_arrive_expect(full, p.stage[kMostChainStages - 1].loaded_bytes);
  tma_load_4d(team.buffers + p.staged + place * p.staged_bytes, &p.operand[kMostChainStages - 1],
              full, block * 64, team.at.x, team.at.y, team.at.n);
}
/// While products of stage i run: asks for operands of the last stage, as soon as there is place. A
/// tile's first ones come during its first stage; then each takes the place of the result before
/// the one that is reckoned, or, of three places and more, of the one before that, which has surely
/// been read.
template <class Tile, int i>
__device__ __forceinline__ void chain_ask_ahead(const ChainSm90Parameters& p,
                                                const ChainSm90Memory& memory,
                                                const ChainSm90Team<Tile>& team, int block) {
  constexpr bool kLast = i == Tile::kStages - 1;
  if constexpr (Tile::kLoadsLast && (i == 0 || kLast)) {
    const int blocks = p.stage[kMostChainStages - 1].blocks, places = p.staged_buffers;
    if (!team.leads()) return;
    if constexpr (kLast) {
      const int before = places > 2 ? 2 : 1, next = block - before + places;
      if (block < before || next >= blocks) return;
      if (before == 2)
        bulk_store_wait_read<1>();
      else
        bulk_store_wait_read<0>();
      const int place = team.staged.stage - before;
      chain_ask_last(p, memory, team, place < 0 ? place + places : place, next);
    } else if (block == 0) {
      bulk_store_wait_read<0>();
      PatchRing ring = team.staged;
      for (int ahead = 0; ahead < min(blocks, places); ++ahead, ring.next(places))
        chain_ask_last(p, memory, team, ring.stage, ahead);
    }
  }
}

/// Do warpgroups of a team wait for the last one before they write 64 channels of stage i?
template <class Tile, int i, Store kStore>
__device__ __forceinline__ bool chain_changes_place(int block) {
  return i == Tile::kStages - 1 ? kStore == Store::kVector || block == 0 : i == 0 && block == 0;
}

/// Does one warpgroup follow another here? Those of a team are together when a stage begins, teams
/// when the kernel does.
template <class Tile, int i>
__device__ __forceinline__ bool chain_is_begin(const ChainSm90Team<Tile>& team, int block) {
  return block == 0 && (Tile::kFollow || (Tile::kStagger && i == 0 && team.round == 0));
}

/// Before the products of a stage: one warpgroup follows the other, so that the epilogue of one is
/// done while the other multiplies. Where the first stage and the last one write, all must
/// have read what was there: the last warpgroup says so.
template <class Tile, int i, Store kStore>
__device__ __forceinline__ void chain_follow(const ChainSm90Parameters& p,
                                             const ChainSm90Team<Tile>& team, int block) {
  constexpr bool kLast = i == Tile::kStages - 1;
  if constexpr (Tile::kFollow) {
    if (team.leads() && !Tile::kLoadsLast && (kLast || p.overwrites != 0)) {
      if (kLast && p.staged_buffers > 1)
        bulk_store_wait_read<1>();
      else
        bulk_store_wait_read<0>();
    }
  }
  if (chain_is_begin<Tile, i>(team, block)) team.follow();
  if (Tile::kFollow && chain_changes_place<Tile, i, kStore>(block)) team.give_place();
}

/// acc = the sum of stage i for 64 output channels.
template <class Tile, int i, Store kStore>
__device__ __forceinline__ void chain_multiply(float (&acc)[Tile::template Stage<i>::kRegisters],
                                               const ChainSm90Parameters& p,
                                               const ChainSm90Memory& memory,
                                               ChainSm90Team<Tile>& team, int block) {
  using Stage = typename Tile::template Stage<i>;
  const ChainSm90StageParameters& s = p.stage[i < Tile::kStages - 1 ? i : kMostChainStages - 1];
  const u32 group_bytes = static_cast<u32>(s.group_bytes);
  const u64 all_weights = matrix_descriptor<128>(shared_address(memory.weights));
  const unsigned char* const from = i == 0 ? team.slots.planes : team.buffers + s.from;
  const u64 all_pixels = matrix_descriptor<128>(shared_address(from), group_bytes) +
                         team.warpgroup * (Stage::kPixels / 8) * (s.group_bytes / 16);
  PatchRing input = team.input;
  int read_weights = -1, read_input = -1;      // slots to be released after the step before
  u32 tap_at = static_cast<u32>(s.tap_at[0]);  // asked for a step ahead
  BRAZE_UNROLL
  for (int r = 0; r < Stage::kRegisters; ++r) acc[r] = 0;
  wgmma_registers(acc);
  chain_follow<Tile, i, kStore>(p, team, block);
  team.take_turn();
  int until_lead = chain_is_begin<Tile, i>(team, block) && team.is_followed() ? s.lead : 0;
#pragma unroll 1
  for (int plane = 0; plane < s.planes; ++plane) {
    const u64 pixels =
        all_pixels + (i == 0 ? input.stage * (p.plane_bytes / 16) : plane * (s.from_plane / 16));
    if constexpr (i == 0) {
      if (block == 0) barrier_wait(team.slots.full + input.stage, input.parity);
    }
#pragma unroll 1
    for (int tap = 1; tap <= s.taps; ++tap) {
      if (!Tile::kResident || team.round == 0)
        barrier_wait(memory.weights_full + team.weights.stage, team.weights.parity);
      const u64 a = all_weights + team.weights.stage * (kChainWeights / 16), b = pixels + tap_at;
      wgmma_fence();
      BRAZE_UNROLL
      for (int k = 0; k < Stage::kSlices; ++k)
        wgmma<typename Tile::Element>(acc, a + 2 * k, b + 2 * k, true);
      wgmma_commit();
      if constexpr (Tile::kFollow || (Tile::kStagger && i == 0)) {
        if (until_lead > 0 && --until_lead == 0) team.lead();
      }
      tap_at = static_cast<u32>(s.tap_at[tap < s.taps ? tap : 0]);
      if constexpr (!Tile::kResident) {
        wgmma_wait<1>();
        if (read_weights >= 0) conv_sm90_release(memory.weights_empty + read_weights);
        read_weights = team.weights.stage;
      }
      if constexpr (i == 0) {
        if (read_input >= 0) {
          if constexpr (Tile::kResident) wgmma_wait<1>();
          conv_sm90_release(team.slots.empty + read_input);
          read_input = -1;
        }
      }
      team.weights.next(p.weight_slots);
    }
    if constexpr (i == 0) {
      if (block + 1 == s.blocks) read_input = input.stage;
      input.next(p.input_slots);
    }
  }
  team.pass_turn();
  chain_ask_ahead<Tile, i>(p, memory, team, block);
  wgmma_wait<0>();
  wgmma_registers(acc);
  if constexpr (!Tile::kResident) conv_sm90_release(memory.weights_empty + read_weights);
  if (i == 0 && read_input >= 0) conv_sm90_release(team.slots.empty + read_input);
}

/// Stages i and up of a tile.
template <class Tile, int i, class Result, Store kStore>
__device__ __forceinline__ void chain_stages(const ChainSm90Parameters& p,
                                             const ChainSm90Memory& memory,
                                             ChainSm90Team<Tile>& team) {
  constexpr bool kLast = i == Tile::kStages - 1;
  constexpr bool kLoads = !kLast && Tile::template Stage<i>::kOperand == ChainOperand::kLoaded;
  const ChainSm90StageParameters& s = p.stage[kLast ? kMostChainStages - 1 : i];
  if constexpr (Tile::template Stage<i>::kDepthwise) {
    chain_ask_ahead<Tile, i>(p, memory, team, 0);
    if constexpr (i == 0) chain_take_place<kStore>(p, team);
    chain_depthwise<Tile, i, Result, kStore>(p, memory, team);
  } else {
    if constexpr (kLoads) {
      if (team.leads()) chain_ask<i>(p, memory, team);
    }
    for (int block = 0; block < s.blocks; ++block) {
      const ChainSm90Part<Tile, i> part(s, team, block);
      float acc[Tile::template Stage<i>::kRegisters];
      chain_multiply<Tile, i, kStore>(acc, p, memory, team, block);
      if constexpr (kLoads) {
        if (block == 0) barrier_wait(memory.loaded + team.team * kChainLoaded + i, team.round & 1u);
      }
      if constexpr (Tile::kFollow) {
        if (chain_changes_place<Tile, i, kStore>(block)) team.take_place();
      } else if constexpr (i == 0) {
        if (block == 0) chain_take_place<kStore>(p, team);
      }
      const unsigned char* const kept = team.buffers + s.held + block * s.held_plane;
      if constexpr (!kLast)
        chain_keep<Tile, i>(part, acc, team.buffers + s.to + block * s.to_plane, kept);
      else if constexpr (kStore == Store::kVector)
        chain_store_tile<Tile, i>(p, memory, team, part, acc, kept, block);
      else if constexpr (kIsSame<Result, typename Tile::Element>)
        chain_copy_tile<Tile, i>(p, team, part, acc, kept, block);
      else
        chain_store_each<Tile, i, Result>(p, part, acc, kept);
    }
  }
  if constexpr (!kLast) {
    async_fence();
    team.sync();
    if constexpr (Tile::template Stage<i>::kIsStored) chain_store_kept<Tile, i>(p, team);
    chain_stages<Tile, i + 1, Result, kStore>(p, memory, team);
  }
}

/// One tile, whose place team.at is; team.input and team.weights are where its operands are.
template <class Tile, class Result, Store kStore>
__device__ __forceinline__ void chain_tile(const ChainSm90Parameters& p,
                                           const ChainSm90Memory& memory,
                                           ChainSm90Team<Tile>& team) {
  chain_stages<Tile, 0, Result, kStore>(p, memory, team);
  // The others have read what the next tile writes.
  if constexpr (kStore == Store::kEach) team.sync();
}

/// A warpgroup that multiplies: its team's tiles of the block.
template <class Tile, class Result, Store kStore>
__device__ __forceinline__ void chain_compute(const ChainSm90Parameters& p,
                                              const ChainSm90Memory& memory, int group) {
  ChainSm90Team<Tile> team(p, memory, group);
  const int blocks = static_cast<int>(gridDim.x), planes = p.stage[0].planes;
  grid_dependency_wait();
  if (team.team == Tile::kTeams - 1) team.pass_turn();  // the first one's begins
  for (int first = static_cast<int>(blockIdx.x); first < p.tiles;
       first += Tile::kTeams * blocks, ++team.round) {
    const int tile = first + team.team * blocks;
    if (tile < p.tiles) {
      team.at = ChainSm90Place(p, tile);
      chain_tile<Tile, Result, kStore>(p, memory, team);
      team.input.skip(planes, p.input_slots);
    } else if constexpr (!Tile::kResident) {
      if (Tile::kStagger && team.round == 0) {
        team.follow();
        if (team.is_followed()) team.lead();
      }
      for (int step = 0; step < p.steps; ++step) team.pass_weights(p, memory);
    } else if constexpr (Tile::kTurns) {
      for (int turn = 0; turn < p.turns; ++turn) team.take_turn(), team.pass_turn();
    }
  }
  if (team.team == 0) team.take_turn();  // the last one's was passed on
  if constexpr (kStore == Store::kVector) {
    if (team.leads()) bulk_store_wait_read<0>();
  }
}

template <class Tile, class Result, Store kStore>
__device__ __forceinline__ void chain_sm90(const ChainSm90Parameters& p) {
  BRAZE_DYNAMIC_SHARED(shared);
  const ChainSm90Memory memory(shared, p);
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  constexpr int kLoader = 128 * Tile::kWarpgroups;
  // Threads of three warps, side by side.
  if (threadIdx.x == kLoader) {
    for (int slot = 0; slot < p.weight_slots; ++slot) {
      barrier_init(memory.weights_full + slot, 1);
      if constexpr (!Tile::kResident)
        barrier_init(memory.weights_empty + slot, 4 * Tile::kWarpgroups);
    }
    barrier_init_fence();
  } else if (threadIdx.x == kLoader + 32) {
    tma_prefetch(&p.input);
    for (int slot = 0; slot < Tile::kTeams * p.input_slots; ++slot) {
      barrier_init(memory.input_full + slot, 1);
      barrier_init(memory.input_empty + slot, 4 * Tile::kTeamWarpgroups);
    }
    barrier_init_fence();
  } else if (threadIdx.x == 0) {
    if constexpr (kStore == Store::kVector) tma_prefetch(&p.output);
    if constexpr (Tile::kLoads) {
      for (int place = 0; place < Tile::kTeams * kChainLoaded; ++place)
        barrier_init(memory.loaded + place, 1);
      barrier_init_fence();
    }
  }
  __syncthreads();
  if (warp >= kLoader / 32) {
    if constexpr (Tile::kWarpgroups > 1) registers_down<Tile::kLoadRegisters>();
    if (threadIdx.x == kLoader) chain_load_weights<Tile>(p, memory);
    if (threadIdx.x == kLoader + 32) chain_load_input<Tile>(p, memory);
  } else {
    if constexpr (Tile::kWarpgroups > 1) registers_up<Tile::kMathRegisters>();
    chain_compute<Tile, Result, kStore>(p, memory, warp / 4);
  }
}

}  // namespace braze::device
