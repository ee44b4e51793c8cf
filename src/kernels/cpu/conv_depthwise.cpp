// Convolution with one input channel per group, channels-last. See conv_depthwise_rows.hpp for the
// arithmetic.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "graph/window.hpp"
#include "kernels/cpu/conv_depthwise_rows.hpp"
#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

/// A row of the output is cut into chunks of this many channels, so that their weights stay in L1.
constexpr std::int64_t kChunkChannels = 128;

/// One spatial axis: input index = output index * stride - pad + tap * dilation.
struct Axis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

class DepthwiseKernel final : public Kernel {
 public:
  DepthwiseKernel(const Plan& plan, const KernelPlan& kernel)
      : epilogue_(plan, kernel, kernel.group.members.front()) {
    const Group& group = kernel.group;
    const Node& node = anchor_of(plan.graph, group);
    const ValueId result = group.members.front().result;
    x_ = image_of(plan, node.inputs[0]);
    y_ = image_of(plan, result);
    input_ = operand_of(plan, group, node.inputs[0]).input;
    const Window& window = node.as<Conv>()->window;
    const std::size_t last = window.kernel.size() - 1;
    w_ = {x_.w,
          y_.w,
          window.kernel[last],
          window.strides[last],
          window.dilations[last],
          window.pads_begin[last]};
    if (last > 0)
      h_ = {x_.h,
            y_.h,
            window.kernel[0],
            window.strides[0],
            window.dilations[0],
            window.pads_begin[0]};
    clamp_ = epilogue_.take_leading_clamp();
    lay_out_vectors();
    pack(*plan.graph.value(node.inputs[1]).constant,
         node.input(2) == kNoValue ? Tensor() : *plan.graph.value(node.input(2)).constant);
    choose_loops();
    const std::int64_t row = std::max<std::int64_t>(1, y_.w * y_.c);
    band_ = std::clamp<std::int64_t>(32768 / row, 1, h_.out);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t bands = ceil_div(h_.out, band_);
    parallel_for(arguments.pool, static_cast<std::size_t>(y_.n * bands),
                 [&](std::size_t task, std::size_t) {
                   const std::int64_t n = static_cast<std::int64_t>(task) / bands;
                   const std::int64_t begin = static_cast<std::int64_t>(task) % bands * band_;
                   const std::int64_t end = std::min(begin + band_, h_.out);
                   for (const Chunk& chunk : chunks_) {
                     std::int64_t oy = begin;
                     for (; pair_ != nullptr && oy + 2 <= end; oy += 2)
                       rows(arguments, n, oy, 2, chunk);
                     for (; oy < end; ++oy) rows(arguments, n, oy, 1, chunk);
                   }
                 });
  }

 private:
  /// Vectors [first, first + whole + half) cover channels [channel, channel + channels).
  struct Chunk {
    int first = 0, whole = 0, half = 0;
    std::int64_t channel = 0, channels = 0;
  };

  /// Cuts the channels into vectors and those into chunks. The last vector of a kind overlaps the
  /// one before it rather than reach past the channels. Half vectors serve a short rest, and all
  /// channels where whole ones would straddle cache lines.
  void lay_out_vectors() {
    const DepthwiseIsa isa = depthwise_isa();
    lanes_ = isa.lanes;
    multiplier_ = y_.c / x_.c;
    const std::int64_t c = y_.c;
    const std::int64_t half = isa.halves ? lanes_ / 2 : lanes_;
    if (multiplier_ > 1 || c < half) {
      for (std::int64_t channel = 0; channel < c; channel += lanes_) add_vector(channel, lanes_);
      partial_ = static_cast<int>(c % lanes_);
      chunks_ = {{0, multiplier_ > 1 ? static_cast<int>(vectors_.size()) : 0, 0, 0, c}};
      return;
    }
    const bool narrow = c < lanes_;
    const std::int64_t lanes = narrow ? half : lanes_;
    const std::int64_t in_chunk = std::max<std::int64_t>(1, kChunkChannels / lanes) * lanes;
    for (std::int64_t begin = 0; begin < c; begin += in_chunk) {
      const std::int64_t end = std::min(begin + in_chunk, c);
      Chunk chunk;
      chunk.first = static_cast<int>(vectors_.size());
      for (std::int64_t channel = begin; channel < end; channel += lanes) {
        const bool rest = channel + lanes > c;
        const bool short_rest = narrow || (rest && isa.halves && channel + half >= c);
        const std::int64_t wide = short_rest ? half : lanes;
        add_vector(rest ? c - wide : channel, wide);
        ++(short_rest ? chunk.half : chunk.whole);
      }
      chunk.channel = vectors_[static_cast<std::size_t>(chunk.first)];
      chunk.channels = vectors_.back() + widths_.back() - chunk.channel;
      chunks_.push_back(chunk);
    }
  }

  void add_vector(std::int64_t channel, std::int64_t wide) {
    vectors_.push_back(static_cast<std::int32_t>(channel));
    widths_.push_back(wide);
  }

  void pack(const Tensor& weights, const Tensor& bias) {
    taps_ = h_.kernel * w_.kernel;
    const std::vector<float> w = load<float>(weights);  // [K, 1, taps]
    const std::vector<float> b = bias.defined()
                                     ? load<float>(bias)
                                     : std::vector<float>(static_cast<std::size_t>(y_.c), 0.0F);
    for (std::size_t v = 0; v < vectors_.size(); ++v) {
      offsets_.push_back(static_cast<std::int64_t>(packed_.size()));
      for (std::int64_t slot = 0; slot <= taps_; ++slot) {
        for (std::int64_t lane = 0; lane < widths_[v]; ++lane) {
          const std::int64_t k = vectors_[v] + lane;
          packed_.push_back(k >= y_.c   ? 0.0F
                            : slot == 0 ? b[static_cast<std::size_t>(k)]
                                        : w[static_cast<std::size_t>(k * taps_ + slot - 1)]);
        }
      }
      for (std::int64_t lane = 0; lane < lanes_; ++lane) {
        sources_.push_back(
            static_cast<std::int32_t>(std::min(vectors_[v] + lane, y_.c - 1) / multiplier_));
      }
    }
  }

  void choose_loops() {
    loop_ = best_loop(1);
    const bool square =
        h_.kernel == w_.kernel && h_.stride == w_.stride && h_.dilation == 1 && w_.dilation == 1;
    if (square && h_.out >= 2) pair_ = best_loop(2);
  }

  /// The number of pixels at a time that costs least: overlap against the loads that a block begins
  /// with.
  [[nodiscard]] DepthwiseRowFn best_loop(int rows) const {
    DepthwiseChoice choice{w_.kernel, w_.stride,       w_.dilation, rows,
                           1,         multiplier_ > 1, partial_ > 0};
    DepthwiseRowFn best = nullptr;
    std::int64_t best_cost = std::numeric_limits<std::int64_t>::max();
    for (int pixels = 1; pixels <= std::min<std::int64_t>(8, w_.out); ++pixels) {
      choice.pixels = pixels;
      const DepthwiseRowFn loop = depthwise_row(choice);
      const std::int64_t cost = ceil_div(w_.out, pixels) * (pixels + 1);
      if (loop == nullptr || cost >= best_cost) continue;
      best_cost = cost;
      best = loop;
    }
    return best;
  }

  /// Output rows oy ... oy + count - 1 of image n, count at most 2, with their epilogue.
  void rows(const KernelArguments& arguments, std::int64_t n, std::int64_t oy, std::int64_t count,
            const Chunk& chunk) const noexcept {
    // Tap rows on the image: 0 <= oy * stride - pad + i * dilation < in.
    const std::int64_t top = oy * h_.stride - h_.pad;
    const std::int64_t first = top < 0 ? ceil_div(-top, h_.dilation) : 0;
    const std::int64_t end = top < h_.in ? ceil_div(h_.in - top, h_.dilation) : 0;
    DepthwiseRow row;
    row.in = static_cast<const float*>(arguments.inputs[static_cast<std::size_t>(input_)]) +
             n * x_.stride_n;
    if (count == 2) {
      row.in += top * x_.stride_h;
      row.pair_lo = first;
      row.pair_hi = end;
    } else {
      row.tap_rows = std::max<std::int64_t>(0, std::min(end, h_.kernel) - first);
      if (row.tap_rows > 0) {
        row.in += (top + first * h_.dilation) * x_.stride_h;
        row.first_tap = first * w_.kernel;
      }
    }
    row.in_row = h_.dilation * x_.stride_h;
    row.in_pixel = x_.stride_w;
    row.in_width = w_.in;
    row.out = static_cast<float*>(arguments.outputs[0]) + n * y_.stride_n + oy * y_.stride_h;
    row.out_row = y_.stride_h;
    row.out_pixel = y_.stride_w;
    row.out_width = w_.out;
    row.kernel_w = w_.kernel;
    row.stride_w = w_.stride;
    row.dilation_w = w_.dilation;
    row.pad_w = w_.pad;
    row.weights = packed_.data() + offsets_[static_cast<std::size_t>(chunk.first)];
    row.taps = taps_;
    row.channels = vectors_.data() + chunk.first;
    row.sources = sources_.data();
    row.whole = chunk.whole;
    row.half = chunk.half;
    row.partial = partial_;
    row.clamp = clamp_;
    (count == 2 ? pair_ : loop_)(row);
    if (epilogue_.empty()) return;
    Tile tile;
    tile.data = row.out + chunk.channel;
    tile.n = n;
    tile.pixel = oy * w_.out;
    tile.pixels = count * w_.out;
    tile.stride_pixel = y_.stride_w;
    tile.channel = chunk.channel;
    tile.channels = chunk.channels;
    epilogue_.apply(arguments, tile);
  }

  TileEpilogue epilogue_;
  Clamp clamp_;
  Image x_, y_;
  Axis h_, w_;
  int input_ = 0;
  std::int64_t lanes_ = 1, multiplier_ = 1, taps_ = 1;
  std::int64_t band_ = 1;  // output rows of one task
  int partial_ = 0;
  std::vector<std::int32_t> vectors_;  // first output channel of each
  std::vector<std::int64_t> widths_;   // lanes of each
  std::vector<std::int64_t> offsets_;  // of each in packed_
  std::vector<std::int32_t> sources_;  // input channel of each lane
  std::vector<Chunk> chunks_;
  std::vector<float> packed_;
  DepthwiseRowFn loop_ = nullptr;  // one output row
  DepthwiseRowFn pair_ = nullptr;  // two of them; null where there is no such loop
};

Support supports(const Graph& graph, const Node& node, const Device&) {
  const auto* op = node.as<Conv>();
  if (op == nullptr) return Support::no("op", "only Conv");
  const Value& x = graph.value(node.inputs[0]);
  const Value& w = graph.value(node.inputs[1]);
  if (x.shape.size() != 3 && x.shape.size() != 4) {
    return Support::no(
        "rank", fmt::format("an input of {} axes; takes 1 or 2 spatial ones", x.shape.size()));
  }
  if (op->group != x.shape[1] || op->group == 1) {
    return Support::no(
        "depthwise", fmt::format("{} groups of {} channels; takes one channel per group", op->group,
                                 x.shape[1]));
  }
  if (x.dtype != DType::kFloat32 || w.dtype != DType::kFloat32)
    return Support::no("dtype", "only fp32");
  if (!w.is_constant() ||
      (node.input(2) != kNoValue && !graph.value(node.input(2)).is_constant())) {
    return Support::no("weights", "weights or bias that are not constant");
  }
  if (element_count(x.shape) == 0 || element_count(graph.value(node.outputs[0]).shape) == 0) {
    return Support::no("empty", "the input or the output has no elements");
  }
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device& device) {
  const Node& node = anchor_of(graph, group);
  const Shape& y = graph.value(node.outputs[0]).shape;
  const Window& window = node.as<Conv>()->window;
  const double taps = static_cast<double>(element_count(window.kernel));
  const std::int64_t lanes = device.isa == "AVX3" ? 16 : device.isa == "AVX2" ? 8 : 4;
  const double used =
      static_cast<double>(y[1]) / static_cast<double>(ceil_div(y[1], lanes) * lanes);
  const std::int64_t width = window.kernel.back();
  const bool fixed =
      (width == 3 || width == 5) && window.strides.back() <= 2 && window.dilations.back() == 1;
  const bool expand = y[1] != graph.value(node.inputs[0]).shape[1];
  const double rate = !fixed ? 0.4 : width == 5 ? 0.75 : window.strides.back() == 1 ? 0.8 : 0.5;
  const double efficiency = used * (expand ? 0.1 : rate);
  return streaming_work(graph, group, 2 * taps * static_cast<double>(element_count(y)), efficiency);
}

}  // namespace

Row conv_depthwise() {
  KernelFamily family;
  family.name = "conv_depthwise";
  family.backend = "cpu";
  family.layouts = LayoutRule::kChannelsLast;
  family.epilogue = true;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, [](const Plan& plan, const KernelPlan& kernel) -> std::unique_ptr<Kernel> {
            return std::make_unique<DepthwiseKernel>(plan, kernel);
          }};
}

}  // namespace braze::cpu
