// How a Winograd convolution is cut: strips, segments, blocks of output channels, buffers.
#include <algorithm>

#include "kernels/cpu/conv_winograd.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

/// An image with one channel is in channels-last order too.
Image normalised(Image image) {
  if (image.c == 1) image.stride_c = 1;
  return image;
}

void read_shapes(WinogradGeometry& g, const Plan& plan, const KernelPlan& kernel) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  const Window& window = node.as<Conv>()->window;
  g.x = normalised(image_of(plan, node.input(0)));
  g.y = normalised(image_of(plan, stored_output(plan.graph, kernel.group)));
  g.batch = g.x.n;
  g.channels = g.x.c;
  g.outputs = g.y.c;
  g.h = {.in = g.x.h, .out = g.y.h, .kernel = 3, .pad = window.pads_begin[0]};
  g.w = {.in = g.x.w, .out = g.y.w, .kernel = 3, .pad = window.pads_begin[1]};
  g.tile_rows = ceil_div(g.h.out, g.m);
  g.tile_columns = ceil_div(g.w.out, g.m);
  g.input_in_order = g.x.stride_c == 1;
  g.output_in_order = g.y.stride_c == 1;
}

/// Tiles of a segment: V, M and a block of the filter share the second-level cache; times hardly
/// depend on the number between one and four times the broadcasts of an inner loop.
std::int64_t cached_tiles(const WinogradGeometry& g, const Device& device) {
  const auto bytes = static_cast<std::int64_t>(device.onchip_bytes) / 8;
  return std::clamp<std::int64_t>(bytes / (4 * g.points() * g.padded), kConvMaxBroadcasts,
                                  2 * kConvMaxBroadcasts);
}

/// Rows that are copied from or to model layout are cut into strips that begin at a cache line, of
/// about 28 tiles; a segment is whole rows of a strip.
void cut_strips(WinogradGeometry& g) {
  constexpr std::int64_t kTiles = 2 * kConvMaxBroadcasts;
  const std::int64_t aligned = kConvLine / g.m;
  const std::int64_t strips = std::max<std::int64_t>(1, (g.tile_columns + kTiles / 2) / kTiles);
  g.strip = ceil_div(ceil_div(g.tile_columns, strips), aligned) * aligned;
  g.segment = std::max<std::int64_t>(1, g.segment / g.strip) * g.strip;
}

}  // namespace

WinogradGeometry winograd_geometry(const Plan& plan, const KernelPlan& kernel,
                                   const WinogradChoice& choice) {
  WinogradGeometry g;
  g.m = choice.m;
  g.t = choice.m + 2;
  read_shapes(g, plan, kernel);
  g.padded = ceil_div(g.channels, kConvLine) * kConvLine;
  if (g.padded % 256 == 0) g.padded = conv_spread(g.padded);
  g.segment = choice.segment > 0 ? choice.segment : cached_tiles(g, plan.device);
  g.strip = g.tile_columns;
  if (!g.input_in_order || !g.output_in_order) cut_strips(g);

  g.strip = std::min(g.strip, g.tile_columns);
  g.segment = std::min(g.segment, g.tiles());

  g.input_step = conv_spread(g.segment * g.padded);
  if (!g.input_in_order) g.slot_floats = conv_spread((g.strip * g.m + 2) * g.padded);
  const ConvTiles& tiles = conv_channel_tiles();
  g.blocks = conv_channel_blocks(g.outputs, 2, tiles);
  std::int64_t width = 0;
  for (ConvBlock& block : g.blocks) {
    block.offset = g.packed_floats;
    g.packed_floats += ceil_div(g.points() * g.channels * block.width, kConvLine) * kConvLine;
    width = std::max(width, block.width);
  }
  for (ConvBlock& block : g.blocks) {
    block.bias_offset = g.packed_floats;
    g.packed_floats += ceil_div(block.width, kConvLine) * kConvLine;
  }
  // Measured: gains a fifth where images are larger than this, and costs a twentieth below.
  const std::int64_t images =
      4 * g.batch * (g.h.in * g.w.in * g.channels + g.h.out * g.w.out * g.outputs);
  g.ahead = static_cast<double>(images) > 5 * plan.device.onchip_bytes;
  g.output_step = conv_spread(g.segment * width);
  if (!g.output_in_order) g.buffer_row = conv_spread(g.strip * g.m * width);
  return g;
}

void winograd_pack(const WinogradGeometry& g, const float* weights, const float* bias,
                   float* packed) {
  const WinogradMatrices& matrices = winograd_matrices(g.m);
  const std::int64_t points = g.points();
  double u[kWinogradMaxPoints];
  for (const ConvBlock& block : g.blocks) {
    float* to = packed + block.offset;
    for (std::int64_t i = 0; i < block.width; ++i) {
      const bool real = i < block.count;
      const std::int64_t k = block.first + i;
      packed[block.bias_offset + i] = real && bias != nullptr ? bias[k] : 0.0F;
      for (std::int64_t c = 0; c < g.channels; ++c) {
        if (real) winograd_filter(matrices, weights + (k * g.channels + c) * 9, u);
        for (std::int64_t p = 0; p < points; ++p)
          to[(p * g.channels + c) * block.width + i] = real ? static_cast<float>(u[p]) : 0.0F;
      }
    }
  }
}

}  // namespace braze::cpu
