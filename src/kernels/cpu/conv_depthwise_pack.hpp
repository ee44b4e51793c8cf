// Depthwise convolution: channels cut into vectors, weights packed for them, and the loop that
// suits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/cpu/conv_depthwise_rows.hpp"

namespace braze::cpu {

/// Vectors [first, first + whole + half) cover channels [channel, channel + channels).
struct DepthwiseChunk {
  int first = 0, whole = 0, half = 0;
  std::int64_t channel = 0, channels = 0;
};

/// The channels of an output, cut into vectors and those into chunks whose weights stay in L1. The
/// last vector of a kind overlaps the one before it rather than reach past the channels; half
/// vectors serve a short rest.
struct DepthwiseVectors {
  std::int64_t multiplier = 1;
  int partial = 0;                     // lanes of the last vector, where it cannot overlap
  std::vector<std::int32_t> channels;  // first output channel of each
  std::vector<std::int64_t> widths;    // lanes of each
  std::vector<std::int32_t> sources;   // input channel of each lane
  std::vector<DepthwiseChunk> chunks;

  DepthwiseVectors() = default;
  DepthwiseVectors(std::int64_t channels, std::int64_t multiplier);
  /// The vectors of a chunk, for a loop.
  void select(const DepthwiseChunk& chunk, DepthwiseRow& row) const;
};

/// Packed weights of all vectors.
struct DepthwiseWeights {
  std::int64_t taps = 0;
  std::vector<float> packed;
  std::vector<std::int64_t> offsets;  // of each vector

  DepthwiseWeights() = default;
  /// `bias` may be null. weight(k, t) is that of channel k and tap t.
  DepthwiseWeights(const DepthwiseVectors& vectors, std::int64_t channels, std::int64_t taps,
                   const float* bias,
                   const std::function<float(std::int64_t, std::int64_t)>& weight);
  void select(const DepthwiseChunk& chunk, DepthwiseRow& row) const;
};

/// The loop with the number of pixels at a time that costs least; null where there is none for
/// choice.rows. choice.pixels, expand and partial are filled here.
DepthwiseRowFn best_depthwise_row(DepthwiseChoice choice, const DepthwiseVectors& vectors,
                                  std::int64_t out_width);

}  // namespace braze::cpu
