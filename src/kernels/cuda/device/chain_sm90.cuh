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
// one's result leaves by TMA, too. An operand of an epilogue that is a tensor in memory comes by
// TMA to where the stage's result will be, and gives way to it value by value.
//
// One to three warpgroups multiply. They are teams, each with a tile of its own, so that one is in
// its epilogue while another multiplies; or one team, whose warpgroups share the pixels of a tile.
// Two more warps load: one the input, one the weights, which all teams read in the same order. They
// stay for all tiles of a block where they fit beside the tiles, else they come again for each.
// Where they stay, the teams' products of 64 channels take turns: without, all teams multiply at
// the same time, each at a part of the speed, and then all are in their epilogues.
#pragma once

#include "braze/chain_sm90_parameters.h"
#include "braze/conv_patch_sm90.cuh"

namespace braze::device {

/// An operand of an epilogue that is read from shared memory: none; the result of a stage before,
/// which is kept there; a tensor that is loaded to where the stage's result will be.
enum class ChainOperand { kNone, kKept, kLoaded };

/// kTilePixels: of a warpgroup. kUsedSlices: of 16 channels, that a plane has (4, but where there
/// is only one plane).
template <int kTilePixels, int kUsedSlices, ChainOperand kFromShared, class EpilogueType>
struct ChainSm90Stage {
  using Epilogue = EpilogueType;
  static constexpr int kPixels = kTilePixels, kSlices = kUsedSlices;
  static constexpr int kRegisters = kPixels / 2;
  static constexpr ChainOperand kOperand = kFromShared;
};

template <int i, class First, class... Rest>
struct NthOf {
  using Type = typename NthOf<i - 1, Rest...>::Type;
};
template <class First, class... Rest>
struct NthOf<0, First, Rest...> {
  using Type = First;
};

template <class ElementType, int kTeamsOfBlock, int kWarpgroupsOfTeam, bool kWeightsStay,
          class... Stages>
struct ChainSm90Tile {
  using Element = ElementType;  // half, bfloat16
  template <int i>
  using Stage = typename NthOf<i, Stages...>::Type;
  static constexpr int kStages = sizeof...(Stages);
  static constexpr int kTeams = kTeamsOfBlock, kTeamWarpgroups = kWarpgroupsOfTeam;
  static constexpr int kWarpgroups = kTeams * kTeamWarpgroups, kTeamThreads = 128 * kTeamWarpgroups;
  // Weights that come again are waited for by all teams at once: no turns.
  static constexpr bool kResident = kWeightsStay, kTurns = kResident && kTeams > 1;
  static constexpr bool kLoadsLast = Stage<kStages - 1>::kOperand == ChainOperand::kLoaded;
  static constexpr bool kLoads = ((Stages::kOperand == ChainOperand::kLoaded) || ...);
  // Of two and three warpgroups, and one more.
  static constexpr int kMathRegisters = kWarpgroups == 2 ? 232 : 152, kLoadRegisters = 40;
};

/// The block's shared memory.
struct ChainSm90Memory {
  Barrier *weights_full, *weights_empty;  // [slot]
  Barrier *input_full, *input_empty;      // [team][slot]
  Barrier* loaded;                        // [team][stage but the last, or place of the last]
  unsigned char* input;                   // [team][slot][phase][pixel][128 bytes], swizzled
  unsigned char* weights;                 // [slot][64 outputs][128 bytes], swizzled
  unsigned char* teams;                   // [team][stage but the last][plane][pixel][128 bytes]

  __device__ __forceinline__ ChainSm90Memory(unsigned char* shared, const ChainSm90Parameters& p)
      : weights_full(reinterpret_cast<Barrier*>(shared)),
        weights_empty(weights_full + kMostChainWeights),
        input_full(weights_empty + kMostChainWeights),
        input_empty(input_full + kMostChainPlanes),
        loaded(input_empty + kMostChainPlanes),
        input(shared + kChainBarriers),
        weights(input + p.teams * p.input_slots * p.plane_bytes),
        teams(weights + p.weight_slots * kChainWeights) {}
};

/// Barriers of a team for operands from memory.
inline constexpr int kChainLoaded = kMostChainStages - 1 + kMostChainStaged;
static_assert(2 * kMostChainWeights + 2 * kMostChainPlanes + 3 * kChainLoaded <= kChainBarriers / 8,
              "barriers have their place");

/// Where a tile of the last result begins.
struct ChainSm90Place {
  int n, y, x;
  __device__ __forceinline__ ChainSm90Place(const ChainSm90Parameters& p, int tile) {
    const ChainSm90StageParameters& last = p.stage[kMostChainStages - 1];
    x = tile % p.tiles_x * last.columns;
    tile /= p.tiles_x;
    y = tile % p.tiles_y * last.rows;
    n = tile / p.tiles_y;
  }
};

/// A team's slots for planes of its input.
struct ChainSm90Input {
  Barrier *full, *empty;
  unsigned char* planes;
  __device__ __forceinline__ ChainSm90Input(const ChainSm90Parameters& p,
                                            const ChainSm90Memory& memory, int team)
      : full(memory.input_full + team * p.input_slots),
        empty(memory.input_empty + team * p.input_slots),
        planes(memory.input + team * p.input_slots * p.plane_bytes) {}
};

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
    waited = true;
    for (int i = 0; i < p.phases_y; ++i) {
      for (int j = 0; j < p.phases_x; ++j, to += p.phase_bytes) {
        tma_load_4d(to, &p.input, full, plane * 64, at.x * p.stride + p.corner_x + j,
                    at.y * p.stride + p.corner_y + i, at.n);
      }
    }
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

/// What a warpgroup knows of its part of the block's work.
template <class Tile>
struct ChainSm90Team {
  int team, warpgroup;     // of the block's; of the team's
  unsigned char* buffers;  // of the team
  ChainSm90Input slots;
  PatchRing input;    // the tile's first plane
  PatchRing weights;  // the next step's
  PatchRing staged;   // the place of 64 channels of the last result that is next
  u32 round = 0;      // of tiles
  ChainSm90Place at;

  __device__ __forceinline__ ChainSm90Team(const ChainSm90Parameters& p,
                                           const ChainSm90Memory& memory, int group)
      : team(group / Tile::kTeamWarpgroups),
        warpgroup(group % Tile::kTeamWarpgroups),
        buffers(memory.teams + team * p.team_bytes),
        slots(p, memory, team),
        at(p, 0) {}
  __device__ __forceinline__ void sync() const {
    bar_sync(1 + static_cast<u32>(team), Tile::kTeamThreads);
  }
  __device__ __forceinline__ bool leads() const { return threadIdx.x % Tile::kTeamThreads == 0; }
  /// Waits until the team before has begun its products; lets the next one begin.
  __device__ __forceinline__ void take_turn() const {
    if constexpr (Tile::kTurns) bar_sync(4 + static_cast<u32>(team), 2 * Tile::kTeamThreads);
  }
  __device__ __forceinline__ void pass_turn() const {
    if constexpr (Tile::kTurns)
      bar_arrive(4 + static_cast<u32>((team + 1) % Tile::kTeams), 2 * Tile::kTeamThreads);
  }
  /// A warp has read a step's weights.
  __device__ __forceinline__ void pass_weights(const ChainSm90Parameters& p,
                                               const ChainSm90Memory& memory) {
    barrier_wait(memory.weights_full + weights.stage, weights.parity);
    conv_sm90_release(memory.weights_empty + weights.stage);
    weights.next(p.weight_slots);
  }
};

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

/// acc = the sum of stage i for 64 output channels.
template <class Tile, int i>
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
  team.take_turn();
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

/// The warp's part of 64 channels of a stage's tile: lane 4 g + t has, of each 8 pixels, channels
/// channel(0) and channel(1) of pixels 2 t and 2 t + 1.
template <class Tile, int i>
struct ChainSm90Part {
  using Stage = typename Tile::template Stage<i>;
  using Epilogue = typename Stage::Epilogue;
  using Element = typename Tile::Element;

  const ChainSm90StageParameters& s;
  int warp, lane, first_channel, first_pixel;
  int n, y, x;  // of the tile's first pixel, in the stage's result
  bool exists[2];
  typename Epilogue::template Constants<1> constants[2];

  __device__ __forceinline__ ChainSm90Part(const ChainSm90StageParameters& stage,
                                           const ChainSm90Team<Tile>& team, int block)
      : s(stage),
        warp(static_cast<int>(threadIdx.x) / 32 % 4),
        lane(static_cast<int>(threadIdx.x) % 32),
        first_channel(block * 64 + warp * 16),
        first_pixel(team.warpgroup * Stage::kPixels),
        n(team.at.n),
        y(team.at.y - stage.top),
        x(team.at.x - stage.left) {
    BRAZE_UNROLL
    for (int h = 0; h < 2; ++h) {
      exists[h] = channel(h) < s.channels;
      Epilogue::load(constants[h], s.e, exists[h] ? channel(h) : 0);
    }
  }
  __device__ __forceinline__ int channel(int h) const { return first_channel + lane / 4 + 8 * h; }
  /// Of stmatrix and ldmatrix: whose address this lane gives, of 16 pixels from 16 j on.
  __device__ __forceinline__ int address_pixel(int j) const {
    return first_pixel + 16 * j + lane / 16 * 8 + lane % 8;
  }
  /// 16 bytes of pixel `at` of a plane.
  __device__ __forceinline__ int unit(int at) const {
    return at * 128 + (((2 * warp + lane / 8 % 2) ^ at % 8) * 16);
  }
  __device__ __forceinline__ int row(int pixel) const { return pixel * s.pitch_inverse >> 20; }
  __device__ __forceinline__ bool in_image(int r, int c) const {
    return static_cast<u32>(y + r) < static_cast<u32>(s.height) &&
           static_cast<u32>(x + c) < static_cast<u32>(s.width);
  }
  __device__ __forceinline__ bool in_tile(int r, int c) const {
    return r < s.rows && c < s.columns;
  }

  /// Where value (h, e) of the 8 pixels from 8 j on belongs; whether there is such a pixel.
  __device__ __forceinline__ bool place(Position& at, int j, int h, int e) const {
    const int pixel = first_pixel + 8 * j + lane % 4 * 2 + e;
    const int r = row(pixel), c = pixel - r * s.pitch;
    const bool is_pixel = in_tile(r, c) && in_image(r, c);
    at = {n, is_pixel ? (y + r) * s.width + x + c : 0, exists[h] ? channel(h) : 0, 1, nullptr};
    return is_pixel && exists[h];
  }
  /// The operand of 16 pixels, as the accumulators lie: from `kept`, a plane of another stage, or
  /// from where the result will be. Planes begin at multiples of 1024.
  __device__ __forceinline__ void load_operand(u32 (&operand)[4], const unsigned char* kept,
                                               const unsigned char* result, int j) const {
    if constexpr (Stage::kOperand == ChainOperand::kKept) {
      const int pixel = address_pixel(j), r = row(pixel);
      const int at = r < s.rows ? r * s.held_pitch + pixel - r * s.pitch + s.held_pixel : 0;
      ldmatrix_x4_trans(operand, kept + unit(at));
    }
    if constexpr (Stage::kOperand == ChainOperand::kLoaded) ldmatrix_x4_trans(operand, result);
  }
  /// The epilogue of the 8 pixels from 8 j on, for channel(h): v has those of two pixels.
  __device__ __forceinline__ void apply(float (&v)[2], int j, int h, u32 held) const {
    BRAZE_UNROLL
    for (int e = 0; e < 2; ++e) {
      Position at;
      place(at, j, h, e);
      const Element operand{static_cast<u16>(e == 0 ? held : held >> 16)};
      at.staged = reinterpret_cast<const unsigned char*>(&operand);
      float one[1] = {v[e]};
      Epilogue::apply(one, s.e, at, constants[h]);
      v[e] = one[0];
    }
  }
};

/// For epilogues: the operand that apply() has.
template <class T, int V>
__device__ __forceinline__ void load_held(float (&v)[V], const Position& at) {
  static_assert(V == 1, "one channel of one pixel");
  v[0] = to_float(*reinterpret_cast<const T*>(at.staged));
}

/// The epilogue of 16 pixels: v[q] is channel(q % 2) of two pixels of the 8 from 16 j + 8 (q / 2)
/// on.
template <class Tile, int i>
__device__ __forceinline__ void chain_values(
    float (&v)[4][2], const ChainSm90Part<Tile, i>& part,
    const float (&acc)[Tile::template Stage<i>::kRegisters], const u32 (&operand)[4], int j) {
  BRAZE_UNROLL
  for (int q = 0; q < 4; ++q) {
    BRAZE_UNROLL
    for (int e = 0; e < 2; ++e) v[q][e] = acc[8 * j + 2 * q + e];
    part.apply(v[q], 2 * j + q / 2, q % 2, operand[q]);
  }
}

/// The same, rounded, to the plane that `result` points into.
template <class Tile, int i>
__device__ __forceinline__ void chain_write(const ChainSm90Part<Tile, i>& part,
                                            const float (&acc)[Tile::template Stage<i>::kRegisters],
                                            unsigned char* result, const unsigned char* kept,
                                            int j) {
  float v[4][2];
  u32 words[4] = {};
  part.load_operand(words, kept, result, j);
  chain_values<Tile, i>(v, part, acc, words, j);
  BRAZE_UNROLL
  for (int q = 0; q < 4; ++q)
    words[q] = part.exists[q % 2] ? pack<typename Tile::Element, 2>(v[q]).at[0] : 0u;
  stmatrix_x4_trans(result, words);
}

/// A stage that is read by others: its tile to shared memory.
template <class Tile, int i>
__device__ __forceinline__ void chain_keep(const ChainSm90Part<Tile, i>& part,
                                           const float (&acc)[Tile::template Stage<i>::kRegisters],
                                           unsigned char* plane, const unsigned char* kept) {
  constexpr int kCount = Tile::template Stage<i>::kPixels / 16;
  const ChainSm90StageParameters& s = part.s;
  BRAZE_UNROLL
  for (int j = 0; j < kCount; ++j)
    chain_write<Tile, i>(part, acc, plane + part.unit(part.address_pixel(j)), kept, j);
  const bool cut =
      part.y < 0 || part.x < 0 || part.y + s.rows > s.height || part.x + s.columns > s.width;
  if (s.zeros == 0 || !cut) return;
  __syncwarp();
  for (int j = 0; j < kCount; ++j) {
    const int pixel = part.address_pixel(j), r = part.row(pixel);
    if (!part.in_image(r, pixel - r * s.pitch))
      store_words(plane + part.unit(pixel), Words<4>{{0, 0, 0, 0}});
  }
}

/// The last stage: 64 channels of its tile to memory by TMA. Where pixels lie with gaps, those that
/// are none go behind the tile.
template <class Tile, int i>
__device__ __forceinline__ void chain_store_tile(
    const ChainSm90Parameters& p, const ChainSm90Memory& memory, ChainSm90Team<Tile>& team,
    const ChainSm90Part<Tile, i>& part, const float (&acc)[Tile::template Stage<i>::kRegisters],
    const unsigned char* kept, int block) {
  const ChainSm90StageParameters& s = part.s;
  unsigned char* const to = team.buffers + p.staged + team.staged.stage * p.staged_bytes;
  // Is the place free?
  if constexpr (Tile::kLoadsLast) {
    barrier_wait(
        memory.loaded + team.team * kChainLoaded + kMostChainStages - 1 + team.staged.stage,
        team.staged.parity);
  } else if (p.staged_buffers == 1) {
    if (team.leads()) bulk_store_wait_read<0>();
    team.sync();
  }
  BRAZE_UNROLL
  for (int j = 0; j < Tile::template Stage<i>::kPixels / 16; ++j) {
    int pixel = part.address_pixel(j);
    const int r = part.row(pixel), c = pixel - r * s.pitch;
    pixel = part.in_tile(r, c) ? r * s.columns + c : s.rows * s.columns + pixel % 8;
    chain_write<Tile, i>(part, acc, to + part.unit(pixel), kept, j);
  }
  async_fence();
  if constexpr (!Tile::kLoadsLast) {
    if (p.staged_buffers > 1 && team.leads()) bulk_store_wait_read<0>();
  }
  team.sync();
  if (team.leads()) {
    tma_store_4d(&p.output, to, block * 64, part.x, part.y, part.n);
    bulk_store_commit();
  }
  team.staged.next(p.staged_buffers);
}

/// The last stage, where it is stored one by one.
template <class Tile, int i, class Result>
__device__ __forceinline__ void chain_store_each(
    const ChainSm90Parameters& p, const ChainSm90Part<Tile, i>& part,
    const float (&acc)[Tile::template Stage<i>::kRegisters], const unsigned char* kept) {
  BRAZE_UNROLL
  for (int j = 0; j < Tile::template Stage<i>::kPixels / 16; ++j) {
    float v[4][2];
    u32 operand[4] = {};
    part.load_operand(operand, kept, nullptr, j);
    chain_values<Tile, i>(v, part, acc, operand, j);
    BRAZE_UNROLL
    for (int k = 0; k < 8; ++k) {
      Position at;
      const float one[1] = {v[k / 2][k % 2]};
      if (part.place(at, 2 * j + k / 4, k / 2 % 2, k % 2))
        store_result<Result, Store::kEach, 1>(one, p.y, at);
    }
  }
}

/// Stages i and up of a tile.
template <class Tile, int i, class Result, Store kStore>
__device__ __forceinline__ void chain_stages(const ChainSm90Parameters& p,
                                             const ChainSm90Memory& memory,
                                             ChainSm90Team<Tile>& team) {
  constexpr bool kLast = i == Tile::kStages - 1;
  constexpr bool kLoads = !kLast && Tile::template Stage<i>::kOperand == ChainOperand::kLoaded;
  const ChainSm90StageParameters& s = p.stage[kLast ? kMostChainStages - 1 : i];
  if constexpr (kLoads) {
    if (team.leads()) chain_ask<i>(p, memory, team);
  }
  for (int block = 0; block < s.blocks; ++block) {
    const ChainSm90Part<Tile, i> part(s, team, block);
    float acc[Tile::template Stage<i>::kRegisters];
    chain_multiply<Tile, i>(acc, p, memory, team, block);
    if constexpr (kLoads) {
      if (block == 0) barrier_wait(memory.loaded + team.team * kChainLoaded + i, team.round & 1u);
    }
    const unsigned char* const kept = team.buffers + s.held + block * s.held_plane;
    if constexpr (!kLast)
      chain_keep<Tile, i>(part, acc, team.buffers + s.to + block * s.to_plane, kept);
    else if constexpr (kStore == Store::kVector)
      chain_store_tile<Tile, i>(p, memory, team, part, acc, kept, block);
    else
      chain_store_each<Tile, i, Result>(p, part, acc, kept);
  }
  if constexpr (!kLast) {
    async_fence();
    team.sync();
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
  launch_dependents();
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
