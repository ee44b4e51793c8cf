#include "kernels/cpu/conv_direct_run.hpp"

#include <algorithm>
#include <cstring>

#include "graph/window.hpp"

namespace braze::cpu {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::int64_t kStepsOfLine = 8;  // steps of an inner loop for each line that is fetched
std::size_t whole_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }
std::size_t float_bytes(std::int64_t floats) {
  return whole_lines(static_cast<std::size_t>(floats) * sizeof(float));
}

}  // namespace

struct ConvDirectKernel::Run {
  const KernelArguments& arguments;
  const float* x;
  const float* packed;
  float* y;
};

ConvDirectKernel::ConvDirectKernel(const Plan& plan, const KernelPlan& kernel,
                                   const ConvChoice& choice)
    : g_(conv_geometry(plan, kernel, choice)),
      tiles_(g_.vector == ConvVector::kChannels ? &conv_channel_tiles() : &conv_pixel_tiles()),
      copy_(conv_copy()),
      epilogue_(plan, kernel, kernel.group.members.front()) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  x_ = operand_of(plan, kernel.group, node.input(0));
  weights_ = operand_of(plan, kernel.group, node.input(1));
  bias_ = operand_of(plan, kernel.group, node.input(2));
  const ValueId result = stored_output(plan.graph, kernel.group);
  output_ = output_index(kernel.group, result);
  row_pixels_ = image_of(plan, result).w;
  clamp_ = epilogue_.take_leading_clamp();
  if (weights_.input < 0 && bias_.input < 0) {
    packed_ = Tensor::make(DType::kFloat32, {g_.packed_floats()});
    conv_pack(g_, weights_.constant.as<float>(),
              bias_.present() ? bias_.constant.as<float>() : nullptr, packed_.as<float>());
    weights_.constant = bias_.constant = Tensor();
  }
}

std::size_t ConvDirectKernel::scratch_bytes() const {
  const std::size_t taps =
      static_cast<std::size_t>(g_.rows * (g_.row_taps() + 1)) * sizeof(ConvTap);
  return float_bytes(g_.d.kernel * g_.slots * g_.slot_floats) + float_bytes(g_.buffer_floats) +
         whole_lines(taps);
}

std::size_t ConvDirectKernel::workspace_bytes(std::size_t threads) const {
  return (packed_.defined() ? 0 : float_bytes(g_.packed_floats())) + threads * scratch_bytes();
}

ConvDirectKernel::Cut ConvDirectKernel::cut(std::size_t workers) const {
  Cut cut;
  cut.segments = ceil_div(g_.w.out, g_.segment);
  const std::int64_t base = g_.batch * g_.groups * g_.d.out * cut.segments;
  std::int64_t missing = ceil_div(conv_parts(g_, static_cast<std::int64_t>(workers)), base);
  cut.rows = std::min(missing, ceil_div(g_.h.out, g_.rows));
  missing = ceil_div(missing, cut.rows);
  cut.blocks = std::min(missing, static_cast<std::int64_t>(g_.blocks.size()));
  missing = ceil_div(missing, cut.blocks);
  cut.rows = std::min(cut.rows * missing, g_.h.out);
  cut.tasks = base * cut.rows * cut.blocks;
  return cut;
}

ConvDirectKernel::Part ConvDirectKernel::part(const Cut& cut, std::int64_t task) const {
  const auto take = [&task](std::int64_t count) {
    const std::int64_t index = task % count;
    task /= count;
    return index;
  };
  Part part;
  const auto count = static_cast<std::int64_t>(g_.blocks.size());
  const std::int64_t block = take(cut.blocks);
  part.block_begin = static_cast<std::size_t>(block * count / cut.blocks);
  part.block_end = static_cast<std::size_t>((block + 1) * count / cut.blocks);
  part.column = take(cut.segments) * g_.segment;
  part.columns = std::min(g_.segment, g_.w.out - part.column);
  const std::int64_t row = take(cut.rows);
  part.row_begin = row * g_.h.out / cut.rows;
  part.row_end = (row + 1) * g_.h.out / cut.rows;
  part.d = take(g_.d.out);
  part.group = take(g_.groups);
  part.n = task;
  return part;
}

void ConvDirectKernel::run(const KernelArguments& arguments) const noexcept {
  auto* workspace = static_cast<std::byte*>(arguments.workspace);
  const float* packed = packed_.as<float>();
  if (!packed_.defined()) {
    auto* image = reinterpret_cast<float*>(workspace);
    conv_pack(g_, static_cast<const float*>(weights_.data(arguments)),
              bias_.present() ? static_cast<const float*>(bias_.data(arguments)) : nullptr, image);
    workspace += float_bytes(g_.packed_floats());
    packed = image;
  }
  const Run run{arguments, static_cast<const float*>(x_.data(arguments)), packed,
                static_cast<float*>(arguments.outputs[static_cast<std::size_t>(output_)])};
  const Cut pieces = cut(worker_count(arguments.pool));
  parallel_for(arguments.pool, static_cast<std::size_t>(pieces.tasks),
               [&](std::size_t task, std::size_t worker) {
                 run_part(run, part(pieces, static_cast<std::int64_t>(task)),
                          scratch_at(workspace + worker * scratch_bytes()));
               });
}

ConvDirectKernel::Scratch ConvDirectKernel::scratch_at(std::byte* workspace) const {
  Scratch scratch;
  scratch.ring = reinterpret_cast<float*>(workspace);
  workspace += float_bytes(g_.d.kernel * g_.slots * g_.slot_floats);
  scratch.buffer = reinterpret_cast<float*>(workspace);
  workspace += float_bytes(g_.buffer_floats);
  scratch.taps = reinterpret_cast<ConvTap*>(workspace);
  return scratch;
}

void ConvDirectKernel::run_rows(const KernelArguments& arguments, std::int64_t n,
                                std::int64_t begin, std::int64_t end) const noexcept {
  const Run run{arguments, static_cast<const float*>(x_.data(arguments)), packed_.as<float>(),
                static_cast<float*>(arguments.outputs[static_cast<std::size_t>(output_)])};
  const Scratch scratch = scratch_at(static_cast<std::byte*>(arguments.workspace));
  const bool line = g_.w.out != row_pixels_;  // flatten_pixels()
  const std::int64_t first = line ? begin * row_pixels_ : 0;
  const std::int64_t last = line ? end * row_pixels_ : g_.w.out;
  Part part;
  part.n = n;
  part.row_begin = line ? 0 : begin;
  part.row_end = line ? 1 : end;
  part.block_end = g_.blocks.size();
  for (part.group = 0; part.group < g_.groups; ++part.group) {
    for (part.column = first; part.column < last; part.column += part.columns) {
      part.columns = std::min(g_.segment, last - part.column);
      run_part(run, part, scratch);
    }
  }
}

void ConvDirectKernel::run_part(const Run& run, const Part& part,
                                const Scratch& scratch) const noexcept {
  const float* x = run.x + part.n * g_.x.stride_n + part.group * g_.channels * g_.x.stride_c;
  std::int64_t filled = 0;  // virtual rows below this are in the ring
  for (std::int64_t begin = part.row_begin; begin < part.row_end; begin += g_.rows) {
    const std::int64_t end = std::min(begin + g_.rows, part.row_end);
    if (g_.source != ConvSource::kInPlace) {
      const std::int64_t last = (end - 1) * g_.h_stride + (g_.h.kernel - 1) * g_.h.dilation;
      for (filled = std::max(filled, begin * g_.h_stride); filled <= last; ++filled) {
        const std::int64_t ih = filled * g_.h_scale - g_.h.pad;
        if (ih < 0 || ih >= g_.h.in) continue;
        if (g_.h.dilation == 1 && filled % g_.h_stride >= g_.h.kernel) continue;  // no tap there
        for (std::int64_t k = 0; k < g_.d.kernel; ++k) {
          const std::int64_t id = part.d * g_.d.stride - g_.d.pad + k * g_.d.dilation;
          if (id < 0 || id >= g_.d.in) continue;
          fill_row(x + id * g_.x.stride_d + ih * g_.x.stride_h, part.column, part.columns,
                   scratch.ring + (k * g_.slots + filled % g_.slots) * g_.slot_floats);
        }
      }
    }
    // Taps of row begin + i start at i * row_taps(); one more, without a source, ends them.
    const std::int64_t pitch = g_.row_taps() + 1;
    for (std::int64_t i = 0; i < end - begin; ++i) {
      ConvTap* taps = scratch.taps + i * pitch;
      taps[find_taps(x, part, begin + i, scratch.ring, taps)] = ConvTap{};
    }
    Ahead input = input_ahead(run, part, end);
    for (std::size_t b = part.block_begin; b < part.block_end; ++b) {
      for (std::int64_t i = 0; i < end - begin; ++i) {
        run_row(run, part, begin + i, g_.blocks[b], scratch.taps + i * pitch, scratch.buffer,
                input.share > 0 ? &input : nullptr);
        if (epilogue_.empty()) continue;
        // Channels-last, all blocks of a pixel at once: they are neighbours.
        if (g_.y.stride_c != 1) {
          run_epilogue(run, part, begin + i, b, b + 1);
        } else if (b + 1 == part.block_end) {
          run_epilogue(run, part, begin + i, part.block_begin, part.block_end);
        }
      }
    }
  }
}

/// Copies the columns that output columns [column, column + count) need, zeros where they are off
/// the image.
void ConvDirectKernel::fill_row(const float* row, std::int64_t column, std::int64_t count,
                                float* slot) const noexcept {
  const std::int64_t columns = g_.columns - (g_.segment - count) * g_.w_stride;
  // Ring column j is input column first + j * w_scale; [low, high) of them are on the image.
  const std::int64_t first = column * g_.w_stride * g_.w_scale - g_.w.pad;
  const std::int64_t low = std::min(columns, first < 0 ? ceil_div(-first, g_.w_scale) : 0);
  const std::int64_t high =
      std::clamp(first < g_.w.in ? ceil_div(g_.w.in - first, g_.w_scale) : 0, low, columns);
  const auto zero = [](float* to, std::int64_t count) {
    if (count > 0) std::memset(to, 0, static_cast<std::size_t>(count) * sizeof(float));
  };
  ConvCopy copy;
  copy.from_channel = g_.x.stride_c;
  copy.channels = g_.channels;
  if (g_.source == ConvSource::kInterleaved) {
    zero(slot, low * g_.channels);
    zero(slot + high * g_.channels, (columns - high) * g_.channels);
    copy.from = row + (first + low * g_.w_scale) * g_.x.stride_w;
    copy.from_pixel = g_.w_scale * g_.x.stride_w;
    copy.to = slot + low * g_.channels;
    copy.to_pixel = g_.channels;
    copy.to_channel = 1;
    copy.pixels = high - low;
    if (copy.pixels > 0) copy_(copy);
    return;
  }
  // Vectors of pixels read more than there are.
  const std::int64_t used =
      g_.plane - g_.lead - (g_.segment - count) * g_.w_stride / g_.phase_stride;
  const auto phases = static_cast<std::int64_t>(g_.phases.size());
  copy.from_pixel = g_.phase_stride * g_.w_scale * g_.x.stride_w;
  copy.to_pixel = 1;
  copy.to_channel = phases * g_.plane;
  for (std::int64_t i = 0; i < phases; ++i) {
    // Element j of the phase is ring column j * phase_stride + phase.
    const std::int64_t phase = g_.phases[static_cast<std::size_t>(i)];
    const std::int64_t begin = low > phase ? ceil_div(low - phase, g_.phase_stride) : 0;
    const std::int64_t end =
        std::max(begin, high > phase ? ceil_div(high - phase, g_.phase_stride) : 0);
    float* plane = slot + i * g_.plane + g_.lead;
    copy.from = row + (first + (begin * g_.phase_stride + phase) * g_.w_scale) * g_.x.stride_w;
    copy.to = plane + begin;
    copy.pixels = end - begin;
    if (copy.pixels > 0) copy_(copy);
    for (std::int64_t c = 0; c < g_.channels; ++c) {
      zero(plane + c * copy.to_channel, begin);
      zero(plane + c * copy.to_channel + end, used - end);
    }
  }
}

/// Of images whose planes are interleaved: what the ring has not of the rows under output rows
/// [row, row + g_.rows); of a line, under the segment behind this one. It lies in many short
/// pieces, which no hardware foresees.
Ahead ConvDirectKernel::input_ahead(const Run& run, const Part& part,
                                    std::int64_t row) const noexcept {
  Ahead ahead;
  if (g_.source != ConvSource::kInterleaved || g_.x.stride_w != 1 || g_.x.stride_c == 1)
    return ahead;
  const bool line = g_.h.out == 1;
  const std::int64_t behind = line ? part.column + part.columns : part.column;
  const std::int64_t first = std::max<std::int64_t>(0, behind * g_.w.stride - g_.w.pad);
  const std::int64_t columns = std::min(part.columns * g_.w.stride, g_.w.in - first);
  const std::int64_t reach = (g_.h.kernel - 1) * g_.h.dilation;
  const std::int64_t below = (row - 1) * g_.h.stride - g_.h.pad + reach + 1;
  const std::int64_t begin = line ? 0 : std::clamp<std::int64_t>(below, 0, g_.h.in);
  const std::int64_t end = line ? g_.h.in : std::min(below + g_.rows * g_.h.stride, g_.h.in);
  if (columns <= 0 || begin >= end) return ahead;
  ahead.from = run.x + part.n * g_.x.stride_n + part.group * g_.channels * g_.x.stride_c +
               part.d * g_.d.stride * g_.x.stride_d + begin * g_.x.stride_h + first;
  ahead.planes = g_.channels;
  ahead.plane_step = g_.x.stride_c;
  ahead.rows = end - begin;
  ahead.row_step = g_.x.stride_h;
  ahead.lines = ceil_div(columns, kConvLine);
  std::int64_t tiles = 0;
  for (std::size_t b = part.block_begin; b < part.block_end; ++b)
    tiles +=
        std::min(g_.rows, part.row_end - part.row_begin) * tiles_in_row(part.columns, g_.blocks[b]);
  ahead.share = ceil_div(ahead.count(), tiles);
  // Where sums are too short to wait for it, hardware does better.
  if (kStepsOfLine * ahead.share > g_.taps() * g_.channels) return {};
  return ahead;
}

/// The taps of an output row that are not in the padding above, below, before or behind the image.
std::int64_t ConvDirectKernel::find_taps(const float* x, const Part& part, std::int64_t row,
                                         const float* ring, ConvTap* taps) const noexcept {
  std::int64_t count = 0;
  for (std::int64_t kd = 0; kd < g_.d.kernel; ++kd) {
    const std::int64_t id = part.d * g_.d.stride - g_.d.pad + kd * g_.d.dilation;
    if (id < 0 || id >= g_.d.in) continue;
    for (std::int64_t kh = 0; kh < g_.h.kernel; ++kh) {
      const std::int64_t virtual_row = row * g_.h_stride + kh * g_.h.dilation;
      const std::int64_t ih = virtual_row * g_.h_scale - g_.h.pad;
      if (ih < 0 || ih >= g_.h.in) continue;
      const float* base =
          g_.source == ConvSource::kInPlace
              ? x + id * g_.x.stride_d + ih * g_.x.stride_h + part.column * g_.pixel_step
              : ring + (kd * g_.slots + virtual_row % g_.slots) * g_.slot_floats;
      const auto in_row = static_cast<std::int64_t>(g_.tap_offsets.size());
      const std::int64_t first = (kd * g_.h.kernel + kh) * in_row;
      for (std::int64_t i = 0; i < in_row; ++i) {
        taps[count++] = {base + g_.tap_offsets[static_cast<std::size_t>(i)], first + i};
      }
    }
  }
  return count;
}

/// One block of output channels of a row segment: sums, clamp, store.
void ConvDirectKernel::run_row(const Run& run, const Part& part, std::int64_t row,
                               const ConvBlock& block, const ConvTap* taps, float* buffer,
                               Ahead* input) const noexcept {
  const bool channels = g_.vector == ConvVector::kChannels;
  const std::int64_t pixel = (part.d * g_.h.out + row) * g_.w.out + part.column;
  const std::int64_t channel = part.group * g_.outputs + block.first;
  float* y = run.y + part.n * g_.y.stride_n + pixel * g_.y.stride_w + channel * g_.y.stride_c;
  const float* packed = run.packed + part.group * g_.group_floats;
  const std::int64_t buffer_step = channels ? block.width : g_.buffer_step;

  ConvTile tile;
  tile.taps = taps;
  tile.run = g_.tap_run;
  tile.x_step = g_.x_step;
  tile.w = packed + block.offset;
  tile.bias = packed + block.bias_offset;
  tile.clamp = clamp_;
  tile.out = g_.direct ? y : buffer;
  tile.out_step = !g_.direct ? buffer_step : channels ? g_.y.stride_w : g_.y.stride_c;
  run_tiles(tile, part.columns, block, input);

  if (!g_.direct) {
    ConvCopy copy;
    copy.from = buffer;
    copy.from_pixel = channels ? buffer_step : 1;
    copy.from_channel = channels ? 1 : buffer_step;
    copy.to = y;
    copy.to_pixel = g_.y.stride_w;
    copy.to_channel = g_.y.stride_c;
    copy.pixels = part.columns;
    copy.channels = block.count;
    copy_(copy);
  }
}

/// Blocks [block_begin, block_end) of a row segment that has been stored.
void ConvDirectKernel::run_epilogue(const Run& run, const Part& part, std::int64_t row,
                                    std::size_t block_begin, std::size_t block_end) const noexcept {
  const std::int64_t first = g_.blocks[block_begin].first;
  const ConvBlock& last = g_.blocks[block_end - 1];
  Tile tile;
  tile.n = part.n;
  tile.pixel = (part.d * g_.h.out + row) * g_.w.out + part.column;
  tile.pixels = part.columns;
  tile.stride_pixel = g_.y.stride_w;
  tile.channel = part.group * g_.outputs + first;
  tile.channels = last.first + last.count - first;
  tile.stride_channel = g_.y.stride_c;
  tile.data = run.y + tile.n * g_.y.stride_n + tile.pixel * tile.stride_pixel +
              tile.channel * tile.stride_channel;
  epilogue_.apply(run.arguments, tile);
}

/// Inner loops that cover so many columns.
std::int64_t ConvDirectKernel::tiles_in_row(std::int64_t columns,
                                            const ConvBlock& block) const noexcept {
  if (g_.vector == ConvVector::kPixels) return ceil_div(columns, g_.vectors * tiles_->lanes);
  // Measured on Zen 4: sums of one tap and vector take 5 % less with 13 pixels than with 14.
  const std::int64_t most = tiles_->broadcasts(block.vectors);
  const bool fewer = g_.taps() == 1 && block.vectors == 1;
  return ceil_div(columns, fewer ? std::min<std::int64_t>(most, 13) : most);
}

/// Covers the segment with inner loops: even shares of pixels, or as many vectors of pixels as fit.
void ConvDirectKernel::run_tiles(ConvTile tile, std::int64_t columns, const ConvBlock& block,
                                 Ahead* input) const noexcept {
  float* out = tile.out;
  if (g_.vector == ConvVector::kChannels) {
    const auto vectors = static_cast<std::size_t>(block.vectors);
    const ConvTileTable& table = block.half ? tiles_->half : tiles_->whole;
    const std::int64_t lanes = block.half ? tiles_->lanes / 2 : tiles_->lanes;
    tile.edge = g_.direct ? block.count - (block.vectors - 1) * lanes : lanes;
    const std::int64_t tiles = tiles_in_row(columns, block);
    const std::int64_t share = columns / tiles;
    const std::int64_t larger = columns % tiles;
    for (std::int64_t i = 0, at = 0; i < tiles; ++i) {
      const std::int64_t pixels = share + (i < larger ? 1 : 0);
      if (input != nullptr) input->fetch();
      tile.x_offset = at * g_.pixel_step;
      tile.out = out + at * tile.out_step;
      table[vectors][static_cast<std::size_t>(pixels)](tile);
      at += pixels;
    }
    return;
  }
  const auto count = static_cast<std::size_t>(block.count);
  const std::int64_t lanes = tiles_->lanes;
  for (std::int64_t at = 0; at < columns;) {
    auto vectors = std::min<std::int64_t>(g_.vectors, ceil_div(columns - at, lanes));
    while (tiles_->whole[static_cast<std::size_t>(vectors)][count] == nullptr) --vectors;
    tile.edge = std::min(lanes, columns - at - (vectors - 1) * lanes);
    if (input != nullptr) input->fetch();
    tile.x_offset = at * g_.pixel_step;
    tile.out = out + at;
    tiles_->whole[static_cast<std::size_t>(vectors)][count](tile);
    at += vectors * lanes;
  }
}

}  // namespace braze::cpu
