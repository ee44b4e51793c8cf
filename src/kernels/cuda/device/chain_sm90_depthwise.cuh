// chain_sm90.cuh: a stage that convolves each channel by itself, on the CUDA cores of the team.
//
// Of each plane a thread takes 8 channels, 16 bytes, and of these one run of adjacent pixels after
// another: sums are in registers, and what neighbours share is read once. Threads of 8 adjacent
// lanes read the 128 bytes of one pixel. The input's planes are freed as soon as they are read.
// Filters come in the stream of weights: a step has those of as many planes as fit,
// [plane][tap][64 channels].
#pragma once

#include "braze/chain_sm90_epilogue.cuh"

namespace braze::device {

/// kFilterColumns: of a filter whose taps in a row are adjacent pixels (no stride, no dilation), or
/// 0: any.
template <int kFilterColumns, class EpilogueType>
struct ChainSm90Depthwise {
  using Epilogue = EpilogueType;
  static constexpr bool kDepthwise = true;
  static constexpr int kColumns = kFilterColumns;
  static constexpr ChainOperand kOperand = ChainOperand::kNone;
  static constexpr bool kIsStored = false;
};

/// sum[j] = taps of pixel j of a run, whose first tap is `at` bytes into the plane. What is read
/// past a row is of pixels that do not exist.
template <int kColumns, class T, int P, int V>
__device__ __forceinline__ void chain_depthwise_sums(float (&sum)[P][V],
                                                     const ChainSm90StageParameters& s,
                                                     const unsigned char* plane, int at, int chunk,
                                                     const T* filter) {
  const auto load = [&](float(&x)[V], int pixel) {
    load_vector<T, V>(
        x, reinterpret_cast<const T*>(plane + pixel + ((chunk ^ (pixel >> 7 & 7)) << 4)));
  };
  constexpr int kTaps = kColumns > 0 ? kColumns : 1;  // at a time
  int tap_at = s.tap_at[0];                           // asked for a step ahead
#pragma unroll 1
  for (int tap = 0; tap < s.taps; filter += kTaps * 64) {
    const int first = at + tap_at * 16;
    tap += kTaps;
    tap_at = s.tap_at[tap < s.taps ? tap : 0];
    float by[kTaps][V];
    BRAZE_UNROLL
    for (int c = 0; c < kTaps; ++c) load_vector<T, V>(by[c], filter + c * 64);
    BRAZE_UNROLL
    for (int a = 0; a < P - 1 + kTaps; ++a) {
      float x[V];
      load(x, first + a * 128);
      BRAZE_UNROLL
      for (int j = 0; j < P; ++j) {
        if (a < j || a - j >= kTaps) continue;
        BRAZE_UNROLL
        for (int e = 0; e < V; ++e) sum[j][e] += x[e] * by[a - j][e];
      }
    }
  }
}

/// 64 channels of stage i of a tile: from plane `from`, to plane `to`, or, where it is the last
/// stage and stored one by one, to memory.
template <class Tile, int i, class Result, bool kEach>
__device__ __forceinline__ void chain_depthwise_plane(const ChainSm90Parameters& p,
                                                      const ChainSm90StageParameters& s,
                                                      const ChainSm90Team<Tile>& team, int plane,
                                                      const unsigned char* from, unsigned char* to,
                                                      const unsigned char* filter) {
  using Stage = typename Tile::template Stage<i>;
  using Epilogue = typename Stage::Epilogue;
  using T = typename Tile::Element;
  constexpr int P = kChainRun, V = 8;
  const int thread = static_cast<int>(threadIdx.x) % Tile::kTeamThreads, chunk = thread % 8;
  const int channel = plane * 64 + chunk * 8, count = min(V, s.channels - channel);
  typename Epilogue::template Constants<V> constants;
  Epilogue::load(constants, s.e, count > 0 ? channel : 0);
#pragma unroll 1
  for (int run = thread / 8; run < s.rows * s.runs; run += Tile::kTeamThreads / 8) {
    const int r = run * s.runs_inverse >> 20, first = (run - r * s.runs) * P;
    float sum[P][V] = {};
    chain_depthwise_sums<Stage::kColumns>(sum, s, from, r * s.group_bytes + first * 128, chunk,
                                          reinterpret_cast<const T*>(filter) + chunk * V);
    const int y = team.at.y - s.top + r;
    BRAZE_UNROLL
    for (int j = 0; j < P; ++j) {
      const int c = first + j, x = team.at.x - s.left + c;
      if (c >= s.columns) continue;
      const bool exists = count > 0 && static_cast<u32>(y) < static_cast<u32>(s.height) &&
                          static_cast<u32>(x) < static_cast<u32>(s.width);
      const Position at{team.at.n, y * s.width + x, channel, count, nullptr};
      if (exists) Epilogue::apply(sum[j], s.e, at, constants);
      if constexpr (kEach) {
        if (exists) store_result<Result, Store::kEach, V>(sum[j], p.y, at);
      } else {
        if (count < V) {
          BRAZE_UNROLL
          for (int e = 0; e < V; ++e) sum[j][e] = e < count ? sum[j][e] : 0.0f;
        }
        const int pixel = r * s.pitch + c;
        Words<4> words = pack<T, V>(sum[j]);
        BRAZE_UNROLL
        for (int e = 0; e < 4; ++e) words.at[e] = exists ? words.at[e] : 0u;
        store_words(to + pixel * 128 + ((chunk ^ (pixel & 7)) << 4), words);
      }
    }
  }
}

/// Stage i of a tile.
template <class Tile, int i, class Result, Store kStore>
__device__ __forceinline__ void chain_depthwise(const ChainSm90Parameters& p,
                                                const ChainSm90Memory& memory,
                                                ChainSm90Team<Tile>& team) {
  constexpr bool kLast = i == Tile::kStages - 1, kStaged = kLast && kStore == Store::kVector;
  const ChainSm90StageParameters& s = p.stage[kLast ? kMostChainStages - 1 : i];
  PatchRing input = team.input;
  for (int plane = 0, of_step = 0; plane < s.planes; ++plane) {
    if (of_step == 0 && (!Tile::kResident || team.round == 0))
      barrier_wait(memory.weights_full + team.weights.stage, team.weights.parity);
    const unsigned char* const filter =
        memory.weights + team.weights.stage * kChainWeights + of_step * s.taps * 128;
    const unsigned char* from = team.buffers + s.from + plane * s.from_plane;
    unsigned char* to = team.buffers + s.to + plane * s.to_plane;
    if constexpr (i == 0) {
      from = team.slots.planes + input.stage * p.plane_bytes;
      barrier_wait(team.slots.full + input.stage, input.parity);
    }
    if constexpr (kStaged) to = chain_place<Tile, true>(p, memory, team);
    chain_depthwise_plane<Tile, i, Result, kLast && !kStaged>(p, s, team, plane, from, to, filter);
    __syncwarp();
    if constexpr (i == 0) {
      conv_sm90_release(team.slots.empty + input.stage);
      input.next(p.input_slots);
    }
    if (++of_step == s.filters || plane + 1 == s.planes) {
      of_step = 0;
      if constexpr (!Tile::kResident) conv_sm90_release(memory.weights_empty + team.weights.stage);
      team.weights.next(p.weight_slots);
    }
    if constexpr (kStaged) chain_send<Tile, true>(p, team, to, plane, s);
  }
}

}  // namespace braze::device
