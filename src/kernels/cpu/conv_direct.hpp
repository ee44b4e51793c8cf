// Direct convolution: the parts that its files share.
//
//   conv_direct.cpp            the family's row: what it supports, candidates, cost, build
//   conv_direct_geometry.cpp   extents, which side is the vector, how the work is cut
//   conv_direct_run.cpp        the loops around the inner loops
//   conv_direct_channels.cpp   inner loop: a vector is output channels, pixels are broadcast
//   conv_direct_pixels.cpp     inner loop: a vector is pixels, weights are broadcast
//   conv_direct_rows.cpp       copies input rows into the ring, transposes what the loops made
//
// y[k, o] = bias[k] + sum over taps t and channels c of w[k, t, c] * x[c, o * stride - pad + t *
// dilation]
//
// Output rows are computed segment by segment (a row, or a part of a wide one). Input rows that a
// segment needs are copied into a *ring* of padded rows, in the order that the inner loop wants;
// each is copied once and serves every output row above its slot, and what the next rows need is
// fetched meanwhile (ahead.hpp). Where the input is in that order already and needs no padding, or
// the filter has one tap, it is read in place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/kernel.hpp"

namespace braze::cpu {

/// Which index of the output runs along a vector.
enum class ConvVector : std::uint8_t { kAuto, kChannels, kPixels };

/// The source of one filter tap (or of several whose inputs are contiguous) for pixel 0 of a row
/// segment, and its number in packing order.
struct ConvTap {
  const float* x = nullptr;
  std::int64_t index = 0;
};

/// Arguments of an inner loop. It sums, for every tap, `run` products per output:
///   channels: out[p * out_step + k] = sum over r < run of x[p * x_step + r] * w[r][k], vectors
///   along k pixels:   out[k * out_step + p] = sum over r < run of x[r * x_step + p] * w[r][k],
///   vectors along p
/// w is tap-major in both. `edge` is the number of elements stored of the last vector.
struct ConvTile {
  const ConvTap* taps = nullptr;  // ended by one whose x is null
  std::int64_t run = 0;
  std::int64_t x_offset = 0;  // added to every tap's x
  std::int64_t x_step = 0;
  const float* w = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  std::int64_t out_step = 0;
  std::int64_t edge = 0;
  Clamp clamp;
};
using ConvTileFn = void (*)(const ConvTile&);

inline constexpr std::int64_t kConvLine = 16;  // floats of a cache line
/// Multiple of a line, and an odd one, so that consecutive planes do not fall into the same few
/// sets of the cache.
constexpr std::int64_t conv_spread(std::int64_t floats) {
  return ((floats + kConvLine - 1) / kConvLine | 1) * kConvLine;
}

inline constexpr int kConvMaxVectors = 6;
inline constexpr int kConvMaxBroadcasts = 14;

/// Inner loops of one instruction set, [vectors][broadcasts]; null where the accumulators do not
/// fit the registers.
using ConvTileTable =
    std::array<std::array<ConvTileFn, kConvMaxBroadcasts + 1>, kConvMaxVectors + 1>;
struct ConvTiles {
  int lanes = 1;
  ConvTileTable whole{};  // vectors of `lanes`
  ConvTileTable half{};   // channels only: one or three vectors of lanes / 2, for the last few
                          // channels; empty where that saves nothing
  /// Most broadcasts beside `vectors` vectors.
  [[nodiscard]] int broadcasts(int vectors) const;
};
const ConvTiles& conv_channel_tiles();  // of the instruction set in force
const ConvTiles& conv_pixel_tiles();

/// A run of elements to be copied in another order: `pixels` of `channels`, strides in elements.
struct ConvCopy {
  const float* from = nullptr;
  std::int64_t from_pixel = 0, from_channel = 0;
  float* to = nullptr;
  std::int64_t to_pixel = 0, to_channel = 0;
  std::int64_t pixels = 0, channels = 0;
};
using ConvCopyFn = void (*)(const ConvCopy&);
ConvCopyFn conv_copy();  // of the instruction set in force

/// One spatial axis. The input index of output o and tap t is o * stride - pad + t * dilation.
struct ConvAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

/// Output channels [first, first + count) of a group: `vectors` vectors of channels, or `count`
/// broadcast weights.
struct ConvBlock {
  std::int64_t first = 0, count = 0;
  int vectors = 0;
  bool half = false;
  std::int64_t width = 0;  // packed floats per (tap, channel), >= count
  std::int64_t offset =
      0;  // of its weights in a group's packed image; its bias follows all weights, at bias_offset
  std::int64_t bias_offset = 0;
};

/// Blocks of all `outputs` channels along vectors, `vectors` of them side by side.
std::vector<ConvBlock> conv_channel_blocks(std::int64_t outputs, int vectors,
                                           const ConvTiles& tiles);

/// Where taps point, and the order there.
enum class ConvSource : std::uint8_t {
  kInPlace,      // x itself: channels-last, or planes, with a tap for each channel
  kInterleaved,  // ring rows [column][channel]
  kPlanes,       // ring rows [channel][phase][column of the phase]
};

/// Everything about a convolution but its pointers. Strides are in elements; channels are counted
/// within a group.
struct ConvGeometry {
  std::int64_t batch = 1, groups = 1, channels = 1, outputs = 1;
  ConvAxis d, h, w;
  Image x, y;

  ConvVector vector = ConvVector::kChannels;
  int vectors = 2;  // most vectors of an inner loop
  ConvSource source = ConvSource::kInPlace;
  bool direct = false;       // inner loops write y itself
  std::int64_t segment = 1;  // output columns computed together
  std::int64_t rows = 1;     // output rows computed together

  // The ring holds d.kernel times `slots` rows of `slot_floats`. Its rows and columns are counted
  // from the padding's begin: row v is input row v * h_scale - pad, tap t of output row o is row
  // o * h_stride + t * dilation; columns likewise.
  std::int64_t slots = 0, slot_floats = 0;
  std::int64_t h_scale = 1, h_stride = 1;
  std::int64_t w_scale = 1, w_stride = 1;
  std::int64_t columns = 0;
  // kPlanes: column j is element j / phase_stride of phase j % phase_stride, in a plane of its own.
  std::int64_t phase_stride = 1;
  std::vector<std::int64_t> phases;
  std::int64_t plane = 0;
  std::int64_t lead = 0;  // floats before column 0 in it: the image begins at a cache line

  std::vector<std::int64_t> tap_offsets;  // of a row's taps in packing order, from its first column
  bool channel_major = false;  // packing order within a row: channel, kw (else kw, channel)
  std::int64_t tap_run = 0, x_step = 0;  // of ConvTile
  std::int64_t pixel_step = 0;           // x_offset of output column o is o * pixel_step

  std::vector<ConvBlock> blocks;
  std::int64_t group_floats = 0;   // packed weights and biases of a group
  std::int64_t buffer_floats = 0;  // a row segment of one block, where !direct
  std::int64_t buffer_step = 0;    // pixels: from one channel to the next in it

  [[nodiscard]] std::int64_t taps() const { return d.kernel * h.kernel * w.kernel; }
  /// Most ConvTaps of an output row.
  [[nodiscard]] std::int64_t row_taps() const {
    return d.kernel * h.kernel * static_cast<std::int64_t>(tap_offsets.size());
  }
  [[nodiscard]] std::int64_t packed_floats() const { return group_floats * groups; }
};

/// Wishes of a candidate; 0 and kAuto leave the choice to the model.
struct ConvChoice {
  ConvVector vector = ConvVector::kAuto;
  std::int64_t rows = 0;
  std::int64_t vectors = 0;  // side by side in an inner loop, up to kConvMaxVectors
};

ConvGeometry conv_geometry(const Plan& plan, const KernelPlan& kernel, const ConvChoice& choice);

/// Parts to cut the work into: four a worker even out their pace; one below 400 kFLOP is not worth
/// handing out.
std::int64_t conv_parts(const ConvGeometry& geometry, std::int64_t workers);

/// Packs weights [K, C/group, taps] and biases (null: zeros) of all groups to packed_floats()
/// floats.
void conv_pack(const ConvGeometry& geometry, const float* weights, const float* bias,
               float* packed);

}  // namespace braze::cpu
