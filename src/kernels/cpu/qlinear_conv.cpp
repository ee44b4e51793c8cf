// QLinearConv: y = saturate(round(sum * x_scale / y_scale * w_scale[k]) + y_zero), with the sum of
// (x - x_zero) (w - w_zero) and the bias in exact integers and the rest in double, as the reference
// has it: the results are the same bit for bit.
//
// A task makes one row of a few output channels: each input row that the row needs is widened,
// without its zero point, between zeros for the padding; then every filter column is added at its
// offset.
#include <algorithm>
#include <array>
#include <cmath>

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
    pack(load<std::int32_t>(constant(3)), spread(load<std::int32_t>(constant(5)), y_image_.c));
  }

  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override {
    return threads * sizeof(std::int32_t) * static_cast<std::size_t>(scratch_integers());
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t columns = (w_.out + kColumns - 1) / kColumns;
    const std::int64_t tasks = y_image_.n * groups_ * blocks_ * d_.out * h_.out * columns;
    const std::int64_t products =
        tasks * std::min(kColumns, w_.out) * kQuantizedOutputs * group_inputs_ * taps();
    parallel_for(products < kWorthWaking ? nullptr : arguments.pool,
                 static_cast<std::size_t>(tasks), [&](std::size_t index, std::size_t worker) {
                   auto rest = static_cast<std::int64_t>(index);
                   const auto take = [&rest](std::int64_t extent) {
                     const std::int64_t at = rest % extent;
                     rest /= extent;
                     return at;
                   };
                   Row row;
                   row.block = take(blocks_);
                   row.first = take(columns) * kColumns;
                   row.h = take(h_.out);
                   row.d = take(d_.out);
                   row.group = take(groups_);
                   row.n = take(y_image_.n);
                   row.count = std::min(kColumns, w_.out - row.first);
                   make_row(arguments, row,
                            static_cast<std::int32_t*>(arguments.workspace) +
                                static_cast<std::int64_t>(worker) * scratch_integers());
                 });
  }

 private:
  static constexpr std::int64_t kColumns = 512;
  static constexpr std::int64_t kWorthWaking = 200000;  // products

  /// Outputs [first, first + count) of one row.
  struct Row {
    std::int64_t n = 0, group = 0, block = 0, d = 0, h = 0, first = 0, count = 0;
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

  /// [group][block of outputs][channel][kd][kh][kw][output]; outputs that are not there have weight
  /// 0.
  void pack(const std::vector<std::int32_t>& w, const std::vector<std::int32_t>& zero) {
    const std::int64_t filter = group_inputs_ * taps();
    packed_.assign(static_cast<std::size_t>(groups_ * blocks_ * filter * kQuantizedOutputs), 0);
    for (std::int64_t k = 0; k < y_image_.c; ++k) {
      const std::int64_t group = k / group_outputs_, within = k % group_outputs_;
      const std::int64_t block = group * blocks_ + within / kQuantizedOutputs;
      for (std::int64_t i = 0; i < filter; ++i) {
        packed_[static_cast<std::size_t>((block * filter + i) * kQuantizedOutputs +
                                         within % kQuantizedOutputs)] =
            w[static_cast<std::size_t>(k * filter + i)] - zero[static_cast<std::size_t>(k)];
      }
    }
  }

  [[nodiscard]] std::int64_t taps() const { return d_.kernel * h_.kernel * w_.kernel; }
  /// Input columns under kColumns outputs.
  [[nodiscard]] std::int64_t span(std::int64_t outputs) const {
    return (outputs - 1) * w_.stride + (w_.kernel - 1) * w_.dilation + 1;
  }
  [[nodiscard]] std::int64_t scratch_integers() const {
    const std::int64_t columns = std::min(kColumns, std::max<std::int64_t>(w_.out, 1));
    return (span(columns) + kQuantizedOutputs * columns + 15) / 16 * 16;
  }

  void make_row(const KernelArguments& arguments, const Row& row, std::int32_t* scratch) const {
    std::int32_t* acc = scratch;
    std::int32_t* x_row = scratch + kQuantizedOutputs * row.count;
    std::fill_n(acc, kQuantizedOutputs * row.count, 0);
    const std::int32_t* w = packed_.data() + (row.group * blocks_ + row.block) * group_inputs_ *
                                                 taps() * kQuantizedOutputs;
    for (std::int64_t c = 0; c < group_inputs_; ++c) {
      for (std::int64_t kd = 0; kd < d_.kernel; ++kd) {
        for (std::int64_t kh = 0; kh < h_.kernel; ++kh, w += w_.kernel * kQuantizedOutputs) {
          const std::int64_t d = row.d * d_.stride - d_.pad + kd * d_.dilation;
          const std::int64_t h = row.h * h_.stride - h_.pad + kh * h_.dilation;
          if (d < 0 || d >= d_.in || h < 0 || h >= h_.in) continue;
          widen(arguments, row, row.group * group_inputs_ + c, d, h, x_row);
          loops_.accumulate(
              {x_row, w_.stride, w_.dilation, row.count, w, w_.kernel, acc, row.count});
        }
      }
    }
    store(arguments, row, acc);
  }

  void widen(const KernelArguments& arguments, const Row& row, std::int64_t c, std::int64_t d,
             std::int64_t h, std::int32_t* to) const {
    const std::int64_t start = row.first * w_.stride - w_.pad;  // input column of to[0]
    const std::int64_t count = span(row.count);
    const std::int64_t begin = std::clamp<std::int64_t>(-start, 0, count);
    const std::int64_t end = std::clamp<std::int64_t>(w_.in - start, begin, count);
    std::fill(to, to + begin, 0);
    std::fill(to + end, to + count, 0);
    if (begin == end) return;
    const auto* x = static_cast<const std::uint8_t*>(x_.data(arguments)) +
                    row.n * x_image_.stride_n + c * x_image_.stride_c + d * x_image_.stride_d +
                    h * x_image_.stride_h + (start + begin) * x_image_.stride_w;
    loops_.widen({x, x_unsigned_, x_image_.stride_w, end - begin, x_zero_, to + begin});
  }

  void store(const KernelArguments& arguments, const Row& row, const std::int32_t* acc) const {
    const std::int64_t first_k = row.block * kQuantizedOutputs;
    const auto low = static_cast<double>(range_.low), high = static_cast<double>(range_.high);
    for (std::int64_t i = 0; i < std::min(kQuantizedOutputs, group_outputs_ - first_k); ++i) {
      const std::int64_t k = row.group * group_outputs_ + first_k + i;
      auto* y = static_cast<std::uint8_t*>(arguments.outputs[0]) + row.n * y_image_.stride_n +
                k * y_image_.stride_c + row.d * y_image_.stride_d + row.h * y_image_.stride_h +
                row.first * y_image_.stride_w;
      const std::int64_t bias = bias_[static_cast<std::size_t>(k)];
      const double w_scale = w_scale_[static_cast<std::size_t>(k)];
      for (std::int64_t o = 0; o < row.count; ++o) {
        const double sum = static_cast<double>(acc[i * row.count + o] + bias);
        const double value =
            std::clamp(std::nearbyint(sum * scale_ * w_scale) + y_zero_, low, high);
        y[o * y_image_.stride_w] = static_cast<std::uint8_t>(static_cast<std::int32_t>(value));
      }
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
  std::int64_t groups_ = 1, group_inputs_ = 1, group_outputs_ = 1, blocks_ = 1;
  std::vector<std::int32_t> packed_;
};

}  // namespace

std::unique_ptr<Kernel> qlinear_conv(const Plan& plan, const KernelPlan& kernel) {
  return std::make_unique<QLinearConvKernel>(plan, kernel);
}

}  // namespace braze::cpu
