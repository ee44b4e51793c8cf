#include <algorithm>

#include "graph/window.hpp"
#include "kernels/cpu/conv_transpose.hpp"

namespace braze::cpu {
namespace {

constexpr double kTaskFlops = 2e6;
constexpr std::int64_t kBuffer = 16384;  // floats of output rows that wait for their copy

TransposeAxis axis(const Window& window, std::size_t i, std::int64_t in, std::int64_t out) {
  return {in, out, window.kernel[i], window.strides[i], window.dilations[i], window.pads_begin[i]};
}

std::int64_t round_up(std::int64_t n, std::int64_t to) { return ceil_div(n, to) * to; }

}  // namespace

ConvTransposeKernel::ConvTransposeKernel(const Plan& plan, const KernelPlan& kernel)
    : epilogue_(plan, kernel, kernel.group.members.front()),
      copy_(conv_copy()),
      tiles_(&conv_channel_tiles()),
      pixel_tiles_(&conv_pixel_tiles()) {
  const Group& group = kernel.group;
  const Node& node = anchor_of(plan.graph, group);
  const auto& op = *node.as<ConvTranspose>();
  clamp_ = epilogue_.take_leading_clamp();
  x_operand_ = operand_of(plan, group, node.inputs[0]);
  x_ = image_of(plan, node.inputs[0]);
  y_ = image_of(plan, group.members.front().result);
  const std::size_t axes = op.window.kernel.size();
  w_ = axis(op.window, axes - 1, x_.w, y_.w);
  if (axes > 1) h_ = axis(op.window, axes - 2, x_.h, y_.h);
  if (axes > 2) d_ = axis(op.window, axes - 3, x_.d, y_.d);
  const bool depthwise = op.group > 1 && op.group == x_.c && axes <= 2;
  groups_ = depthwise ? 1 : op.group;
  channels_ = x_.c / groups_;
  outputs_ = y_.c / groups_;
  mode_ = depthwise                       ? Mode::kDepthwise
          : 4 * outputs_ <= tiles_->lanes ? Mode::kPixels
                                          : Mode::kChannels;
  buffers_y_ = mode_ != Mode::kPixels && y_.stride_c != 1;
  lay_out_input();

  const Tensor& w = *plan.graph.value(node.inputs[1]).constant;
  const Operand bias = operand_of(plan, group, node.input(2));
  const float* const b = bias.present() ? bias.constant.as<float>() : nullptr;
  double row_flops = 2 * static_cast<double>(y_.w * outputs_ * taps()) /
                     static_cast<double>(d_.stride * h_.stride * w_.stride);
  if (mode_ == Mode::kDepthwise) {
    pack_depthwise(w.as<float>(), b);
  } else {
    row_flops *= static_cast<double>(channels_);
    pack_dense(w.as<float>(), b);
  }
  band_ = std::clamp(static_cast<std::int64_t>(kTaskFlops / row_flops), std::int64_t{1}, h_.out);
  if (buffers_y_) band_ = std::clamp<std::int64_t>(kBuffer / (y_.w * outputs_), 1, band_);
}

void ConvTransposeKernel::lay_out_input() {
  from_ = x_;
  copies_x_ = x_.stride_c != 1;
  if (mode_ == Mode::kPixels) {
    std::int64_t right = 0;  // columns behind the image that taps reach
    bool whole = true;       // vectors need not reach past a row
    for (const TransposePhase& phase : w_.phases) {
      const std::int64_t reach =
          phase.taps.empty() ? 0
                             : (static_cast<std::int64_t>(phase.taps.size()) - 1) * phase.dilation;
      margin_ = std::max(margin_, phase.pad);
      right = std::max(right, phase.count - phase.pad + reach - x_.w);
      whole = whole && phase.count >= pixel_tiles_->lanes;
    }
    copies_x_ = x_.stride_w != 1 || margin_ > 0 || right > 0 || !whole;
    if (!copies_x_) return;
    from_.stride_w = 1;
    from_.stride_h = margin_ + x_.w + right;
    from_.stride_d = from_.stride_h * x_.h;
    from_.stride_c = from_.stride_d * x_.d;
    from_.stride_n = from_.stride_c * x_.c;
  } else if (copies_x_) {
    from_.stride_c = 1;
    from_.stride_w = x_.c;
    from_.stride_h = from_.stride_w * x_.w;
    from_.stride_d = from_.stride_h * x_.h;
    from_.stride_n = from_.stride_d * x_.d;
  }
}

void ConvTransposeKernel::lay_out_blocks() {
  const std::int64_t lanes = tiles_->lanes;
  const bool halves = tiles_->half[1][1] != nullptr;
  const auto add = [this](std::int64_t first, std::int64_t count, int vectors, bool half,
                          std::int64_t width) {
    ConvBlock block;
    block.first = first;
    block.count = count;
    block.vectors = vectors;
    block.half = half;
    block.width = width;
    block.offset = group_floats_;
    block.bias_offset = group_floats_ + taps() * channels_ * width;
    group_floats_ = block.bias_offset + width;
    blocks_.push_back(block);
  };
  if (mode_ == Mode::kPixels) return add(0, outputs_, 1, false, outputs_);
  for (std::int64_t first = 0; first < outputs_;) {
    const std::int64_t left = outputs_ - first;
    if (halves && left <= lanes / 2) {
      add(first, left, 1, true, lanes / 2);
      return;
    }
    // Two vectors, unless the last of them would better be a half one.
    const bool two = left > lanes && !(halves && left <= lanes + lanes / 2);
    const std::int64_t width = two ? 2 * lanes : lanes;
    add(first, std::min(left, width), two ? 2 : 1, false, width);
    first += width;
  }
}

void ConvTransposeKernel::pack_dense(const float* w, const float* bias) {
  lay_out_blocks();
  packed_.assign(static_cast<std::size_t>(groups_ * group_floats_), 0.0F);
  for (std::int64_t g = 0; g < groups_; ++g) {
    float* const packed = packed_.data() + g * group_floats_;
    for (const ConvBlock& block : blocks_) {
      for (std::int64_t i = 0; i < block.count; ++i) {
        const std::int64_t k = block.first + i;
        if (bias != nullptr) packed[block.bias_offset + i] = bias[g * outputs_ + k];
        for (std::int64_t t = 0; t < taps(); ++t) {
          for (std::int64_t c = 0; c < channels_; ++c) {
            packed[block.offset + (t * channels_ + c) * block.width + i] =
                w[((g * channels_ + c) * outputs_ + k) * taps() + t];
          }
        }
      }
    }
  }
}

void ConvTransposeKernel::pack_depthwise(const float* w, const float* bias) {
  vectors_ = DepthwiseVectors(y_.c, y_.c / x_.c);
  for (const TransposePhase& h : h_.phases) {
    for (const TransposePhase& pw : w_.phases) {
      const auto width = static_cast<std::int64_t>(pw.taps.size());
      const auto count = static_cast<std::int64_t>(h.taps.size()) * width;
      weights_.emplace_back(vectors_, y_.c, count, bias, [&](std::int64_t k, std::int64_t t) {
        const auto row = static_cast<std::size_t>(t / width),
                   column = static_cast<std::size_t>(t % width);
        return w[k * taps() + h.taps[row] * w_.kernel + pw.taps[column]];
      });
    }
  }
  for (const TransposePhase& pw : w_.phases) {
    const DepthwiseChoice choice{static_cast<std::int64_t>(pw.taps.size()), 1, pw.dilation};
    loops_.push_back(best_depthwise_row(choice, vectors_, pw.count));
  }
}

std::int64_t ConvTransposeKernel::copied_floats() const {
  constexpr std::int64_t kBeyond = 16;  // of the last vector
  return copies_x_ ? round_up(x_.n * from_.stride_n + kBeyond, 16) : 0;
}

/// Output rows before they go to y; kPixels: one row of one phase, [channel][pixel] with whole
/// vectors.
std::int64_t ConvTransposeKernel::buffer_floats() const {
  if (mode_ == Mode::kPixels) return outputs_ * round_up(w_.phases[0].count, tiles_->lanes);
  return buffers_y_ ? round_up(band_ * y_.w * outputs_, 16) : 0;
}

/// Of one worker: the taps of a row, then rows of the output.
std::int64_t ConvTransposeKernel::scratch_floats() const {
  constexpr auto kTapFloats = static_cast<std::int64_t>(sizeof(ConvTap) / sizeof(float));
  return round_up((taps() + 1) * kTapFloats, 16) + buffer_floats();
}

std::size_t ConvTransposeKernel::workspace_bytes(std::size_t threads) const {
  return (static_cast<std::size_t>(copied_floats()) +
          threads * static_cast<std::size_t>(scratch_floats())) *
         sizeof(float);
}

void ConvTransposeKernel::copy_input(const KernelArguments& arguments) const noexcept {
  const auto* const x = static_cast<const float*>(x_operand_.data(arguments));
  parallel_for(arguments.pool, static_cast<std::size_t>(x_.n * x_.d * x_.h),
               [&](std::size_t task, std::size_t) {
                 const auto row = static_cast<std::int64_t>(task);
                 const std::int64_t plane = row / x_.h;
                 ConvCopy copy;
                 copy.from = x + plane / x_.d * x_.stride_n + plane % x_.d * x_.stride_d +
                             row % x_.h * x_.stride_h;
                 copy.from_pixel = x_.stride_w;
                 copy.from_channel = x_.stride_c;
                 float* const to = static_cast<float*>(arguments.workspace) +
                                   plane / x_.d * from_.stride_n + plane % x_.d * from_.stride_d +
                                   row % x_.h * from_.stride_h;
                 copy.to = to + margin_;
                 copy.to_pixel = from_.stride_w;
                 copy.to_channel = from_.stride_c;
                 copy.pixels = x_.w;
                 copy.channels = x_.c;
                 for (std::int64_t c = 0; c < (mode_ == Mode::kPixels ? x_.c : 0); ++c) {
                   float* const begin = to + c * from_.stride_c;
                   std::fill(begin, begin + margin_, 0.0F);
                   std::fill(begin + margin_ + x_.w, begin + from_.stride_h, 0.0F);
                 }
                 copy_(copy);
               });
}

void ConvTransposeKernel::run(const KernelArguments& arguments) const noexcept {
  auto* const workspace = static_cast<float*>(arguments.workspace);
  if (copies_x_) copy_input(arguments);
  const float* const x =
      copies_x_ ? workspace : static_cast<const float*>(x_operand_.data(arguments));
  const std::int64_t bands = ceil_div(h_.out, band_);
  const auto tasks = static_cast<std::size_t>(y_.n * groups_ * d_.out * bands);
  parallel_for(arguments.pool, tasks, [&](std::size_t task, std::size_t worker) {
    auto rest = static_cast<std::int64_t>(task);
    const auto take = [&rest](std::int64_t count) {
      const std::int64_t index = rest % count;
      rest /= count;
      return index;
    };
    float* const scratch =
        workspace + copied_floats() + static_cast<std::int64_t>(worker) * scratch_floats();
    Part part;
    part.begin = take(bands) * band_;
    part.end = std::min(part.begin + band_, h_.out);
    part.od = take(d_.out);
    part.group = take(groups_);
    part.n = rest;
    part.x = x + part.n * from_.stride_n + part.group * channels_ * from_.stride_c;
    part.y = static_cast<float*>(arguments.outputs[0]) + part.n * y_.stride_n +
             part.group * outputs_ * y_.stride_c + part.od * y_.stride_d + part.begin * y_.stride_h;
    part.taps = reinterpret_cast<ConvTap*>(scratch);
    part.to = buffer_floats() > 0 ? scratch + scratch_floats() - buffer_floats() : part.y;
    part.to_pixel = buffers_y_ ? outputs_ : y_.stride_w;
    if (mode_ == Mode::kDepthwise) {
      depthwise(part);
    } else if (mode_ == Mode::kPixels) {
      for (std::int64_t oh = part.begin; oh < part.end; ++oh) pixel_row(part, oh);
    } else {
      for (const ConvBlock& block : blocks_) {
        for (std::int64_t oh = part.begin; oh < part.end; ++oh) dense_row(part, oh, block);
      }
    }
    finish(arguments, part);
  });
}

/// Calls f(input row, tap of column 0) for the rows of taps of an output row that are on the image.
template <class F>
void ConvTransposeKernel::for_tap_rows(const Part& part, std::int64_t oh,
                                       const F& f) const noexcept {
  const TransposePhase& d = d_.phases[static_cast<std::size_t>(part.od % d_.stride)];
  const TransposePhase& h = h_.phases[static_cast<std::size_t>(oh % h_.stride)];
  const std::int64_t qd = part.od / d_.stride, qh = oh / h_.stride;
  const TransposePhase::Segment of_d = d.terms(qd, d_.in), of_h = h.terms(qh, h_.in);
  for (std::int64_t jd = of_d.low; jd < of_d.low + of_d.terms; ++jd) {
    for (std::int64_t jh = of_h.low; jh < of_h.low + of_h.terms; ++jh) {
      f(part.x + (qd - d.pad + jd * d.dilation) * from_.stride_d +
            (qh - h.pad + jh * h.dilation) * from_.stride_h,
        (d.taps[static_cast<std::size_t>(jd)] * h_.kernel + h.taps[static_cast<std::size_t>(jh)]) *
            w_.kernel);
    }
  }
}

/// All channels (they are few) of an output row.
void ConvTransposeKernel::pixel_row(const Part& part, std::int64_t oh) const noexcept {
  const ConvTiles& tiles = *pixel_tiles_;
  const auto channels = static_cast<std::size_t>(outputs_);
  const std::int64_t step = buffer_floats() / outputs_;
  const float* const packed = packed_.data() + part.group * group_floats_;
  ConvTile tile;
  tile.taps = part.taps;
  tile.run = channels_;
  tile.x_step = from_.stride_c;
  tile.w = packed + blocks_[0].offset;
  tile.bias = packed + blocks_[0].bias_offset;
  tile.edge = tiles.lanes;
  tile.out_step = step;
  tile.clamp = clamp_;
  for (const TransposePhase& w : w_.phases) {
    ConvTap* tap = part.taps;
    for_tap_rows(part, oh, [&](const float* row, std::int64_t first) {
      for (std::size_t j = 0; j < w.taps.size(); ++j) {
        *tap++ = {row + margin_ - w.pad + static_cast<std::int64_t>(j) * w.dilation,
                  first + w.taps[j]};
      }
    });
    *tap = {};
    for (std::int64_t q = 0; q < w.count;) {
      auto vectors = std::min<std::int64_t>(kConvMaxVectors,
                                            std::max<std::int64_t>(1, (w.count - q) / tiles.lanes));
      while (tiles.whole[static_cast<std::size_t>(vectors)][channels] == nullptr) --vectors;
      // The last vector overlaps the one before it, if there is one.
      tile.x_offset = std::max<std::int64_t>(0, std::min(q, w.count - tiles.lanes));
      tile.out = part.to + tile.x_offset;
      tiles.whole[static_cast<std::size_t>(vectors)][channels](tile);
      q += vectors * tiles.lanes;
    }
    for (std::int64_t k = 0; k < outputs_; ++k) {
      const float* const from = part.to + k * step;
      float* const to =
          part.y + (oh - part.begin) * y_.stride_h + w.first * y_.stride_w + k * y_.stride_c;
      const std::int64_t to_step = w_.stride * y_.stride_w;
      for (std::int64_t q = 0; q < w.count; ++q) to[q * to_step] = from[q];
    }
  }
}

/// Channels of one block of an output row.
void ConvTransposeKernel::dense_row(const Part& part, std::int64_t oh,
                                    const ConvBlock& block) const noexcept {
  float* const to = part.to + (oh - part.begin) * w_.out * part.to_pixel + block.first;
  const ConvTileTable& table = block.half ? tiles_->half : tiles_->whole;
  const std::int64_t lanes = block.half ? tiles_->lanes / 2 : tiles_->lanes;
  ConvTile tile;
  tile.taps = part.taps;
  tile.run = channels_;
  tile.x_step = from_.stride_w;
  tile.w = packed_.data() + part.group * group_floats_ + block.offset;
  tile.bias = packed_.data() + part.group * group_floats_ + block.bias_offset;
  tile.edge = block.count - (block.vectors - 1) * lanes;
  tile.clamp = clamp_;
  for (const TransposePhase& w : w_.phases) {
    tile.out_step = w_.stride * part.to_pixel;
    for (const TransposePhase::Segment& segment : w.segments) {
      ConvTap* tap = part.taps;
      for_tap_rows(part, oh, [&](const float* row, std::int64_t first) {
        for (std::int64_t j = segment.low; j < segment.low + segment.terms; ++j) {
          *tap++ = {row + (j * w.dilation - w.pad) * from_.stride_w,
                    first + w.taps[static_cast<std::size_t>(j)]};
        }
      });
      *tap = {};
      const std::int64_t pixels = segment.end - segment.begin;
      const std::int64_t tiles = ceil_div(pixels, tiles_->broadcasts(block.vectors));
      for (std::int64_t i = 0; i < tiles; ++i) {  // even shares
        const std::int64_t begin = segment.begin + i * pixels / tiles,
                           end = segment.begin + (i + 1) * pixels / tiles;
        tile.x_offset = begin * from_.stride_w;
        tile.out = to + (w.first + begin * w_.stride) * part.to_pixel;
        table[static_cast<std::size_t>(block.vectors)][static_cast<std::size_t>(end - begin)](tile);
      }
    }
  }
}

void ConvTransposeKernel::depthwise(const Part& part) const noexcept {
  DepthwiseRow row;
  row.in_pixel = from_.stride_w;
  row.in_width = w_.in;
  row.out_pixel = w_.stride * part.to_pixel;
  row.clamp = clamp_;
  for (const DepthwiseChunk& chunk : vectors_.chunks) {
    vectors_.select(chunk, row);
    for (std::int64_t oh = part.begin; oh < part.end; ++oh) {
      const std::int64_t phase = oh % h_.stride, q = oh / h_.stride;
      const TransposePhase& h = h_.phases[static_cast<std::size_t>(phase)];
      const TransposePhase::Segment terms = h.terms(q, h_.in);
      row.in = part.x;
      if (terms.terms > 0) row.in += (q - h.pad + terms.low * h.dilation) * from_.stride_h;
      row.in_row = h.dilation * from_.stride_h;
      row.tap_rows = terms.terms;
      for (std::size_t i = 0; i < w_.phases.size(); ++i) {
        const TransposePhase& w = w_.phases[i];
        weights_[static_cast<std::size_t>(phase) * w_.phases.size() + i].select(chunk, row);
        row.kernel_w = static_cast<std::int64_t>(w.taps.size());
        row.first_tap = terms.terms > 0 ? terms.low * row.kernel_w : 0;
        row.dilation_w = w.dilation;
        row.pad_w = w.pad;
        row.out = part.to + ((oh - part.begin) * w_.out + w.first) * part.to_pixel;
        row.out_width = w.count;
        loops_[i](row);
      }
    }
  }
}

/// Rows that were computed in a buffer go to y; then the epilogue.
void ConvTransposeKernel::finish(const KernelArguments& arguments,
                                 const Part& part) const noexcept {
  const std::int64_t pixels = (part.end - part.begin) * w_.out;
  if (buffers_y_) {
    ConvCopy copy;
    copy.from = part.to;
    copy.from_pixel = part.to_pixel;
    copy.from_channel = 1;
    copy.to = part.y;
    copy.to_pixel = y_.stride_w;
    copy.to_channel = y_.stride_c;
    copy.pixels = pixels;
    copy.channels = outputs_;
    copy_(copy);
  }
  if (epilogue_.empty()) return;
  Tile tile;
  tile.data = part.y;
  tile.n = part.n;
  tile.pixel = (part.od * h_.out + part.begin) * w_.out;
  tile.pixels = pixels;
  tile.stride_pixel = y_.stride_w;
  tile.channel = part.group * outputs_;
  tile.channels = outputs_;
  tile.stride_channel = y_.stride_c;
  epilogue_.apply(arguments, tile);
}

}  // namespace braze::cpu
