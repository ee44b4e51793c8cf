#include "kernels/cpu/conv_depthwise_pack.hpp"

#include <algorithm>
#include <limits>

#include "graph/window.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t kChunkChannels = 160;  // at most

}  // namespace

DepthwiseVectors::DepthwiseVectors(std::int64_t count, std::int64_t times) : multiplier(times) {
  const DepthwiseIsa isa = depthwise_isa();
  const std::int64_t half = isa.halves ? isa.lanes / 2 : isa.lanes;
  const auto add = [&](std::int64_t channel, std::int64_t width) {
    channels.push_back(static_cast<std::int32_t>(channel));
    widths.push_back(width);
    for (std::int64_t lane = 0; lane < isa.lanes; ++lane) {
      sources.push_back(
          static_cast<std::int32_t>(std::min(channel + lane, count - 1) / multiplier));
    }
  };
  if (multiplier > 1 || count < half) {
    for (std::int64_t channel = 0; channel < count; channel += isa.lanes) add(channel, isa.lanes);
    partial = static_cast<int>(count % isa.lanes);
    chunks = {{0, multiplier > 1 ? static_cast<int>(channels.size()) : 0, 0, 0, count}};
    return;
  }
  const bool narrow = count < isa.lanes;
  const std::int64_t lanes = narrow ? half : isa.lanes;
  const std::int64_t in_chunk =
      ceil_div(ceil_div(count, ceil_div(count, kChunkChannels)), lanes) * lanes;
  for (std::int64_t begin = 0; begin < count; begin += in_chunk) {
    const std::int64_t end = std::min(begin + in_chunk, count);
    DepthwiseChunk chunk;
    chunk.first = static_cast<int>(channels.size());
    for (std::int64_t channel = begin; channel < end; channel += lanes) {
      const bool rest = channel + lanes > count;
      const bool short_rest = narrow || (rest && isa.halves && channel + half >= count);
      const std::int64_t width = short_rest ? half : lanes;
      add(rest ? count - width : channel, width);
      ++(short_rest ? chunk.half : chunk.whole);
    }
    chunk.channel = channels[static_cast<std::size_t>(chunk.first)];
    chunk.channels = channels.back() + widths.back() - chunk.channel;
    chunks.push_back(chunk);
  }
}

void DepthwiseVectors::select(const DepthwiseChunk& chunk, DepthwiseRow& row) const {
  row.channels = channels.data() + chunk.first;
  row.sources = sources.data();
  row.whole = chunk.whole;
  row.half = chunk.half;
  row.partial = partial;
}

DepthwiseWeights::DepthwiseWeights(const DepthwiseVectors& vectors, std::int64_t channels,
                                   std::int64_t tap_count, const float* bias,
                                   const std::function<float(std::int64_t, std::int64_t)>& weight)
    : taps(tap_count) {
  for (std::size_t v = 0; v < vectors.channels.size(); ++v) {
    offsets.push_back(static_cast<std::int64_t>(packed.size()));
    for (std::int64_t slot = 0; slot <= taps; ++slot) {
      for (std::int64_t lane = 0; lane < vectors.widths[v]; ++lane) {
        const std::int64_t k = vectors.channels[v] + lane;
        if (k >= channels || (slot == 0 && bias == nullptr)) {
          packed.push_back(0);
        } else {
          packed.push_back(slot == 0 ? bias[k] : weight(k, slot - 1));
        }
      }
    }
  }
}

void DepthwiseWeights::select(const DepthwiseChunk& chunk, DepthwiseRow& row) const {
  row.weights = packed.data() + offsets[static_cast<std::size_t>(chunk.first)];
  row.taps = taps;
}

// Costs are overlap against the loads that a block begins with.
DepthwiseRowFn best_depthwise_row(DepthwiseChoice choice, const DepthwiseVectors& vectors,
                                  std::int64_t out_width) {
  choice.expand = vectors.multiplier > 1;
  choice.partial = vectors.partial > 0;
  DepthwiseRowFn best = nullptr;
  std::int64_t best_cost = std::numeric_limits<std::int64_t>::max();
  for (int pixels = 1; pixels <= std::min<std::int64_t>(8, out_width); ++pixels) {
    choice.pixels = pixels;
    const DepthwiseRowFn loop = depthwise_row(choice);
    const std::int64_t cost = ceil_div(out_width, pixels) * (pixels + 1);
    if (loop == nullptr || cost >= best_cost) continue;
    best_cost = cost;
    best = loop;
  }
  return best;
}

}  // namespace braze::cpu
