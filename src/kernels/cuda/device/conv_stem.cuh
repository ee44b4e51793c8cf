// Convolution of few input channels, as of an image, on mma.sync (sm_80 and up).
//
// A block makes rows x 16 pixels of the result. The patch of the input under them lies in shared
// memory once:
//
//   patch[h][lead + w * channels + c]
//
// Under a row of the filter lie adjacent elements of a row of the patch. So depth counts rows of
// the filter, and within one chunks of 16 bytes of the patch's row: fragments of a are read from
// the patch as it lies, 4 bytes a lane. Elements of a chunk that belong to no tap may be anything,
// NaN too: they are masked.
//
// Output channels are dealt to the columns of the products so that a lane ends with 8 adjacent ones
// of a pixel: column 2 t + e of product j of a group is channel 8 t + 2 j + e of the group's 32.
#pragma once

#include "braze/conv_stem_parameters.h"
#include "braze/epilogue.cuh"

namespace braze::device {

template <class ElementType, int kTileRows, int kTileWarps, int kTileOutputs, int kPatchChannels,
          int kPatchLead, int kFilterH, int kFilterW, int kStrideH, int kStrideW, int kDilationH,
          int kDilationW>
struct StemTile {
  using Element = ElementType;  // half, bfloat16, tf32
  static constexpr int kBytes = static_cast<int>(sizeof(Element));
  static constexpr StemSizes kSizes{kTileRows,  kTileOutputs, kBytes,    kPatchChannels,
                                    kPatchLead, kFilterH,     kFilterW,  kStrideH,
                                    kStrideW,   kDilationH,   kDilationW};
  static constexpr int kRows = kTileRows, kOutputs = kTileOutputs, kChannels = kPatchChannels;
  static constexpr int kThreads = 32 * kTileWarps;
  static constexpr int kM = kRows / kTileWarps;  // rows of pixels of a warp, an mma each
  static constexpr int kN = kOutputs / 8;        // mma's along channels
  static constexpr int kGroups = kOutputs / 32;
  static constexpr int kRowBytes = kSizes.pitch * kBytes;  // of the patch
  static constexpr int kPixelBytes = kStrideW * kChannels * kBytes;
  static_assert(kM * kTileWarps == kRows && kGroups * 32 == kOutputs, "whole fragments");
  static_assert(kPixelBytes % 4 == 0, "pixels begin at whole registers");

  /// Does element `at` of the depth of a row of the filter belong to a tap?
  static __device__ __forceinline__ constexpr bool counts(int at) {
    const int tap = (at - kPatchLead) / kChannels;
    return at >= kPatchLead && tap < kSizes.reach && tap % kDilationW == 0;
  }
  /// The bits that count of the register that lane t of four reads of a chunk.
  static __device__ __forceinline__ constexpr u32 mask(int chunk, int t) {
    const int at = chunk * kSizes.chunk + t * (4 / kBytes);
    if (kBytes == 4) return counts(at) ? ~0u : 0u;
    return (counts(at) ? 0xffffu : 0u) | (counts(at + 1) ? 0xffff0000u : 0u);
  }
};

/// A tile's first pixel.
struct StemPlace {
  int n, h, w;
  __device__ __forceinline__ StemPlace(const ConvStemParameters& p, int tile, int rows) {
    const int line = tile / p.tiles_w;
    w = (tile - line * p.tiles_w) * kStemWidth;
    n = line / p.tiles_h;
    h = (line - n * p.tiles_h) * rows;
  }
};

/// Brings kCount vectors of kUnit elements to the patch, several of a thread under way at once.
/// source(i, inside): where vector i lies, if it does; else it is zeros. target(i): its byte in the
/// patch.
template <class Tile, class In, int kUnit, int kCount, class Source, class Target>
__device__ __forceinline__ void stem_bring(unsigned char* patch, const Source& source,
                                           const Target& target) {
  using T = typename Tile::Element;
  constexpr int kUnitBytes = kUnit * static_cast<int>(sizeof(In));
  constexpr int kMost = kUnitBytes > 8 ? 4 : kUnitBytes > 4 ? 8 : 12;
  constexpr int kEach = ceil_div(kCount, Tile::kThreads), kAtOnce = kEach < kMost ? kEach : kMost;
  for (int begin = static_cast<int>(threadIdx.x); begin < kCount;
       begin += Tile::kThreads * kAtOnce) {
    Vector<In, kUnit> raw[kAtOnce];
    BRAZE_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = begin + j * Tile::kThreads;
      bool inside = i < kCount;
      const In* const from = source(i, inside);
      BRAZE_UNROLL
      for (int e = 0; e < kUnit; ++e) raw[j].at[e] = from_float<In>(0.0f);
      if (inside) raw[j] = *reinterpret_cast<const Vector<In, kUnit>*>(from);
    }
    BRAZE_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = begin + j * Tile::kThreads;
      if (i >= kCount) continue;
      float v[kUnit];
      BRAZE_UNROLL
      for (int e = 0; e < kUnit; ++e) v[e] = to_float(raw[j].at[e]);
      Vector<T, kUnit> out;
      BRAZE_UNROLL
      for (int e = 0; e < kUnit; ++e) {
        if constexpr (kSame<T, tf32>) {
          out.at[e] = {__uint_as_float(float_to_tf32(v[e]))};
        } else if constexpr (kSame<T, In>) {
          out.at[e] = raw[j].at[e];
        } else {
          out.at[e] = from_float<T>(v[e]);
        }
      }
      *reinterpret_cast<Vector<T, kUnit>*>(patch + target(i)) = out;
    }
  }
}

/// How the input lies: pixels as in the patch, row by row (kUnit elements at a time, at multiples
/// of kUnit); or any other way, channels or pixels of a row adjacent.
enum class StemInput { kDense, kChannels, kPixels };

template <class Tile, class In, StemInput kInput, int kUnit>
__device__ __forceinline__ void stem_fetch(const ConvStemParameters& p, const StemPlace& place,
                                           unsigned char* patch) {
  constexpr StemSizes kSizes = Tile::kSizes;
  const int first_h = place.h * kSizes.stride_h - p.pad_h;
  const int first_w = place.w * kSizes.stride_w - p.pad_w;
  const In* const x = static_cast<const In*>(p.x) + place.n * p.stride_n;
  if constexpr (kInput == StemInput::kDense) {
    constexpr int kUnits = ceil_div(kSizes.filled, kUnit);
    const int first = first_w * Tile::kChannels - kSizes.lead;
    const u32 width = static_cast<u32>(p.in_w * Tile::kChannels);
    stem_bring<Tile, In, kUnit, kSizes.patch_h * kUnits>(
        patch,
        [&](int i, bool& inside) {
          const int row = i / kUnits, h = first_h + row, at = first + (i - row * kUnits) * kUnit;
          inside = inside & (static_cast<u32>(h) < static_cast<u32>(p.in_h)) &
                   (static_cast<u32>(at) < width);
          return x + h * p.stride_h + at;
        },
        [&](int i) {
          const int row = i / kUnits;
          return row * Tile::kRowBytes + (i - row * kUnits) * kUnit * Tile::kBytes;
        });
  } else {
    struct Element {
      int h, w, c;
      __device__ __forceinline__ explicit Element(int i) {
        if constexpr (kInput == StemInput::kPixels) {
          const int line = i / Tile::kSizes.patch_w;
          w = i - line * Tile::kSizes.patch_w;
          c = line / Tile::kSizes.patch_h;
          h = line - c * Tile::kSizes.patch_h;
        } else {
          const int pixel = i / Tile::kChannels;
          c = i - pixel * Tile::kChannels;
          h = pixel / Tile::kSizes.patch_w;
          w = pixel - h * Tile::kSizes.patch_w;
        }
      }
    };
    stem_bring<Tile, In, 1, kSizes.patch_h * kSizes.patch_w * Tile::kChannels>(
        patch,
        [&](int i, bool& inside) {
          const Element at(i);
          const int h = first_h + at.h, w = first_w + at.w;
          inside = inside & (static_cast<u32>(h) < static_cast<u32>(p.in_h)) &
                   (static_cast<u32>(w) < static_cast<u32>(p.in_w)) & (at.c < p.channels);
          return x + h * p.stride_h + w * p.stride_w + at.c * p.stride_c;
        },
        [&](int i) {
          const Element at(i);
          return at.h * Tile::kRowBytes +
                 (kSizes.lead + at.w * Tile::kChannels + at.c) * Tile::kBytes;
        });
  }
}

/// sum = the products of the warp's pixels. `patch` and `weights` are the lane's.
template <class Tile>
__device__ __forceinline__ void stem_multiply(float (&sum)[Tile::kM][Tile::kN][4],
                                              const unsigned char* patch,
                                              const Vector<u32, 4>* weights,
                                              const u32 (&mask)[Tile::kSizes.row_chunks]) {
  constexpr StemSizes kSizes = Tile::kSizes;
  BRAZE_UNROLL
  for (int i = 0; i < Tile::kM; ++i) {
    BRAZE_UNROLL
    for (int j = 0; j < Tile::kN; ++j) {
      BRAZE_UNROLL
      for (int e = 0; e < 4; ++e) sum[i][j][e] = 0;
    }
  }
  BRAZE_UNROLL
  for (int step = 0; step < kSizes.steps; ++step) {
    u32 a[Tile::kM][4];
    BRAZE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int chunk = 2 * step + half;
      const int r = chunk / kSizes.row_chunks, c = chunk % kSizes.row_chunks;
      BRAZE_UNROLL
      for (int i = 0; i < Tile::kM; ++i) {
        const unsigned char* const from =
            patch + (i * kSizes.stride_h + r * kSizes.dilation_h) * Tile::kRowBytes + c * 16;
        const bool exists = chunk < kSizes.chunks;
        a[i][2 * half] = exists ? *reinterpret_cast<const u32*>(from) & mask[c] : 0u;
        a[i][2 * half + 1] =
            exists ? *reinterpret_cast<const u32*>(from + 8 * Tile::kPixelBytes) & mask[c] : 0u;
      }
    }
    BRAZE_UNROLL
    for (int pair = 0; pair < Tile::kN / 2; ++pair) {
      const Vector<u32, 4> b = weights[(step * (Tile::kN / 2) + pair) * 32];
      BRAZE_UNROLL
      for (int j = 0; j < 2; ++j) {
        const u32 columns[2] = {b.at[2 * j], b.at[2 * j + 1]};
        BRAZE_UNROLL
        for (int i = 0; i < Tile::kM; ++i) {
          if constexpr (kSame<typename Tile::Element, tf32>) {
            mma_m16n8k8_tf32(sum[i][2 * pair + j], a[i], columns);
          } else {
            mma_m16n8k16<typename Tile::Element>(sum[i][2 * pair + j], a[i], columns);
          }
        }
      }
    }
  }
}

/// The constants of the lane's channels. Tiles of few sums have registers for them all along; else
/// they are loaded when a tile's sums are there.
template <class Tile, class Epilogue>
struct StemConstants {
  static constexpr bool kEarly = Tile::kM * Tile::kN <= 8;
  typename Epilogue::template Constants<8> group[Tile::kGroups];
  __device__ __forceinline__ void load(const ConvStemParameters& p, int first_channel) {
    BRAZE_UNROLL
    for (int q = 0; q < Tile::kGroups; ++q) {
      const int channel = first_channel + q * 32 + static_cast<int>(threadIdx.x) % 4 * 8;
      Epilogue::load(group[q], p.e, channel < p.y.padded ? channel : 0);
    }
  }
};

/// Epilogue and store, a group of 32 channels at a time: what the epilogue reads of all of the
/// lane's pixels is on its way before the first is stored.
template <class Tile, class Y, Store kStore, class Epilogue>
__device__ __forceinline__ void stem_finish(const ConvStemParameters& p, const StemPlace& place,
                                            const float (&sum)[Tile::kM][Tile::kN][4],
                                            const StemConstants<Tile, Epilogue>& constants,
                                            int first_row, int first_channel) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  BRAZE_UNROLL
  for (int q = 0; q < Tile::kGroups; ++q) {
    constexpr int kCount = 2 * Tile::kM;
    const int channel = first_channel + q * 32 + t * 8;
    const bool stored = channel < p.y.padded;
    float v[kCount][8];
    Position at[kCount];
    bool exists[kCount];
    BRAZE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const int h = place.h + first_row + i / 2, w = place.w + g + i % 2 * 8;
      exists[i] = stored & (h < p.out_h) & (w < p.out_w);
      // What does not exist is read of the first pixel or channel.
      at[i] = {place.n, exists[i] ? h * p.out_w + w : 0, stored ? channel : 0, 0};
      at[i].count = min(8, p.y.channels - at[i].channel);
      BRAZE_UNROLL
      for (int j = 0; j < 4; ++j) {
        BRAZE_UNROLL
        for (int e = 0; e < 2; ++e) v[i][2 * j + e] = sum[i / 2][q * 4 + j][i % 2 * 2 + e];
      }
    }
    BRAZE_UNROLL
    for (int i = 0; i < kCount; ++i) Epilogue::apply(v[i], p.e, at[i], constants.group[q]);
    BRAZE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (exists[i]) store_result<Y, kStore, 8>(v[i], p.y, at[i]);
    }
  }
}

template <class Tile, class In, StemInput kInput, int kUnit, class Y, Store kStore, class Epilogue>
__device__ __forceinline__ void conv_stem(const ConvStemParameters& p) {
  constexpr StemSizes kSizes = Tile::kSizes;
  constexpr int kWeightBytes = kSizes.weight_bytes;
  BRAZE_DYNAMIC_SHARED(shared);
  unsigned char* const patch = shared + kWeightBytes;
  const int column_tile = static_cast<int>(blockIdx.x) % p.column_tiles;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;

  launch_dependents();
  // Weights are no kernel's result: asked for before this kernel's turn.
  const auto* const weights =
      static_cast<const unsigned char*>(p.weights) + static_cast<i64>(column_tile) * kWeightBytes;
  for (int i = static_cast<int>(threadIdx.x) * 16; i < kWeightBytes; i += Tile::kThreads * 16)
    cp_async_16(shared + i, weights + i, 16);
  cp_async_commit();

  u32 mask[kSizes.row_chunks];
  BRAZE_UNROLL
  for (int c = 0; c < kSizes.row_chunks; ++c) {
    const int t = lane % 4;
    mask[c] = t == 0   ? Tile::mask(c, 0)
              : t == 1 ? Tile::mask(c, 1)
              : t == 2 ? Tile::mask(c, 2)
                       : Tile::mask(c, 3);
  }
  const unsigned char* const a = patch + warp * Tile::kM * kSizes.stride_h * Tile::kRowBytes +
                                 lane / 4 * Tile::kPixelBytes + lane % 4 * 4;
  const auto* const b = reinterpret_cast<const Vector<u32, 4>*>(shared) + lane;
  StemConstants<Tile, Epilogue> constants;
  if constexpr (constants.kEarly) constants.load(p, column_tile * Tile::kOutputs);
  grid_dependency_wait();

  const int stride = static_cast<int>(gridDim.x) / p.column_tiles;
  for (int tile = static_cast<int>(blockIdx.x) / p.column_tiles; tile < p.tiles; tile += stride) {
    const StemPlace place(p, tile, Tile::kRows);
    stem_fetch<Tile, In, kInput, kUnit>(p, place, patch);
    cp_async_wait<0>();
    __syncthreads();
    float sum[Tile::kM][Tile::kN][4];
    stem_multiply<Tile>(sum, a, b, mask);
    __syncthreads();  // before the next patch is written
    if constexpr (!constants.kEarly) constants.load(p, column_tile * Tile::kOutputs);
    stem_finish<Tile, Y, kStore, Epilogue>(p, place, sum, constants, warp * Tile::kM,
                                           column_tile * Tile::kOutputs);
  }
}

}  // namespace braze::device
