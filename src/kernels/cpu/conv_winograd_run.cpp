#include "kernels/cpu/conv_winograd_run.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace braze::cpu {

struct ConvWinogradKernel::Run {
  const KernelArguments& arguments;
  const float* x;
  float* y;
};

struct ConvWinogradKernel::Scratch {
  float* zeros;         // a pixel off the image; also the bias of the products
  float* v;             // transformed inputs of a segment
  float* m;             // products of a segment and a block
  float* buffer;        // outputs of a row of tiles, where they lie otherwise than y
  float* ring;          // inputs of a row of tiles, likewise
  const float** pixel;  // where they are
  // Rows below `filled` that image n and the strip need are in the ring.
  std::int64_t n = -1, strip = -1, filled = 0;
};

namespace {

std::int64_t whole_lines(std::int64_t floats) { return ceil_div(floats, kConvLine) * kConvLine; }

/// Pixels that a row of tiles reads, along w.
std::int64_t pixels_read(const WinogradGeometry& g) {
  return std::min(g.segment, g.strip) * g.m + 2;
}

std::int64_t widest(const WinogradGeometry& g) {
  std::int64_t width = kConvLine;
  for (const ConvBlock& block : g.blocks) width = std::max(width, block.width);
  return width;
}

}  // namespace

ConvWinogradKernel::ConvWinogradKernel(const Plan& plan, const KernelPlan& kernel,
                                       const WinogradChoice& choice)
    : g_(winograd_geometry(plan, kernel, choice)),
      transforms_(winograd_transforms(choice.m)),
      tiles_(&conv_channel_tiles()),
      copy_(conv_copy()),
      epilogue_(plan, kernel, kernel.group.members.front()) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  x_ = operand_of(plan, kernel.group, node.input(0));
  output_ = output_index(kernel.group, stored_output(plan.graph, kernel.group));
  clamp_ = epilogue_.take_leading_clamp();
  const Operand weights = operand_of(plan, kernel.group, node.input(1));
  const Operand bias = operand_of(plan, kernel.group, node.input(2));
  packed_ = Tensor::make(DType::kFloat32, {g_.packed_floats});
  winograd_pack(g_, weights.constant.as<float>(),
                bias.present() ? bias.constant.as<float>() : nullptr, packed_.as<float>());
}

std::size_t ConvWinogradKernel::scratch_floats() const {
  // Vectors of channels may read past the last one of a pixel or block: a line behind each buffer.
  const std::int64_t pointers =
      g_.t * pixels_read(g_) * static_cast<std::int64_t>(sizeof(const float*)) / 4;
  return static_cast<std::size_t>(
      std::max(g_.padded, widest(g_)) + g_.points() * (g_.input_step + g_.output_step) +
      g_.m * g_.buffer_row + g_.t * g_.slot_floats + whole_lines(pointers) + 2 * kConvLine);
}

std::size_t ConvWinogradKernel::workspace_bytes(std::size_t threads) const {
  return threads * scratch_floats() * sizeof(float);
}

ConvWinogradKernel::Scratch ConvWinogradKernel::scratch_of(void* workspace,
                                                           std::size_t worker) const {
  float* next = static_cast<float*>(workspace) + worker * scratch_floats();
  const auto take = [&next](std::int64_t floats) {
    float* mine = next;
    next += floats;
    return mine;
  };
  Scratch scratch{};
  scratch.zeros = take(std::max(g_.padded, widest(g_)));
  scratch.v = take(g_.points() * g_.input_step);
  scratch.m = take(g_.points() * g_.output_step + kConvLine);
  scratch.buffer = take(g_.m * g_.buffer_row);
  scratch.ring = take(g_.t * g_.slot_floats + kConvLine);
  scratch.pixel = reinterpret_cast<const float**>(next);
  scratch.n = scratch.strip = -1;
  return scratch;
}

ConvWinogradKernel::Cut ConvWinogradKernel::cut(std::size_t workers) const {
  Cut cut;
  if (workers <= 1) return cut;
  const double flops = 2.0 * static_cast<double>(g_.points() * g_.tiles()) *
                       static_cast<double>(g_.channels * g_.outputs);
  const auto wanted =
      static_cast<std::int64_t>(std::min(static_cast<double>(workers), std::max(1.0, flops / 4e5)));
  const std::int64_t tiles = g_.tiles();
  const std::int64_t segments = ceil_div(tiles, g_.segment);
  if (segments >= 2 * wanted) {
    cut.tiles = std::min(segments, 4 * wanted);
    cut.unit = g_.segment;
    return cut;
  }
  if (tiles >= wanted * kConvMaxBroadcasts) {
    cut.tiles = wanted;
    return cut;
  }
  // Few tiles: rather than reading the whole filter for each few of them, every worker transforms
  // all of them and multiplies with its own part of the filter.
  cut.blocks = std::min(wanted, static_cast<std::int64_t>(g_.blocks.size()));
  cut.tiles = std::min(ceil_div(wanted, cut.blocks), tiles);
  return cut;
}

ConvWinogradKernel::Row ConvWinogradKernel::row_at(std::int64_t tile, std::int64_t end) const {
  Row row;
  const std::int64_t image = g_.tile_rows * g_.tile_columns;
  row.n = tile / image;
  const std::int64_t in_image = tile % image;
  row.strip = in_image / (g_.tile_rows * g_.strip) * g_.strip;
  const std::int64_t width = std::min(g_.strip, g_.tile_columns - row.strip);
  const std::int64_t in_strip = in_image - row.strip * g_.tile_rows;
  row.row = in_strip / width;
  row.column = row.strip + in_strip % width;
  row.tiles = std::min(width - in_strip % width, end - tile);
  return row;
}

void ConvWinogradKernel::run(const KernelArguments& arguments) const noexcept {
  const Run run{arguments, static_cast<const float*>(x_.data(arguments)),
                static_cast<float*>(arguments.outputs[static_cast<std::size_t>(output_)])};
  const Cut pieces = cut(worker_count(arguments.pool));
  const std::int64_t units = ceil_div(g_.tiles(), pieces.unit);
  const auto blocks = static_cast<std::int64_t>(g_.blocks.size());
  parallel_for(arguments.pool, static_cast<std::size_t>(pieces.tiles * pieces.blocks),
               [&](std::size_t task, std::size_t worker) {
                 const std::int64_t tile = static_cast<std::int64_t>(task) % pieces.tiles;
                 const std::int64_t block = static_cast<std::int64_t>(task) / pieces.tiles;
                 Part part;
                 part.tile_begin = tile * units / pieces.tiles * pieces.unit;
                 part.tile_end =
                     std::min((tile + 1) * units / pieces.tiles * pieces.unit, g_.tiles());
                 part.block_begin = static_cast<std::size_t>(block * blocks / pieces.blocks);
                 part.block_end = static_cast<std::size_t>((block + 1) * blocks / pieces.blocks);
                 Scratch scratch = scratch_of(arguments.workspace, worker);
                 run_part(run, part, scratch);
               });
}

/// Of the segment that begins at a tile: even shares of what is left, or where rows are copied
/// whole rows.
std::int64_t ConvWinogradKernel::segment_end(std::int64_t begin, std::int64_t end) const {
  const std::int64_t left = end - begin;
  if (g_.input_in_order && g_.output_in_order)
    return begin + ceil_div(left, ceil_div(left, g_.segment));
  std::int64_t tile = begin;
  while (tile < end) {
    const Row row = row_at(tile, end);
    if (tile + row.tiles - begin > g_.segment) break;
    tile += row.tiles;
  }
  return tile;
}

void ConvWinogradKernel::run_part(const Run& run, const Part& part,
                                  Scratch& scratch) const noexcept {
  std::memset(scratch.zeros, 0,
              static_cast<std::size_t>(std::max(g_.padded, widest(g_))) * sizeof(float));
  for (std::int64_t begin = part.tile_begin; begin < part.tile_end;) {
    const std::int64_t end = segment_end(begin, part.tile_end);
    for (std::int64_t tile = begin; tile < end;) {
      const Row row = row_at(tile, end);
      transform_input(run, row, scratch.v + (tile - begin) * g_.padded, scratch);
      tile += row.tiles;
    }
    Ahead input;
    if (g_.ahead && end < part.tile_end) input = input_ahead(run, row_at(end, part.tile_end));
    const auto blocks = static_cast<std::int64_t>(part.block_end - part.block_begin);
    input.share = ceil_div(input.count(), blocks * g_.points());
    for (std::size_t b = part.block_begin; b < part.block_end; ++b) {
      const ConvBlock& block = g_.blocks[b];
      Ahead output;
      if (g_.ahead) output = output_ahead(run, row_at(begin, end), block);
      multiply(block, end - begin, scratch, input, output);
      for (std::int64_t tile = begin; tile < end;) {
        const Row row = row_at(tile, end);
        transform_output(run, row, block, scratch.m + (tile - begin) * block.width, scratch);
        if (!epilogue_.empty()) run_epilogue(run, row, block);
        tile += row.tiles;
      }
    }
    begin = end;
  }
}

/// Copies the rows that a row of tiles needs and the ring has not, for the strip's whole width.
void ConvWinogradKernel::fill_ring(const float* x, const Row& row,
                                   Scratch& scratch) const noexcept {
  const std::int64_t first = row.row * g_.m - g_.h.pad;
  if (scratch.n != row.n || scratch.strip != row.strip) {
    scratch.n = row.n;
    scratch.strip = row.strip;
    scratch.filled = first;
  }
  // Ring column j is input column left + j.
  const std::int64_t left = row.strip * g_.m - g_.w.pad;
  const std::int64_t end = std::min(row.strip + g_.strip, g_.tile_columns);
  const std::int64_t right = end * g_.m - g_.w.pad + 2;
  const std::int64_t begin = std::clamp<std::int64_t>(left, 0, g_.w.in);
  ConvCopy copy;
  copy.from_pixel = g_.x.stride_w;
  copy.from_channel = g_.x.stride_c;
  copy.to_pixel = g_.padded;
  copy.to_channel = 1;
  copy.pixels = std::clamp<std::int64_t>(right, 0, g_.w.in) - begin;
  copy.channels = g_.channels;
  scratch.filled = std::max(scratch.filled, first);
  for (; scratch.filled < first + g_.t; ++scratch.filled) {
    const std::int64_t ih = scratch.filled;
    if (ih < 0 || ih >= g_.h.in || copy.pixels <= 0) continue;
    copy.from = x + ih * g_.x.stride_h + begin * g_.x.stride_w;
    copy.to = scratch.ring + ih % g_.t * g_.slot_floats + (begin - left) * g_.padded;
    copy_(copy);
  }
}

void ConvWinogradKernel::transform_input(const Run& run, const Row& row, float* v,
                                         Scratch& scratch) const noexcept {
  const float* x = run.x + row.n * g_.x.stride_n;
  if (!g_.input_in_order) fill_ring(x, row, scratch);
  const std::int64_t strip_left = row.strip * g_.m - g_.w.pad;
  const std::int64_t left = row.column * g_.m - g_.w.pad;
  const std::int64_t pixels = row.tiles * g_.m + 2;
  const float** pixel = scratch.pixel;
  for (std::int64_t i = 0; i < g_.t; ++i) {
    const std::int64_t ih = row.row * g_.m - g_.h.pad + i;
    const bool on_image = ih >= 0 && ih < g_.h.in;
    const float* from = x;
    std::int64_t step = g_.x.stride_w;
    if (on_image && g_.input_in_order) {
      from = x + ih * g_.x.stride_h;
    } else if (on_image) {
      step = g_.padded;
      from = scratch.ring + ih % g_.t * g_.slot_floats - strip_left * step;
    }
    for (std::int64_t j = 0; j < pixels; ++j) {
      const std::int64_t iw = left + j;
      *pixel++ = on_image && iw >= 0 && iw < g_.w.in ? from + iw * step : scratch.zeros;
    }
  }
  WinogradInput in;
  in.from = scratch.pixel;
  in.from_row = pixels;
  in.tiles = row.tiles;
  in.channels = g_.channels;
  in.to = v;
  in.point_step = g_.input_step;
  in.tile_step = g_.padded;
  transforms_.input(in);
}

/// What a row of tiles reads of x and the one above it does not.
Ahead ConvWinogradKernel::input_ahead(const Run& run, const Row& row) const noexcept {
  const std::int64_t first = std::clamp<std::int64_t>(row.row * g_.m - g_.h.pad + 2, 0, g_.h.in);
  const std::int64_t end = std::min(first + g_.m, g_.h.in);
  const std::int64_t left = std::clamp<std::int64_t>(row.column * g_.m - g_.w.pad, 0, g_.w.in);
  const std::int64_t right = std::min(left + row.tiles * g_.m + 2, g_.w.in);
  Ahead ahead;
  ahead.from = run.x + row.n * g_.x.stride_n + first * g_.x.stride_h + left * g_.x.stride_w;
  ahead.planes = g_.input_in_order ? 1 : g_.channels;
  ahead.plane_step = g_.x.stride_c;
  ahead.rows = end - first;
  ahead.row_step = g_.x.stride_h;
  ahead.lines = ceil_div((right - left) * g_.x.stride_w, kConvLine);
  return ahead;
}

/// What a row of tiles writes of y.
Ahead ConvWinogradKernel::output_ahead(const Run& run, const Row& row,
                                       const ConvBlock& block) const noexcept {
  const std::int64_t oh = row.row * g_.m;
  const std::int64_t ow = row.column * g_.m;
  Ahead ahead;
  ahead.from = run.y + row.n * g_.y.stride_n + oh * g_.y.stride_h + ow * g_.y.stride_w +
               block.first * g_.y.stride_c;
  const std::int64_t rows = std::min<std::int64_t>(g_.m, g_.h.out - oh);
  const std::int64_t pixels = std::min(row.tiles * g_.m, g_.w.out - ow);
  ahead.planes = rows;
  ahead.plane_step = g_.y.stride_h;
  ahead.rows = g_.output_in_order ? pixels : block.count;
  ahead.row_step = g_.output_in_order ? g_.y.stride_w : g_.y.stride_c;
  ahead.lines = ceil_div(g_.output_in_order ? block.count : pixels, kConvLine);
  ahead.share = ceil_div(ahead.count(), g_.points());
  return ahead;
}

/// M[p] = V[p] U[p] of a block, for each point.
void ConvWinogradKernel::multiply(const ConvBlock& block, std::int64_t tiles,
                                  const Scratch& scratch, Ahead& input,
                                  Ahead& output) const noexcept {
  const auto vectors = static_cast<std::size_t>(block.vectors);
  const ConvTileTable& table = block.half ? tiles_->half : tiles_->whole;
  const std::int64_t shares = ceil_div(tiles, tiles_->broadcasts(block.vectors));
  const std::int64_t share = tiles / shares;
  const std::int64_t larger = tiles % shares;
  ConvTap taps[2];
  ConvTile tile;
  tile.taps = taps;
  tile.run = g_.channels;
  tile.x_step = g_.padded;
  tile.bias = scratch.zeros;
  tile.out_step = block.width;
  tile.edge = block.half ? tiles_->lanes / 2 : tiles_->lanes;
  tile.clamp = Clamp{};
  tile.w = packed_.as<float>() + block.offset;
  for (std::int64_t p = 0; p < g_.points(); ++p) {
    input.fetch();
    output.fetch();
    taps[0].x = scratch.v + p * g_.input_step;
    float* out = scratch.m + p * g_.output_step;
    for (std::int64_t i = 0, at = 0; i < shares; ++i) {
      const std::int64_t count = share + (i < larger ? 1 : 0);
      tile.x_offset = at * g_.padded;
      tile.out = out + at * block.width;
      table[vectors][static_cast<std::size_t>(count)](tile);
      at += count;
    }
    tile.w += g_.channels * block.width;
  }
}

void ConvWinogradKernel::transform_output(const Run& run, const Row& row, const ConvBlock& block,
                                          const float* m, const Scratch& scratch) const noexcept {
  const std::int64_t oh = row.row * g_.m;
  const std::int64_t ow = row.column * g_.m;
  float* y = run.y + row.n * g_.y.stride_n + oh * g_.y.stride_h + ow * g_.y.stride_w +
             block.first * g_.y.stride_c;
  WinogradOutput out;
  out.from = m;
  out.point_step = g_.output_step;
  out.tile_step = block.width;
  out.tiles = row.tiles;
  out.channels = g_.output_in_order ? block.count : block.width;
  out.bias = packed_.as<float>() + block.bias_offset;
  out.clamp = clamp_;
  out.to = g_.output_in_order ? y : scratch.buffer;
  out.row_step = g_.output_in_order ? g_.y.stride_h : g_.buffer_row;
  out.pixel_step = g_.output_in_order ? g_.y.stride_w : block.width;
  out.rows = std::min<std::int64_t>(g_.m, g_.h.out - oh);
  out.pixels = std::min(row.tiles * g_.m, g_.w.out - ow);
  transforms_.output(out);
  if (g_.output_in_order) return;
  ConvCopy copy;
  copy.from_pixel = block.width;
  copy.from_channel = 1;
  copy.to_pixel = g_.y.stride_w;
  copy.to_channel = g_.y.stride_c;
  copy.pixels = out.pixels;
  copy.channels = block.count;
  for (std::int64_t i = 0; i < out.rows; ++i) {
    copy.from = scratch.buffer + i * g_.buffer_row;
    copy.to = y + i * g_.y.stride_h;
    copy_(copy);
  }
}

void ConvWinogradKernel::run_epilogue(const Run& run, const Row& row,
                                      const ConvBlock& block) const noexcept {
  const std::int64_t oh = row.row * g_.m;
  const std::int64_t rows = std::min<std::int64_t>(g_.m, g_.h.out - oh);
  Tile tile;
  tile.n = row.n;
  tile.pixels = std::min(row.tiles * g_.m, g_.w.out - row.column * g_.m);
  tile.stride_pixel = g_.y.stride_w;
  tile.channel = block.first;
  tile.channels = block.count;
  tile.stride_channel = g_.y.stride_c;
  for (std::int64_t i = 0; i < rows; ++i) {
    tile.pixel = (oh + i) * g_.w.out + row.column * g_.m;
    tile.data = run.y + tile.n * g_.y.stride_n + tile.pixel * tile.stride_pixel +
                tile.channel * tile.stride_channel;
    epilogue_.apply(run.arguments, tile);
  }
}

}  // namespace braze::cpu
