// What the kernels of conv_sm90 share: the tile and its shared memory, where its steps read, the
// epilogue, and the exchange of the sums that a cluster shares.
#pragma once

#include "braze/conv_sm90_phases.cuh"
#include "braze/epilogue.cuh"
#include "braze/ptx_sm90.cuh"

namespace braze::device {

/// How an input is read.
enum class ConvSm90Input { kNone, kTiled, kIm2col };

template <class ElementType, int kTilePixels, int kTileChannels, int kBytes, int kSplitBlocks,
          int kBlocksTogether, int kStagedBytes, bool kByIm2col,
          ConvSm90Input kSecondInput = ConvSm90Input::kNone,
          ConvSm90Columns kColumns = ConvSm90Columns::kOutputs>
struct ConvSm90Tile {
  using Element = ElementType;  // half, bfloat16, tf32
  static constexpr int kPixels = kTilePixels, kChannels = kTileChannels, kRowBytes = kBytes;
  static constexpr int kSplit = kSplitBlocks;
  static constexpr bool kIm2col = kByIm2col;
  static constexpr ConvSm90Input kOther = kSecondInput;
  static constexpr bool kPhases = kColumns != ConvSm90Columns::kOutputs;
  static constexpr bool kUnequal = kColumns == ConvSm90Columns::kUnequalPhases;
  static constexpr ConvSm90Shared kShared{kPixels, kChannels,       kRowBytes,
                                          kSplit,  kBlocksTogether, kStagedBytes};
  static constexpr int kStages = kShared.stages;
  static constexpr bool kStagesOperand = kStagedBytes != 0;
  static constexpr int kChunks = kShared.chunks;
  static constexpr int kWarpgroups = kPixels == 64 ? 1 : 2, kMathThreads = 128 * kWarpgroups;
  static constexpr int kProducts = kPixels / (64 * kWarpgroups);  // of 64 pixels, per warpgroup
  static constexpr int kRegisters = kChannels / 2;                // per product
  // Where two warpgroups multiply in the only block, the loading warps are in one of their own,
  // which leaves them its registers.
  static constexpr bool kMovesRegisters = kBlocksTogether == 1;
  static constexpr int kMathRegisters = 232, kLoadRegisters = 40;
  static constexpr int kStepChannels = kRowBytes / static_cast<int>(sizeof(Element));
  static constexpr int kExchangePitch = kChannels + 4;  // floats: rows fall on different banks
  static_assert(kStages >= 2, "the ring has at least two stages");
};

/// The block's shared memory.
template <class Tile>
struct ConvSm90Memory {
  unsigned char* activations;           // [stage][pixel][kRowBytes], swizzled
  unsigned char* weights;               // [stage][channel][kRowBytes], swizzled
  unsigned char* staged;                // [chunk][pixel][kShared.chunk_row], swizzled
  float* bias;                          // [stage][channel], of stages that begin a tile
  float* exchange;                      // [block of the cluster][pixel][kExchangePitch]
  Barrier *full, *empty;                // [stage]
  Barrier *staged_full, *staged_empty;  // [chunk]
  Barrier* exchanged;

  explicit __device__ __forceinline__ ConvSm90Memory(unsigned char* shared)
      : activations(shared),
        weights(activations + Tile::kStages * Tile::kPixels * Tile::kRowBytes),
        staged(shared + Tile::kStages * Tile::kShared.stage),
        bias(reinterpret_cast<float*>(staged + Tile::kChunks * Tile::kShared.chunk)),
        exchange(bias + Tile::kStages * Tile::kChannels),
        full(reinterpret_cast<Barrier*>(exchange + Tile::kShared.exchange / 4)),
        empty(full + Tile::kStages),
        staged_full(empty + Tile::kStages),
        staged_empty(staged_full + Tile::kChunks),
        exchanged(staged_empty + Tile::kChunks) {}
};

/// A place in the ring.
template <int kStages>
struct Ring {
  int stage = 0;
  u32 parity = 0;  // of the round
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

/// What a block of a cluster does of each tile.
template <class Tile>
struct ConvSm90Part {
  int rank, first_tile, stride;  // its cluster's tiles are first_tile, first_tile + stride, ...
  int begin, end;                // steps

  explicit __device__ __forceinline__ ConvSm90Part(const ConvSm90Parameters& p) {
    rank = Tile::kSplit > 1 ? static_cast<int>(cluster_rank()) : 0;
    first_tile = static_cast<int>(blockIdx.x) / Tile::kSplit;
    stride = static_cast<int>(gridDim.x) / Tile::kSplit;
    take(p.steps);
    enter(p, first_tile);
  }
  /// Its steps of a tile that has `steps`.
  __device__ __forceinline__ void take(int steps) {
    begin = Tile::kSplit > 1 ? rank * steps / Tile::kSplit : 0;
    end = Tile::kSplit > 1 ? (rank + 1) * steps / Tile::kSplit : steps;
  }
  /// To be called before the steps of a tile.
  __device__ __forceinline__ void enter(const ConvSm90Parameters& p, int tile) {
    if constexpr (Tile::kUnequal) {
      const ConvSm90Lack lack(p.phases, channel(p, tile));
      take((p.phases.filter_height - lack.y) * (p.source.filter_width - lack.x) *
           p.source.channel_blocks);
    }
  }
  __device__ __forceinline__ int channel(const ConvSm90Parameters& p, int tile) const {
    if constexpr (Tile::kUnequal) return tile / p.phases.pixel_tiles * Tile::kChannels;
    return tile % p.channel_tiles * Tile::kChannels;
  }
  __device__ __forceinline__ int pixel(const ConvSm90Parameters& p, int tile) const {
    if constexpr (Tile::kUnequal) return tile % p.phases.pixel_tiles * Tile::kPixels;
    return tile / p.channel_tiles * Tile::kPixels;
  }
};

/// Where the steps of a tile read one of its inputs.
template <class Tile, bool kIm2col>
struct ConvSm90Walk {
  const ConvSm90Source& source;
  const EncodedTensorMap& map;
  int pixel, n, x, y;            // the tile's first, of all images; where it is read
  int block, tap_x, tap_y;       // of the next step
  int first_x = 0, first_y = 0;  // taps

  __device__ __forceinline__ ConvSm90Walk(const ConvSm90Source& from, const EncodedTensorMap& input,
                                          const ConvSm90Parameters& p, int first_pixel, int column,
                                          int step)
      : source(from), map(input), pixel(first_pixel) {
    if constexpr (Tile::kUnequal) {
      const ConvSm90Lack lack(p.phases, column);
      first_x = lack.x, first_y = lack.y;
    }
    const int pixels = Tile::kPhases ? p.phases.pixels.divisor : p.y.pixels;  // of an image
    n = pixel < pixels ? 0 : pixel / pixels;
    const int rest = pixel - n * pixels, row = rest / p.width;
    x = (rest - row * p.width) * source.stride_x + source.corner_x;
    y = row * source.stride_y + source.corner_y;
    place(step);
  }
  __device__ __forceinline__ void place(int step) {
    block = step;
    if constexpr (kIm2col) {
      const int tap = step / source.channel_blocks;
      block -= tap * source.channel_blocks;
      const int across = source.filter_width - first_x;
      tap_y = tap / across;
      tap_x = first_x + tap - tap_y * across;
      tap_y += first_y;
    }
  }
  __device__ __forceinline__ void next() {
    ++block;
    if constexpr (kIm2col) {
      if (block < source.channel_blocks) return;
      block = 0;
      if (++tap_x == source.filter_width) tap_x = first_x, ++tap_y;
    }
  }
  __device__ __forceinline__ void load(unsigned char* to, Barrier* full) const {
    if constexpr (kIm2col) {
      tma_load_im2col(to, &map, full, block * Tile::kStepChannels, x, y, n,
                      tap_x * source.dilation_x, tap_y * source.dilation_y);
    } else {
      tma_load_2d(to, &map, full, block * Tile::kStepChannels, pixel);
    }
  }
};
/// Of the second input; of none, nothing is asked of it.
template <class Tile>
using ConvSm90OtherWalk = ConvSm90Walk<Tile, Tile::kOther == ConvSm90Input::kIm2col>;

/// 8 channels from `channel` on, of row `row` of a staged chunk: for Position.
template <class Tile>
__device__ __forceinline__ const unsigned char* conv_sm90_staged(const ConvSm90Memory<Tile>& memory,
                                                                 int chunk, int row, int channel) {
  constexpr ConvSm90Shared kShared = Tile::kShared;
  return memory.staged + chunk * kShared.chunk + row * kShared.chunk_row + channel * kShared.staged;
}

/// Reads V channels at `at.staged`, of a chunk whose rows have kRowBytes.
template <class T, int kRowBytes, int V>
__device__ __forceinline__ void load_staged(float (&v)[V], const Position& at) {
  constexpr int kUnit = V * sizeof(T) < 16 ? V : 16 / static_cast<int>(sizeof(T));
  BRAZE_UNROLL
  for (int i = 0; i < V / kUnit; ++i) {
    // The TMA moved 16 bytes within the swizzle's width: their index there ^ the row of 128 bytes.
    const u32 address = shared_address(at.staged) + 16 * static_cast<u32>(i);
    const u32 moved = address ^ ((address / 128 % (kRowBytes / 16)) * 16);
    float x[kUnit];
    load_vector<T, kUnit>(x, reinterpret_cast<const T*>(
                                 at.staged + static_cast<int>(moved - shared_address(at.staged))));
    BRAZE_UNROLL
    for (int e = 0; e < kUnit; ++e) v[i * kUnit + e] = x[e];
  }
}

/// A warp has read a stage or a chunk: tells who writes it.
__device__ __forceinline__ void conv_sm90_release(Barrier* empty) {
  if (threadIdx.x % 32 == 0) barrier_arrive(empty);
}

/// acc = the bias (in the order of columns), in one block of the cluster; zeros in the others.
template <class Tile>
__device__ __forceinline__ void conv_sm90_begin(float (&acc)[Tile::kProducts][Tile::kRegisters],
                                                const float* bias, bool mine) {
  bias += threadIdx.x % 4 * 2;
  BRAZE_UNROLL
  for (int j = 0; j < Tile::kChannels / 8; ++j) {
    float x[2];
    load_vector<float, 2>(x, bias + 8 * j);
    BRAZE_UNROLL
    for (int i = 0; i < 4; ++i) {
      BRAZE_UNROLL
      for (int m = 0; m < Tile::kProducts; ++m) acc[m][4 * j + i] = mine ? x[i % 2] : 0.0f;
    }
  }
  BRAZE_UNROLL
  for (int m = 0; m < Tile::kProducts; ++m) wgmma_registers(acc[m]);
}

/// Channels 8 t to 8 t + 7 of a group of 32, of row 8 h + g, that lane 4 g + t has: the weights'
/// rows are dealt to the columns of the product so that they lie in one lane.
template <class Tile>
__device__ __forceinline__ void conv_sm90_vector(float (&v)[8],
                                                 const float (&acc)[Tile::kRegisters], int group,
                                                 int h) {
  BRAZE_UNROLL
  for (int i = 0; i < 8; ++i) v[i] = acc[(group * 4 + i / 2) * 4 + 2 * h + i % 2];
}

/// Some vectors of 8 channels and where they belong. All are made before the first is stored, so
/// that what the epilogue reads is on its way at the same time.
template <class Epilogue, class Result, Store kStore, int kCount>
struct Vectors {
  float v[kCount][8];
  Position at[kCount];
  bool exists[kCount];

  /// Vector i is of a pixel of the result from `column` on.
  template <bool kFew>
  __device__ __forceinline__ void place(const ConvSm90Parameters& p, int i,
                                        const Pixel<kFew, false>& pixel, int column,
                                        const unsigned char* staged) {
    place(p.y, i, pixel.n, pixel.at, pixel.exists, column, staged);
  }
  /// It is of the column's phase of a pixel of the product.
  template <bool kFew>
  __device__ __forceinline__ void place(const ConvSm90Parameters& p, int i,
                                        const Pixel<kFew, true>& pixel, int column,
                                        const unsigned char* staged) {
    const ConvSm90Phases& phases = p.phases;
    u32 row = static_cast<u32>(column);
    const int channel = split_off(row, phases.columns);
    const int x = pixel.x + split_off(row, phases.stride_x);
    const int y = pixel.y + static_cast<int>(row);
    const bool inside = static_cast<int>(row) < phases.stride_y && x >= 0 &&
                        x < phases.result_width && y >= 0 && y < phases.result_height;
    const bool exists = pixel.exists && inside;
    place(p.y, i, pixel.n, exists ? y * phases.result_width + x : 0, exists, channel, staged);
  }
  /// Vector i is of `pixel` of image n, where there is such a pixel, from `channel` on.
  __device__ __forceinline__ void place(const OutputParameters& y, int i, int n, int pixel,
                                        bool is_pixel, int channel, const unsigned char* staged) {
    exists[i] = is_pixel && channel < y.padded;
    if (!exists[i]) channel = 0;
    at[i] = {n, pixel, channel, min(8, y.channels - channel), staged};
  }
  __device__ __forceinline__ void finish(const OutputParameters& y, const EpilogueParameters& e) {
    BRAZE_UNROLL
    for (int i = 0; i < kCount; ++i) Epilogue::apply(v[i], e, at[i]);
    BRAZE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (exists[i]) store_result<Result, kStore, 8>(v[i], y, at[i]);
    }
  }
};

/// Epilogue and store of whole sums, from registers. `row` is that of the warp's first product in
/// the tile, which begins at `pixel`.
template <class Tile, class Epilogue, class Result, Store kStore, bool kFew>
__device__ __forceinline__ void conv_sm90_finish(
    const ConvSm90Parameters& p, const ConvSm90Memory<Tile>& memory, Ring<Tile::kChunks>& staged,
    const float (&acc)[Tile::kProducts][Tile::kRegisters], int pixel, int row, int channel) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  // Groups of 32 channels: as many at a time as a chunk has.
  constexpr int kGroups = Tile::kChannels / 32;
  constexpr int kTogether =
      Tile::kStagesOperand ? Tile::kShared.chunk_channels / 32 : (kGroups % 2 == 0 ? 2 : 1);
  BRAZE_UNROLL
  for (int q = 0; q < kGroups; q += kTogether) {
    if constexpr (Tile::kStagesOperand)
      barrier_wait(memory.staged_full + staged.stage, staged.parity);
    BRAZE_UNROLL
    for (int m = 0; m < Tile::kProducts; ++m) {
      const int rows[2] = {row + 64 * m + g, row + 64 * m + g + 8};
      const Pixel<kFew, Tile::kPhases> pixels[2] = {{p, pixel + rows[0]}, {p, pixel + rows[1]}};
      Vectors<Epilogue, Result, kStore, 2 * kTogether> vectors;
      BRAZE_UNROLL
      for (int i = 0; i < 2 * kTogether; ++i) {
        const int group = q + i / 2, h = i % 2;
        conv_sm90_vector<Tile>(vectors.v[i], acc[m], group, h);
        vectors.place(p, i, pixels[h], channel + group * 32 + t * 8,
                      conv_sm90_staged(memory, staged.stage, rows[h], i / 2 * 32 + t * 8));
      }
      vectors.finish(p.y, p.e);
    }
    if constexpr (Tile::kStagesOperand) {
      __syncwarp();
      conv_sm90_release(memory.staged_empty + staged.stage);
      staged.next();
    }
  }
}

/// Sends the accumulators of each pixel to the block that finishes it.
template <class Tile>
__device__ __forceinline__ void conv_sm90_send(const ConvSm90Memory<Tile>& memory,
                                               const float (&acc)[Tile::kRegisters], int rank,
                                               int first_row) {
  constexpr int kRows = Tile::kPixels / Tile::kSplit;  // a multiple of 8
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  BRAZE_UNROLL
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + 8 * h + g;
    const u32 to = static_cast<u32>((first_row + 8 * h) / kRows);
    const u32 barrier = cluster_address(memory.exchanged, to);
    const u32 begin = cluster_address(
        memory.exchange + (rank * kRows + row % kRows) * Tile::kExchangePitch + 8 * t, to);
    BRAZE_UNROLL
    for (int group = 0; group < Tile::kChannels / 32; ++group) {
      float v[8];
      conv_sm90_vector<Tile>(v, acc, group, h);
      BRAZE_UNROLL
      for (int half = 0; half < 2; ++half) {
        cluster_store_async(begin + 128 * group + 16 * half, barrier, v[4 * half], v[4 * half + 1],
                            v[4 * half + 2], v[4 * half + 3]);
      }
    }
  }
}

/// Sums what the cluster's blocks sent, in their order; epilogue and store.
template <class Tile, class Epilogue, class Result, Store kStore>
__device__ __forceinline__ void conv_sm90_finish_part(const ConvSm90Parameters& p,
                                                      const ConvSm90Memory<Tile>& memory, int pixel,
                                                      int channel) {
  constexpr int kRows = Tile::kPixels / Tile::kSplit, kGroups = Tile::kChannels / 8;
  constexpr int kCount = ceil_div(kRows * kGroups, Tile::kMathThreads);
  Vectors<Epilogue, Result, kStore, kCount> vectors;
  if constexpr (Tile::kStagesOperand) {
    for (int chunk = 0; chunk < Tile::kChunks; ++chunk) barrier_wait(memory.staged_full + chunk, 0);
  }
  const int half = static_cast<int>(threadIdx.x) / 4 % 2;  // read first: banks are met once
  BRAZE_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const int index = static_cast<int>(threadIdx.x) + i * Tile::kMathThreads;
    const bool mine = index < kRows * kGroups;
    const int row = mine ? index / kGroups : 0, group = index % kGroups;
    float sum[2][4] = {};
    BRAZE_UNROLL
    for (int block = 0; block < Tile::kSplit; ++block) {
      const float* const from =
          memory.exchange + (block * kRows + row) * Tile::kExchangePitch + group * 8;
      BRAZE_UNROLL
      for (int part = 0; part < 2; ++part) {
        float x[4];
        load_vector<float, 4>(x, from + 4 * (part ^ half));
        BRAZE_UNROLL
        for (int e = 0; e < 4; ++e) sum[part][e] += x[e];
      }
    }
    BRAZE_UNROLL
    for (int e = 0; e < 4; ++e) {
      vectors.v[i][e] = half != 0 ? sum[1][e] : sum[0][e];
      vectors.v[i][4 + e] = half != 0 ? sum[0][e] : sum[1][e];
    }
    constexpr int kChunkGroups = Tile::kShared.chunk_channels / 8;
    const Pixel<true, Tile::kPhases> own(p, pixel + row);
    vectors.place(p, i, own, channel + group * 8,
                  conv_sm90_staged(memory, group / kChunkGroups, row, group % kChunkGroups * 8));
    vectors.exists[i] = vectors.exists[i] && mine;
  }
  vectors.finish(p.y, p.e);
}

}  // namespace braze::device
