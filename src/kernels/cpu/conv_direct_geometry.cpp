// How a direct convolution is cut: which index is the vector, segments, rows, blocks of output
// channels, the ring.
#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "graph/window.hpp"
#include "kernels/cpu/conv_direct.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t kLine = kConvLine;

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return ceil_div(n, multiple) * multiple;
}

std::int64_t spread(std::int64_t floats) { return conv_spread(floats); }

/// An image with one channel is in channels-last order too.
Image normalised(Image image) {
  if (image.c == 1) image.stride_c = 1;
  return image;
}

void read_shapes(ConvGeometry& g, const Plan& plan, const KernelPlan& kernel) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  const Conv& conv = *node.as<Conv>();
  g.x = normalised(image_of(plan, node.input(0)));
  g.y = normalised(image_of(plan, stored_output(plan.graph, kernel.group)));
  g.batch = g.x.n;
  g.groups = conv.group;
  g.channels = g.x.c / conv.group;
  g.outputs = g.y.c / conv.group;

  const Window& window = conv.window;
  ConvAxis* axes[] = {&g.w, &g.h, &g.d};
  const std::int64_t in[] = {g.x.w, g.x.h, g.x.d};
  const std::int64_t out[] = {g.y.w, g.y.h, g.y.d};
  const std::size_t rank = window.kernel.size();
  for (std::size_t i = 0; i < 3; ++i) {
    axes[i]->in = in[i];
    axes[i]->out = out[i];
    if (i >= rank) continue;
    const std::size_t from = rank - 1 - i;
    axes[i]->kernel = window.kernel[from];
    axes[i]->stride = window.strides[from];
    axes[i]->dilation = window.dilations[from];
    axes[i]->pad = window.pads_begin[from];
  }
}

bool is_identity(const ConvAxis& axis) {
  return axis.kernel == 1 && axis.stride == 1 && axis.pad == 0 && axis.in == axis.out;
}

/// A filter of one tap at stride 1 sees a line of pixels.
void flatten_pixels(ConvGeometry& g) {
  if (!is_identity(g.d) || !is_identity(g.h) || !is_identity(g.w)) return;
  g.w.in = g.w.out = g.d.in * g.h.in * g.w.in;
  g.d = g.h = ConvAxis{};
}

bool is_linear(const ConvGeometry& g) { return g.taps() == 1 && g.h.out == 1 && g.d.out == 1; }

/// True if every tap of every output column lies on the input.
bool inside(const ConvAxis& axis) {
  return axis.pad <= 0 &&
         (axis.out - 1) * axis.stride - axis.pad + (axis.kernel - 1) * axis.dilation < axis.in;
}

/// Vector operations for a row of outputs, in units of one multiply-add of a vector. Measured on
/// AVX-512 and AVX2: moving a vector costs about 1.5 of them, transposing it 4, a tap of a tile 4
/// and a tile 40.
double row_cost(const ConvGeometry& g, ConvVector vector, int lanes) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double width = lanes;
  const bool channels = vector == ConvVector::kChannels;
  const double vectors =
      channels ? number(g.w.out) * std::max(1.0, number(ceil_div(2 * g.outputs, lanes)) / 2)
               : number(ceil_div(g.w.out, lanes)) * number(g.outputs);
  const double tiles = vectors / 28;
  const double sums = vectors * number(g.taps() * g.channels) + tiles * (4 * number(g.taps()) + 40);

  const bool in_order =
      channels ? g.x.stride_c == 1 : g.x.stride_w == 1 && (g.w.stride == 1 || g.w.stride == 2);
  const bool out_order = channels ? g.y.stride_c == 1 : g.y.stride_w == 1;
  const double read = number(g.w.out * (g.w.kernel == 1 ? 1 : g.w.stride) *
                             (g.h.kernel == 1 ? 1 : g.h.stride) * g.d.kernel * g.channels) /
                      width;
  const double written = number(g.w.out * g.outputs) / width;
  const bool in_place =
      channels && inside(g.w) && (in_order || (g.x.stride_w == 1 && is_linear(g)));
  const double in_cost = in_place ? 0.0 : in_order ? 1.5 : 4.0;
  return sums + read * in_cost + written * (out_order ? 0.0 : 4.0);
}

ConvVector choose_vector(const ConvGeometry& g, int lanes) {
  return row_cost(g, ConvVector::kPixels, lanes) < row_cost(g, ConvVector::kChannels, lanes)
             ? ConvVector::kPixels
             : ConvVector::kChannels;
}

/// Vectors of channels side by side, with the fewest loads for each multiply-add: a step of a tile
/// loads them and a broadcast for each pixel. With 32 registers that is 3 x 9 (12 loads for 27),
/// with 16 it is 3 x 4. Measured on Zen 4: up to 4 % less than 2 x 14 and 2 x 6.
int fewest_loads(const ConvTiles& tiles) {
  int best = 1;
  double least = 2;
  for (int vectors = 1; vectors <= kConvMaxVectors; ++vectors) {
    const int pixels = tiles.broadcasts(vectors);
    if (pixels == 0) continue;
    const double loads = 1.0 / vectors + 1.0 / pixels;
    if (loads < least) best = vectors, least = loads;
  }
  return best;
}

/// While a tile is stored, the sums of the next one begin, if the tile is small: this counts where
/// sums are short. Loads keep up with one vector only where there are 32 registers to work on.
int choose_vectors(const ConvGeometry& g, const ConvTiles& tiles) {
  const bool short_sums = g.taps() * g.channels <= 64;
  if (short_sums && tiles.broadcasts(2) == kConvMaxBroadcasts) return 1;
  return g.vector == ConvVector::kPixels ? kConvMaxVectors : fewest_loads(tiles);
}

/// Where and in what order the taps find the input.
void choose_source(ConvGeometry& g) {
  const bool channels = g.vector == ConvVector::kChannels;
  g.direct = channels ? g.y.stride_c == 1 : g.y.stride_w == 1;
  if (!channels) {
    g.source = ConvSource::kPlanes;
  } else if (g.x.stride_c == 1 && g.w.pad == 0 && inside(g.w)) {
    g.source = ConvSource::kInPlace;
  } else if (g.x.stride_w == 1 && is_linear(g) && inside(g.w)) {
    g.source = ConvSource::kInPlace;  // a tap for each channel
  } else if (g.x.stride_w == 1 && g.channels < 4 && g.w.kernel > 1 && g.w.dilation == 1) {
    g.source = ConvSource::kPlanes;  // copied as they are; few channels are slow to interleave
    g.channel_major = true;
  } else {
    g.source = ConvSource::kInterleaved;
  }

  // A single tap skips the rows and columns between.
  g.h_scale = g.h.kernel == 1 ? g.h.stride : 1;
  g.h_stride = g.h.kernel == 1 ? 1 : g.h.stride;
  const bool skip_columns = g.w.kernel == 1 && (!channels || g.x.stride_c == 1);
  g.w_scale = skip_columns ? g.w.stride : 1;
  g.w_stride = skip_columns ? 1 : g.w.stride;

  // Pixels of a vector are neighbours: those of a stride are pulled apart.
  g.phase_stride = channels ? 1 : g.w_stride;
  std::set<std::int64_t> phases;
  for (std::int64_t t = 0; t < g.w.kernel; ++t) phases.insert(t * g.w.dilation % g.phase_stride);
  g.phases.assign(phases.begin(), phases.end());
}

/// Sizes of a ring row and of the ring for the current segment and rows.
void size_ring(ConvGeometry& g, int lanes) {
  const std::int64_t reach = (g.w.kernel - 1) * g.w.dilation;
  g.columns = (g.segment - 1) * g.w_stride + reach + 1;
  g.slots = (g.rows - 1) * g.h_stride + (g.h.kernel - 1) * g.h.dilation + 1;
  const std::int64_t read = g.vector == ConvVector::kPixels
                                ? round_up(g.segment, lanes) + reach / g.phase_stride
                                : g.columns;
  g.lead = round_up(std::max<std::int64_t>(g.w.pad, 0), kLine) - std::max<std::int64_t>(g.w.pad, 0);
  g.plane = spread(g.lead + read);
  switch (g.source) {
    case ConvSource::kInPlace:
      g.slots = g.slot_floats = 0;
      break;
    case ConvSource::kInterleaved:
      g.slot_floats = spread(g.columns * g.channels);
      break;
    case ConvSource::kPlanes:
      g.slot_floats = static_cast<std::int64_t>(g.phases.size()) * g.plane * g.channels;
      break;
  }
}

/// How inner loops step through a row. Taps that lie together are one, with a longer run.
void choose_taps(ConvGeometry& g) {
  const std::int64_t kernel = g.w.kernel;
  const std::int64_t dilation = g.w.dilation;
  g.tap_run = g.channels;
  if (g.source == ConvSource::kInPlace && g.x.stride_c != 1) {
    for (std::int64_t c = 0; c < g.channels; ++c) g.tap_offsets.push_back(c * g.x.stride_c);
    g.tap_run = 1;
    g.x_step = g.pixel_step = g.w.stride;
  } else if (g.source != ConvSource::kPlanes) {
    const std::int64_t pixel = g.source == ConvSource::kInPlace ? g.x.stride_w : g.channels;
    g.x_step = g.pixel_step = pixel * (g.source == ConvSource::kInPlace ? g.w.stride : g.w_stride);
    for (std::int64_t t = 0; t < kernel; ++t) g.tap_offsets.push_back(t * dilation * pixel);
    if (dilation == 1 && pixel == g.channels) {
      g.tap_offsets.resize(1);
      g.tap_run = kernel * g.channels;
    }
  } else if (g.vector == ConvVector::kChannels) {
    for (std::int64_t c = 0; c < g.channels; ++c) g.tap_offsets.push_back(c * g.plane + g.lead);
    g.tap_run = kernel;
    g.x_step = g.pixel_step = g.w_stride;
  } else {
    g.pixel_step = 1;
    g.x_step = static_cast<std::int64_t>(g.phases.size()) * g.plane;
    for (std::int64_t t = 0; t < kernel; ++t) {
      const auto phase = std::find(g.phases.begin(), g.phases.end(), t * dilation % g.phase_stride);
      g.tap_offsets.push_back((phase - g.phases.begin()) * g.plane + g.lead +
                              t * dilation / g.phase_stride);
    }
    if (g.channels == 1 && g.phases.size() == 1 && kernel > 1 && dilation % g.phase_stride == 0) {
      g.tap_offsets.resize(1);
      g.tap_run = kernel;
      g.x_step = dilation / g.phase_stride;
    }
  }
}

void choose_segment(ConvGeometry& g, const Device& device, int lanes, std::int64_t wish_rows) {
  const std::int64_t budget = static_cast<std::int64_t>(device.onchip_bytes) / 2;
  const auto ring_bytes = [&] {
    size_ring(g, lanes);
    return 4 * g.d.kernel * g.slots * g.slot_floats;
  };
  const std::int64_t unit = g.vector == ConvVector::kChannels ? kConvMaxBroadcasts : 2 * lanes;
  g.rows = 1;
  g.segment = g.w.out;
  if (is_linear(g)) {
    // The segment is read again for every block of channels; and every worker gets some.
    const std::int64_t cached = budget / 4 / (4 * g.channels);
    const std::int64_t shared = ceil_div(g.w.out, conv_parts(g, device.units));
    g.segment = std::min({g.w.out, std::max(2 * unit, cached), std::max(2 * unit, shared)});
  }
  while (g.segment > 2 * unit && ring_bytes() > budget) g.segment = ceil_div(g.segment, 2);
  g.segment = std::min(g.w.out, round_up(ceil_div(g.w.out, ceil_div(g.w.out, g.segment)), unit));

  // Enough pixels that reading a block's weights again for each band costs little.
  const std::int64_t most =
      wish_rows > 0 ? wish_rows : std::max<std::int64_t>(2, ceil_div(128, g.segment));
  g.rows = std::min(g.h.out, most);
  while (g.rows > 1 && ring_bytes() > budget) g.rows = ceil_div(g.rows, 2);
  g.rows = ceil_div(g.h.out, ceil_div(g.h.out, g.rows));
  size_ring(g, lanes);
}

/// Appends a block that begins where the last one ends.
void add_block(std::vector<ConvBlock>& blocks, std::int64_t outputs, ConvBlock block) {
  block.first = blocks.empty() ? 0 : blocks.back().first + blocks.back().count;
  block.count = std::min(block.width, outputs - block.first);
  blocks.push_back(block);
}

void cut_channels(ConvGeometry& g, const ConvTiles& tiles) {
  const std::int64_t lanes = tiles.lanes;
  if (g.vector == ConvVector::kChannels) {
    g.blocks = conv_channel_blocks(g.outputs, g.vectors, tiles);
  } else {
    const int most = tiles.broadcasts(g.segment > lanes ? std::min(g.vectors, 2) : 1);
    const std::int64_t count = ceil_div(g.outputs, most);
    for (std::int64_t i = 0; i < count; ++i) {
      add_block(g.blocks, g.outputs,
                {.width = g.outputs / count + (i < g.outputs % count ? 1 : 0)});
    }
  }
  g.buffer_step = spread(round_up(g.segment, lanes));
  for (ConvBlock& block : g.blocks) {
    block.offset = g.group_floats;
    g.group_floats += round_up(g.taps() * g.channels * block.width, kLine);
    const std::int64_t row = g.vector == ConvVector::kChannels ? g.segment : g.buffer_step;
    g.buffer_floats = std::max(g.buffer_floats, block.width * row);
  }
  for (ConvBlock& block : g.blocks) {
    block.bias_offset = g.group_floats;
    g.group_floats += round_up(block.width, kLine);
  }
  if (g.direct) g.buffer_floats = 0;
}

}  // namespace

std::vector<ConvBlock> conv_channel_blocks(std::int64_t outputs, int vectors,
                                           const ConvTiles& tiles) {
  std::vector<ConvBlock> blocks;
  const std::int64_t lanes = tiles.lanes;
  const std::int64_t rest = outputs % lanes;
  const bool half = tiles.half[1][1] != nullptr && rest > 0 && rest <= lanes / 2;
  // One vector of lanes / 2 alone would wait for its loads: three of them.
  const int halves = !half ? 0 : outputs > lanes ? 3 : 1;
  std::int64_t left = ceil_div(outputs - halves * lanes / 2, lanes);
  while (left > 0) {
    const auto taken = static_cast<int>(ceil_div(left, ceil_div(left, vectors)));  // even shares
    add_block(blocks, outputs, {.vectors = taken, .width = taken * lanes});
    left -= taken;
  }
  if (halves > 0)
    add_block(blocks, outputs, {.vectors = halves, .half = true, .width = halves * lanes / 2});
  return blocks;
}

ConvGeometry conv_geometry(const Plan& plan, const KernelPlan& kernel, const ConvChoice& choice) {
  ConvGeometry g;
  read_shapes(g, plan, kernel);
  flatten_pixels(g);
  const int lanes = conv_channel_tiles().lanes;
  g.vector = choice.vector == ConvVector::kAuto ? choose_vector(g, lanes) : choice.vector;
  const ConvTiles& tiles =
      g.vector == ConvVector::kChannels ? conv_channel_tiles() : conv_pixel_tiles();
  g.vectors = choice.vectors > 0 ? static_cast<int>(choice.vectors) : choose_vectors(g, tiles);
  while (tiles.broadcasts(g.vectors) == 0) --g.vectors;
  choose_source(g);
  choose_segment(g, plan.device, lanes, choice.rows);
  choose_taps(g);
  cut_channels(g, tiles);
  return g;
}

std::int64_t conv_parts(const ConvGeometry& g, std::int64_t workers) {
  if (workers <= 1) return 1;
  const double flops = 2.0 * static_cast<double>(g.taps() * g.channels * g.outputs) *
                       static_cast<double>(g.batch * g.groups) *
                       static_cast<double>(g.d.out * g.h.out * g.w.out);
  const double parts = std::min(4.0 * static_cast<double>(workers), flops / 4e5);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(parts));
}

void conv_pack(const ConvGeometry& g, const float* weights, const float* bias, float* packed) {
  const std::int64_t taps = g.taps();
  for (std::int64_t group = 0; group < g.groups; ++group) {
    float* base = packed + group * g.group_floats;
    for (const ConvBlock& block : g.blocks) {
      const std::int64_t first = group * g.outputs + block.first;
      for (std::int64_t i = 0; i < block.width; ++i) {
        const bool real = i < block.count;
        base[block.bias_offset + i] = real && bias != nullptr ? bias[first + i] : 0.0F;
        float* to = base + block.offset + i;
        const float* from = weights + (first + i) * g.channels * taps;
        const auto put = [&](std::int64_t tap, std::int64_t c) {
          *to = real ? from[c * taps + tap] : 0.0F;
          to += block.width;
        };
        for (std::int64_t row = 0; row < taps; row += g.w.kernel) {
          const std::int64_t outer = g.channel_major ? g.channels : g.w.kernel;
          const std::int64_t inner = g.channel_major ? g.w.kernel : g.channels;
          for (std::int64_t a = 0; a < outer; ++a) {
            for (std::int64_t b = 0; b < inner; ++b) {
              g.channel_major ? put(row + b, a) : put(row + a, b);
            }
          }
        }
      }
    }
  }
}

}  // namespace braze::cpu
