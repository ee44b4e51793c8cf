// QLinearConv: y = saturate(round(sum * x_scale / y_scale * w_scale[k]) + y_zero), with the sum of
// (x - x_zero) (w - w_zero) and the bias in exact integers and the rest in double, as the reference
// has it: the results are the same bit for bit.
//
// A task makes a row, or a part of one, of all output channels of a group. The input rows under it
// are widened to 16 bits without their zero point, channels in pairs, between zeros for the
// padding; columns that a stride brings together lie together.
#include <algorithm>
#include <array>

#include "graph/elements.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cpu/quantized.hpp"

namespace braze::cpu {
namespace {

struct SpatialAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

class QLinearConvKernel final : public Kernel {
 public:
  QLinearConvKernel(const Plan& plan, const KernelPlan& kernel) : loops_(integer_loops()) {
    const Graph& graph = plan.graph;
    const Node& node = anchor_of(graph, kernel.group);
    const auto& op = *node.as<QLinearConv>();
    x_ = operand_of(plan, kernel.group, node.input(0));
    x_image_ = image_of(plan, node.input(0));
    y_image_ = image_of(plan, kernel.group.outputs[0]);
    set_axes(op.window, graph.value(node.input(0)).shape,
             graph.value(kernel.group.outputs[0]).shape);
    x_unsigned_ = graph.value(node.input(0)).dtype == DType::kUInt8;
    const DType y_dtype = graph.value(kernel.group.outputs[0]).dtype;
    range_ = integer_range(y_dtype);

    const auto constant = [&](std::size_t i) { return *graph.value(node.input(i)).constant; };
    x_zero_ = load<std::int32_t>(constant(2))[0];
    y_zero_ = static_cast<double>(load<std::int64_t>(constant(7))[0]);
    scale_ = load<double>(constant(1))[0] / load<double>(constant(6))[0];
    w_scale_ = spread(load<double>(constant(4)), y_image_.c);
    bias_.assign(static_cast<std::size_t>(y_image_.c), 0);
    if (node.input(8) != kNoValue) bias_ = load<std::int64_t>(constant(8));
    groups_ = op.group;
    group_inputs_ = x_image_.c / groups_;
    group_outputs_ = y_image_.c / groups_;
    blocks_ = (group_outputs_ + kQuantizedOutputs - 1) / kQuantizedOutputs;
    pairs_ = (group_inputs_ + 1) / 2;
    rows_ = pairs_ * d_.kernel * h_.kernel;
    set_columns();
    pack(load<std::int32_t>(constant(3)), spread(load<std::int32_t>(constant(5)), y_image_.c));
  }

  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override {
    return threads * sizeof(std::int32_t) * static_cast<std::size_t>(scratch_integers());
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t parts = (w_.out + columns_ - 1) / columns_;
    const std::int64_t tasks = y_image_.n * groups_ * d_.out * h_.out * parts;
    const std::int64_t products = tasks * columns_ * group_outputs_ * group_inputs_ * taps();
    parallel_for(products < kWorthWaking ? nullptr : arguments.pool,
                 static_cast<std::size_t>(tasks), [&](std::size_t index, std::size_t worker) {
                   auto rest = static_cast<std::int64_t>(index);
                   const auto take = [&rest](std::int64_t extent) {
                     const std::int64_t at = rest % extent;
                     rest /= extent;
                     return at;
                   };
                   Row row;
                   row.first = take(parts) * columns_;
                   row.h = take(h_.out);
                   row.d = take(d_.out);
                   row.group = take(groups_);
                   row.n = take(y_image_.n);
                   row.count = std::min(columns_, w_.out - row.first);
                   make_row(arguments, row,
                            static_cast<std::int32_t*>(arguments.workspace) +
                                static_cast<std::int64_t>(worker) * scratch_integers());
                 });
  }

 private:
  static constexpr std::int64_t kWorthWaking = 200000;  // products
  static constexpr std::int64_t kScratchIntegers =
      32 * 1024;  // of widened rows, so that they stay in L2

  /// Outputs [first, first + count) of one row.
  struct Row {
    std::int64_t n = 0, group = 0, d = 0, h = 0, first = 0, count = 0;
  };

  template <class T>
  static std::vector<T> spread(std::vector<T> values, std::int64_t count) {
    if (values.size() == 1) values.resize(static_cast<std::size_t>(count), values[0]);
    return values;
  }

  void set_axes(const Window& window, const Shape& x, const Shape& y) {
    const std::size_t axes = x.size() - 2;
    const std::array<SpatialAxis*, 3> all = {&d_, &h_, &w_};
    bool pointwise = true;
    for (std::size_t i = 0; i < axes; ++i) {
      SpatialAxis& axis = *all[3 - axes + i];
      axis = {x[i + 2],
              y[i + 2],
              window.kernel[i],
              window.strides[i],
              window.dilations[i],
              window.pads_begin[i]};
      pointwise =
          pointwise && axis.kernel == 1 && axis.stride == 1 && axis.in == axis.out && axis.pad == 0;
    }
    if (!pointwise) return;  // else the image is one long row
    w_.in = w_.out = d_.in * h_.in * w_.in;
    d_ = h_ = SpatialAxis{};
  }

  /// How a widened row lies: position p of the padded input, counted from the first that the row of
  /// outputs reads, is word p / stride of plane p % stride.
  void set_columns() {
    const auto rounded = [this](std::int64_t count) {
      return (count + loops_.lanes - 1) / loops_.lanes * loops_.lanes;
    };
    columns_ = std::clamp<std::int64_t>(
        kScratchIntegers / std::max<std::int64_t>(rows_ * w_.stride, 1), 64, 512);
    columns_ = std::min(columns_, std::max<std::int64_t>(w_.out, 1));
    plane_ = rounded(columns_) + (w_.kernel - 1) * w_.dilation / w_.stride;
    sum_step_ = rounded(columns_);
    for (std::int64_t t = 0; t < w_.kernel; ++t) {
      const std::int64_t position = t * w_.dilation;
      tap_offsets_.push_back(position % w_.stride * plane_ + position / w_.stride);
    }
  }

  /// [group][block of outputs][pair of channels][kd][kh][kw][output]; what is not there has weight
  /// 0.
  void pack(const std::vector<std::int32_t>& w, const std::vector<std::int32_t>& zero) {
    packed_.assign(
        static_cast<std::size_t>(groups_ * blocks_ * pairs_ * taps() * kQuantizedOutputs), 0);
    for (std::int64_t k = 0; k < y_image_.c; ++k) {
      const std::int64_t within = k % group_outputs_;
      const std::int64_t block = k / group_outputs_ * blocks_ + within / kQuantizedOutputs;
      for (std::int64_t c = 0; c < group_inputs_; ++c) {
        for (std::int64_t t = 0; t < taps(); ++t) {
          const std::int32_t value =
              w[static_cast<std::size_t>((k * group_inputs_ + c) * taps() + t)] -
              zero[static_cast<std::size_t>(k)];
          const auto half = static_cast<std::uint32_t>(value) & 0xffff;
          std::int32_t& word = packed_[static_cast<std::size_t>(
              ((block * pairs_ + c / 2) * taps() + t) * kQuantizedOutputs +
              within % kQuantizedOutputs)];
          word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) |
                                           (c % 2 == 0 ? half : half << 16));
        }
      }
    }
  }

  [[nodiscard]] std::int64_t taps() const { return d_.kernel * h_.kernel * w_.kernel; }
  [[nodiscard]] std::int64_t row_step() const { return plane_ * w_.stride; }
  [[nodiscard]] std::int64_t scratch_integers() const {
    return (rows_ * row_step() + kQuantizedOutputs * sum_step_ + 15) / 16 * 16;
  }

  void make_row(const KernelArguments& arguments, const Row& row, std::int32_t* scratch) const {
    std::int32_t* sums = scratch;
    std::int32_t* x = scratch + kQuantizedOutputs * sum_step_;
    std::int32_t* x_row = x;
    for (std::int64_t pair = 0; pair < pairs_; ++pair) {
      for (std::int64_t kd = 0; kd < d_.kernel; ++kd) {
        for (std::int64_t kh = 0; kh < h_.kernel; ++kh, x_row += row_step())
          widen(arguments, row, pair, kd, kh, x_row);
      }
    }
    const std::int64_t per_block = pairs_ * taps() * kQuantizedOutputs;
    for (std::int64_t block = 0; block < blocks_; ++block) {
      const std::int32_t* w = packed_.data() + (row.group * blocks_ + block) * per_block;
      loops_.sum(
          {x, rows_, row_step(), tap_offsets_.data(), w_.kernel, w, sums, sum_step_, row.count});
      store(arguments, row, block, sums);
    }
  }

  void widen(const KernelArguments& arguments, const Row& row, std::int64_t pair, std::int64_t kd,
             std::int64_t kh, std::int32_t* to) const {
    const std::int64_t d = row.d * d_.stride - d_.pad + kd * d_.dilation;
    const std::int64_t h = row.h * h_.stride - h_.pad + kh * h_.dilation;
    const bool inside = d >= 0 && d < d_.in && h >= 0 && h < h_.in;
    const std::int64_t c = row.group * group_inputs_ + 2 * pair;
    const bool has_second = 2 * pair + 1 < group_inputs_;
    const auto* x = static_cast<const std::uint8_t*>(x_.data(arguments)) +
                    row.n * x_image_.stride_n + c * x_image_.stride_c + d * x_image_.stride_d +
                    h * x_image_.stride_h;
    const std::int64_t start = row.first * w_.stride - w_.pad;  // input column of position 0
    for (std::int64_t phase = 0; phase < w_.stride; ++phase, to += plane_) {
      // Word i is input column start + phase + i * stride.
      const auto words_below = [&](std::int64_t column) {
        const std::int64_t distance = column - start - phase;
        return std::clamp<std::int64_t>(distance <= 0 ? 0 : (distance + w_.stride - 1) / w_.stride,
                                        0, plane_);
      };
      const std::int64_t begin = inside ? words_below(0) : plane_;
      const std::int64_t end = inside ? std::max(begin, words_below(w_.in)) : plane_;
      std::fill(to, to + begin, 0);
      std::fill(to + end, to + plane_, 0);
      if (begin == end) continue;
      const std::uint8_t* from = x + (start + phase + begin * w_.stride) * x_image_.stride_w;
      loops_.widen({from, has_second ? from + x_image_.stride_c : nullptr, x_unsigned_,
                    w_.stride * x_image_.stride_w, end - begin, x_zero_, to + begin});
    }
  }

  void store(const KernelArguments& arguments, const Row& row, std::int64_t block,
             const std::int32_t* sums) const {
    const std::int64_t first = block * kQuantizedOutputs;
    for (std::int64_t i = 0; i < std::min(kQuantizedOutputs, group_outputs_ - first); ++i) {
      const auto k = row.group * group_outputs_ + first + i;
      const auto channel = static_cast<std::size_t>(k);
      RequantizeRow to;
      to.sums = sums + i * sum_step_, to.count = row.count;
      to.bias = static_cast<double>(bias_[channel]);
      to.scale = scale_, to.channel_scale = w_scale_[channel];
      to.zero = y_zero_, to.low = static_cast<double>(range_.low),
      to.high = static_cast<double>(range_.high);
      to.y = static_cast<std::uint8_t*>(arguments.outputs[0]) + row.n * y_image_.stride_n +
             k * y_image_.stride_c + row.d * y_image_.stride_d + row.h * y_image_.stride_h +
             row.first * y_image_.stride_w;
      to.y_step = y_image_.stride_w;
      loops_.requantize(to);
    }
  }

  const IntegerLoops& loops_;
  Operand x_;
  Image x_image_, y_image_;
  SpatialAxis d_, h_, w_;
  bool x_unsigned_ = true;
  std::int32_t x_zero_ = 0;
  double y_zero_ = 0, scale_ = 1;
  IntegerRange range_;
  std::vector<double> w_scale_;
  std::vector<std::int64_t> bias_;
  std::int64_t groups_ = 1, group_inputs_ = 1, group_outputs_ = 1;
  std::int64_t blocks_ = 1, pairs_ = 1;  // of a group's outputs and inputs
  std::int64_t rows_ = 1;                // widened for a row of outputs
  std::int64_t columns_ = 1, plane_ = 1, sum_step_ = 1;
  std::vector<std::int64_t> tap_offsets_;
  std::vector<std::int32_t> packed_;
};

}  // namespace

std::unique_ptr<Kernel> qlinear_conv(const Plan& plan, const KernelPlan& kernel) {
  return std::make_unique<QLinearConvKernel>(plan, kernel);
}

}  // namespace braze::cpu
