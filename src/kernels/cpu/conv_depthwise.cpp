// Convolution with one input channel per group, channels-last. See conv_depthwise_rows.hpp for the
// arithmetic.
#include <fmt/format.h>

#include <algorithm>

#include "graph/window.hpp"
#include "kernels/cpu/conv_depthwise_pack.hpp"
#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

/// One spatial axis: input index = output index * stride - pad + tap * dilation.
struct Axis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

class DepthwiseKernel final : public RowKernel {
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
    vectors_ = DepthwiseVectors(y_.c, y_.c / x_.c);
    pack(*plan.graph.value(node.inputs[1]).constant,
         operand_of(plan, group, node.input(2)).constant);
    const bool split = w_.stride == 1;
    const std::int64_t step = split ? w_.dilation : 1;
    for (std::int64_t first = 0; first < std::min(step, w_.out); ++first)
      columns_.push_back(columns(first, step));
    const bool square =
        h_.kernel == w_.kernel && h_.stride == w_.stride && h_.dilation == 1 && w_.dilation == 1;
    for (Columns& c : columns_) {
      DepthwiseChoice choice{w_.kernel, w_.stride, split ? 1 : w_.dilation};
      c.loop = best_depthwise_row(choice, vectors_, c.out_width);
      choice.rows = 2;
      if (square && h_.out >= 2) c.pair = best_depthwise_row(choice, vectors_, c.out_width);
    }
    has_pairs_ = !columns_.empty() && columns_[0].pair != nullptr;
    const std::int64_t row = std::max<std::int64_t>(1, y_.w * y_.c);
    band_ = std::clamp<std::int64_t>(32768 / row, 1, h_.out);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t bands = ceil_div(h_.out, band_);
    parallel_for(arguments.pool, static_cast<std::size_t>(y_.n * bands),
                 [&](std::size_t task, std::size_t) {
                   const std::int64_t n = static_cast<std::int64_t>(task) / bands;
                   const std::int64_t begin = static_cast<std::int64_t>(task) % bands * band_;
                   run_rows(arguments, n, begin, std::min(begin + band_, h_.out));
                 });
  }

  void run_rows(const KernelArguments& arguments, std::int64_t n, std::int64_t begin,
                std::int64_t end) const noexcept override {
    for (const DepthwiseChunk& chunk : vectors_.chunks) {
      std::int64_t oy = begin;
      for (; has_pairs_ && oy + 2 <= end; oy += 2) rows(arguments, n, oy, 2, chunk);
      for (; oy < end; ++oy) rows(arguments, n, oy, 1, chunk);
    }
  }

 private:
  /// Every step-th output column. With stride 1 and dilation `step` they see every step-th input
  /// column only: a convolution without dilation.
  struct Columns {
    std::int64_t step = 1, first = 0, out_width = 0;
    std::int64_t in_first = 0, in_width = 0, pad = 0;
    DepthwiseRowFn loop = nullptr;  // one output row
    DepthwiseRowFn pair = nullptr;  // two of them; null where there is no such loop
  };
  [[nodiscard]] Columns columns(std::int64_t first, std::int64_t step) const {
    Columns c;
    c.step = step;
    c.first = first;
    c.out_width = ceil_div(w_.out - first, step);
    if (step == 1) {
      c.in_width = w_.in;
      c.pad = w_.pad;
      return c;
    }
    // Tap k of output first + q * step is input first - pad + (q + k) * step = in_first + (q + k -
    // pad') * step.
    c.pad = w_.pad > first ? ceil_div(w_.pad - first, step) : -((first - w_.pad) / step);
    c.in_first = first - w_.pad + c.pad * step;
    c.in_width = c.in_first < w_.in ? ceil_div(w_.in - c.in_first, step) : 0;
    return c;
  }

  void pack(const Tensor& weights, const Tensor& bias) {
    const std::int64_t taps = h_.kernel * w_.kernel;
    const auto* const w = weights.as<float>();  // [K, 1, taps]
    weights_ = DepthwiseWeights(vectors_, y_.c, taps, bias.defined() ? bias.as<float>() : nullptr,
                                [&](std::int64_t k, std::int64_t t) { return w[k * taps + t]; });
  }

  /// Output rows oy ... oy + count - 1 of image n, count at most 2, with their epilogue.
  void rows(const KernelArguments& arguments, std::int64_t n, std::int64_t oy, std::int64_t count,
            const DepthwiseChunk& chunk) const noexcept {
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
    float* const out =
        static_cast<float*>(arguments.outputs[0]) + n * y_.stride_n + oy * y_.stride_h;
    row.out_row = y_.stride_h;
    row.kernel_w = w_.kernel;
    row.stride_w = w_.stride;
    row.dilation_w = w_.stride == 1 ? 1 : w_.dilation;
    row.clamp = clamp_;
    vectors_.select(chunk, row);
    weights_.select(chunk, row);
    const float* const in = row.in;
    for (const Columns& c : columns_) {
      row.in = in + c.in_first * x_.stride_w;
      row.in_pixel = c.step * x_.stride_w;
      row.in_width = c.in_width;
      row.pad_w = c.pad;
      row.out = out + c.first * y_.stride_w;
      row.out_pixel = c.step * y_.stride_w;
      row.out_width = c.out_width;
      (count == 2 ? c.pair : c.loop)(row);
    }
    if (epilogue_.empty()) return;
    Tile tile;
    tile.data = out + chunk.channel;
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
  std::int64_t band_ = 1;  // output rows of one task
  DepthwiseVectors vectors_;
  DepthwiseWeights weights_;
  std::vector<Columns> columns_;
  bool has_pairs_ = false;
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
  const bool fixed = (width == 3 || width == 5) && window.strides.back() <= 2 &&
                     (window.dilations.back() == 1 || window.strides.back() == 1);
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
