// chain_sm90.cuh: what a kernel is made of, its shared memory, and what a team of warpgroups knows.
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
  static constexpr bool kDepthwise = false;
  static constexpr int kPixels = kTilePixels, kSlices = kUsedSlices;
  static constexpr int kRegisters = kPixels / 2;
  static constexpr ChainOperand kOperand = kFromShared;
  static constexpr bool kIsStored = false;
};

/// A stage but the last whose result is in memory, too: 8 channels at a time where kStore says so.
template <class Stage, Store kStore>
struct ChainSm90Stored : Stage {
  static constexpr bool kIsStored = true;
  static constexpr Store kStored = kStore;
};

template <class A, class B>
inline constexpr bool kIsSame = false;
template <class A>
inline constexpr bool kIsSame<A, A> = true;

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
  // Warpgroups of one team multiply one after another; teams without turns begin so.
  static constexpr bool kFollow = kTeamWarpgroups > 1;
  static constexpr bool kStagger = kTeams > 1 && !kTurns && !Stage<0>::kDepthwise;
  static_assert(kTeams == 1 || kTeamWarpgroups == 1, "several teams, or several warpgroups");
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
  /// The thread that asks for operands and sends results: of the last warpgroup.
  __device__ __forceinline__ bool leads() const {
    return threadIdx.x % Tile::kTeamThreads == Tile::kTeamThreads - 128;
  }
  __device__ __forceinline__ bool is_last() const { return warpgroup == Tile::kTeamWarpgroups - 1; }
  __device__ __forceinline__ void sync_warpgroup() const {
    bar_sync(9 + static_cast<u32>(team), 128);
  }
  // Between warpgroups that take no turns.
  /// Waits until the warpgroup before, of the team or of the team before, is some steps ahead; lets
  /// the next one follow.
  __device__ __forceinline__ void follow() const {
    if (team + warpgroup > 0) bar_sync(3 + static_cast<u32>(team + warpgroup), 256);
  }
  __device__ __forceinline__ bool is_followed() const {
    return team + warpgroup < Tile::kWarpgroups - 1;
  }
  __device__ __forceinline__ void lead() const {
    bar_arrive(4 + static_cast<u32>(team + warpgroup), 256);
  }
  /// The last warpgroup is done with what was before, also its leading thread: others may write
  /// over it.
  __device__ __forceinline__ void give_place() const {
    if (!Tile::kFollow || !is_last()) return;
    sync_warpgroup();
    bar_arrive(6, Tile::kTeamThreads);
  }
  __device__ __forceinline__ void take_place() const {
    if (Tile::kFollow && !is_last()) bar_sync(6, Tile::kTeamThreads);
  }
  /// Waits until the warpgroup before has written its part of a result; says that this one has.
  __device__ __forceinline__ void write_after() const {
    if (Tile::kFollow && warpgroup > 0) bar_sync(6 + static_cast<u32>(warpgroup), 256);
  }
  __device__ __forceinline__ void has_written() const {
    if (is_last())
      sync_warpgroup();
    else
      bar_arrive(7 + static_cast<u32>(warpgroup), 256);
  }
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

}  // namespace braze::device
