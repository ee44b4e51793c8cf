// chain_sm90.cuh: what is done with a stage's sums, and where its result goes.
#pragma once

#include "braze/chain_sm90_team.cuh"

namespace braze::device {

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

/// Stage i's tile, which is in the team's buffers, to memory as well. Tiles overlap; each stores
/// from its first pixel on, up to that of the next one, and the last ones store all they have.
template <class Tile, int i>
__device__ __forceinline__ void chain_store_kept(const ChainSm90Parameters& p,
                                                 const ChainSm90Team<Tile>& team) {
  using T = typename Tile::Element;
  const ChainSm90StageParameters &s = p.stage[i], &last = p.stage[kMostChainStages - 1];
  const int rows = team.at.y + last.rows < last.height ? last.rows : s.rows;
  const int columns = team.at.x + last.columns < last.width ? last.columns : s.columns;
  const int thread = static_cast<int>(threadIdx.x) % Tile::kTeamThreads, chunk = thread % 8;
#pragma unroll 1
  for (int pixel = thread / 8; pixel < rows * s.pitch; pixel += Tile::kTeamThreads / 8) {
    const int r = pixel * s.pitch_inverse >> 20, c = pixel - r * s.pitch;
    const int y = team.at.y - s.top + r, x = team.at.x - s.left + c;
    const bool exists = c < columns && static_cast<u32>(y) < static_cast<u32>(s.height) &&
                        static_cast<u32>(x) < static_cast<u32>(s.width);
    for (int block = 0; exists && block < s.blocks; ++block) {
      const int channel = block * 64 + chunk * 8;
      const unsigned char* const plane = team.buffers + s.to + block * s.to_plane;
      float v[8];
      load_vector<T, 8>(
          v, reinterpret_cast<const T*>(plane + pixel * 128 + ((chunk ^ (pixel & 7)) << 4)));
      store_result<T, Tile::template Stage<i>::kStored, 8>(
          v, s.stored, {team.at.n, y * s.width + x, channel, s.channels - channel, nullptr});
    }
  }
}

/// Before a tile's first result is written by all of a team: the tile before has left, whose place
/// it may be, and what it was made of has been read.
template <Store kStore, class Tile>
__device__ __forceinline__ void chain_take_place(const ChainSm90Parameters& p,
                                                 const ChainSm90Team<Tile>& team) {
  if (!Tile::kFollow && p.overwrites == 0) return;
  if (kStore == Store::kVector && team.leads()) bulk_store_wait_read<0>();
  team.sync();
}

/// Where 64 channels of the last stage's tile are written, when that place is free. kTogether: by
/// all threads of the team at the same time.
template <class Tile, bool kTogether>
__device__ __forceinline__ unsigned char* chain_place(const ChainSm90Parameters& p,
                                                      const ChainSm90Memory& memory,
                                                      const ChainSm90Team<Tile>& team) {
  if constexpr (Tile::kLoadsLast) {
    barrier_wait(
        memory.loaded + team.team * kChainLoaded + kMostChainStages - 1 + team.staged.stage,
        team.staged.parity);
  } else if constexpr (kTogether) {
    if (p.staged_buffers == 1) {
      if (team.leads()) bulk_store_wait_read<0>();
      team.sync();
    }
  }
  return team.buffers + p.staged + team.staged.stage * p.staged_bytes;
}
/// When the team has written them: to memory by TMA.
template <class Tile, bool kTogether>
__device__ __forceinline__ void chain_send(const ChainSm90Parameters& p, ChainSm90Team<Tile>& team,
                                           const unsigned char* from, int block,
                                           const ChainSm90StageParameters& s) {
  async_fence();
  if constexpr (kTogether) {
    if (!Tile::kLoadsLast && p.staged_buffers > 1 && team.leads()) bulk_store_wait_read<0>();
    team.sync();
  } else {
    team.has_written();
  }
  if (team.leads()) {
    tma_store_4d(&p.output, from, block * 64, team.at.x - s.left, team.at.y - s.top, team.at.n);
    bulk_store_commit();
  }
  team.staged.next(p.staged_buffers);
}

/// The last stage: 64 channels of its tile to shared memory, row after row. Where pixels lie with
/// gaps, those that are none go beyond. Over what it is made of it may be written by one warpgroup
/// after another: pixel n goes to place n or before, where those behind do not read any more.
template <class Tile, int i>
__device__ __forceinline__ void chain_stage_tile(
    const ChainSm90Parameters& p, const ChainSm90Part<Tile, i>& part,
    const float (&acc)[Tile::template Stage<i>::kRegisters], unsigned char* to,
    const unsigned char* kept) {
  const ChainSm90StageParameters& s = part.s;
  BRAZE_UNROLL
  for (int j = 0; j < Tile::template Stage<i>::kPixels / 16; ++j) {
    int pixel = part.address_pixel(j);
    const int r = part.row(pixel), c = pixel - r * s.pitch;
    pixel = part.in_tile(r, c) ? r * s.columns + c : p.staged_beyond + pixel % 8;
    chain_write<Tile, i>(part, acc, to + part.unit(pixel), kept, j);
  }
}
/// Then to memory by TMA.
template <class Tile, int i>
__device__ __forceinline__ void chain_store_tile(
    const ChainSm90Parameters& p, const ChainSm90Memory& memory, ChainSm90Team<Tile>& team,
    const ChainSm90Part<Tile, i>& part, const float (&acc)[Tile::template Stage<i>::kRegisters],
    const unsigned char* kept, int block) {
  unsigned char* const to = chain_place<Tile, !Tile::kFollow>(p, memory, team);
  team.write_after();
  chain_stage_tile<Tile, i>(p, part, acc, to, kept);
  chain_send<Tile, !Tile::kFollow>(p, team, to, block, part.s);
}
/// Or by a loop, one by one: unrolled, as sums lie in registers, that would be far more
/// instructions than a multiprocessor keeps.
template <class Tile, int i>
__device__ __forceinline__ void chain_copy_tile(
    const ChainSm90Parameters& p, const ChainSm90Team<Tile>& team,
    const ChainSm90Part<Tile, i>& part, const float (&acc)[Tile::template Stage<i>::kRegisters],
    const unsigned char* kept, int block) {
  using T = typename Tile::Element;
  const ChainSm90StageParameters& s = part.s;
  unsigned char* const from = team.buffers + p.staged;
  team.sync();  // what was there has been copied
  chain_stage_tile<Tile, i>(p, part, acc, from, kept);
  team.sync();
  const int thread = static_cast<int>(threadIdx.x) % Tile::kTeamThreads;
#pragma unroll 1
  for (int chunk = 0; chunk < 8 && block * 64 + chunk * 8 < s.channels; ++chunk) {
    const int channel = block * 64 + chunk * 8;
#pragma unroll 1
    for (int pixel = thread; pixel < s.rows * s.columns; pixel += Tile::kTeamThreads) {
      const int r = pixel * p.columns_inverse >> 20, c = pixel - r * s.columns;
      if (!part.in_image(r, c)) continue;
      float v[8];
      load_vector<T, 8>(
          v, reinterpret_cast<const T*>(from + pixel * 128 + ((chunk ^ (pixel & 7)) << 4)));
      store_result<T, Store::kEach, 8>(
          v, p.y,
          {part.n, (part.y + r) * s.width + part.x + c, channel, s.channels - channel, nullptr});
    }
  }
}

/// The last stage, where it is stored one by one from registers: in another type.
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

}  // namespace braze::device
