// Linear and cubic, fp32: the input rows of an output row are blended into one, whose pixels are
// then combined.
#include <algorithm>

#include "kernels/cpu/group.hpp"
#include "kernels/cpu/resize.hpp"

namespace braze::cpu {
namespace {

PixelTaps pixel_taps(const ResizeAxis& axis, std::int64_t lanes) {
  PixelTaps taps;
  taps.outputs = std::ssize(axis);
  for (const auto& element : axis) taps.taps = std::max(taps.taps, std::ssize(element));
  const std::int64_t blocks = (taps.outputs + lanes - 1) / lanes;
  const auto tap_of = [&](std::int64_t output, std::int64_t t) -> ResizeTap {
    const auto& element = axis[static_cast<std::size_t>(std::min(output, taps.outputs - 1))];
    return t < std::ssize(element) ? element[static_cast<std::size_t>(t)]
                                   : ResizeTap{element[0].index, 0};
  };
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t t = 0; t < taps.taps; ++t) {
      std::int64_t low = tap_of(block * lanes, t).index, high = low;
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        const std::int64_t index = tap_of(block * lanes + lane, t).index;
        low = std::min(low, index);
        high = std::max(high, index);
      }
      taps.nearby = taps.nearby && high - low < lanes;
      taps.first.push_back(low);
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        const ResizeTap tap = tap_of(block * lanes + lane, t);
        taps.index.push_back(static_cast<std::int32_t>(tap.index - low));
        taps.weight.push_back(static_cast<float>(tap.weight));
      }
    }
  }
  return taps;
}

/// The taps of a row of pixels of a few channels each, element by element.
ResizeAxis interleaved(const ResizeAxis& axis, std::int64_t channels) {
  ResizeAxis result;
  for (const std::vector<ResizeTap>& pixel : axis) {
    for (std::int64_t c = 0; c < channels; ++c) {
      result.push_back(pixel);
      for (ResizeTap& tap : result.back()) tap.index = tap.index * channels + c;
    }
  }
  return result;
}

class InterpolateKernel final : public Kernel {
 public:
  InterpolateKernel(const Plan& plan, const KernelPlan& kernel) : loops_(resize_loops()) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    x_ = operand_of(plan, kernel.group, node.input(0));
    x_image_ = image_of(plan, node.input(0));
    y_image_ = image_of(plan, kernel.group.outputs[0]);
    axes_ = resize_axes(plan.graph, node);
    const bool together =
        x_image_.stride_w == 1 && y_image_.stride_w == 1;  // planes, or one channel without gaps
    channels_last_ =
        !together && (y_image_.c == 1 || (x_image_.channels_last() && y_image_.channels_last()));
    const bool without_gaps = x_image_.stride_w == y_image_.c && y_image_.stride_w == y_image_.c;
    by_elements_ = !channels_last_ || (without_gaps && y_image_.c < loops_.lanes);
    if (by_elements_)
      pixels_ =
          pixel_taps(channels_last_ ? interleaved(axes_.w, y_image_.c) : axes_.w, loops_.lanes);
    planes_ = channels_last_ ? y_image_.n * y_image_.d : y_image_.n * y_image_.c * y_image_.d;
    row_ = channels_last_ ? (x_image_.w - 1) * x_image_.stride_w + x_image_.c : x_image_.w;
    rows_per_task_ = std::clamp<std::int64_t>(
        kTaskFloats / std::max<std::int64_t>(y_image_.w * (channels_last_ ? y_image_.c : 1), 1), 1,
        std::max<std::int64_t>(y_image_.h, 1));
  }

  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override {
    return threads * sizeof(float) * static_cast<std::size_t>(scratch_floats());
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t blocks = (y_image_.h + rows_per_task_ - 1) / rows_per_task_;
    if (y_image_.w == 0 || y_image_.c == 0) return;
    const bool small =
        y_image_.n * y_image_.c * y_image_.d * y_image_.h * y_image_.w < kWorthWaking;
    parallel_for(
        small ? nullptr : arguments.pool, static_cast<std::size_t>(planes_ * blocks),
        [&](std::size_t task, std::size_t worker) {
          const std::int64_t plane = static_cast<std::int64_t>(task) / blocks;
          const std::int64_t first = static_cast<std::int64_t>(task) % blocks * rows_per_task_;
          // Planes are (n, d) or (n, c, d).
          const std::int64_t d = plane % y_image_.d, channel = plane / y_image_.d;
          const std::int64_t n = channels_last_ ? channel : channel / y_image_.c,
                             c = channels_last_ ? 0 : channel % y_image_.c;
          const float* x = static_cast<const float*>(x_.data(arguments)) + n * x_image_.stride_n +
                           c * x_image_.stride_c + d * x_image_.stride_d;
          float* y = static_cast<float*>(arguments.outputs[0]) + n * y_image_.stride_n +
                     c * y_image_.stride_c + d * y_image_.stride_d;
          float* scratch = static_cast<float*>(arguments.workspace) +
                           static_cast<std::int64_t>(worker) * scratch_floats();
          for (std::int64_t h = first; h < std::min(first + rows_per_task_, y_image_.h); ++h)
            run_row(x, h, y + h * y_image_.stride_h, scratch);
        });
  }

 private:
  static constexpr std::int64_t kTaskFloats = 16 * 1024;
  static constexpr std::int64_t kWorthWaking = 32 * 1024;  // floats
  static constexpr std::int64_t kMostLanes = 64;           // of any instruction set

  [[nodiscard]] std::int64_t scratch_floats() const {
    return (row_ + 2 * kMostLanes - 1) / kMostLanes * kMostLanes;
  }

  void run_row(const float* x, std::int64_t h, float* y, float* scratch) const {
    const std::vector<ResizeTap>& taps = axes_.h[static_cast<std::size_t>(h)];
    const bool in_place = !by_elements_ && taps.size() == 1 && taps[0].weight == 1;
    if (!in_place)
      loops_.blend({x, x_image_.stride_h, taps.data(), std::ssize(taps), scratch, row_});
    if (!by_elements_) {
      const float* row = in_place ? x + taps[0].index * x_image_.stride_h : scratch;
      loops_.channels({row, x_image_.stride_w, &axes_.w, y, y_image_.stride_w, y_image_.c});
    } else {
      loops_.pixels(pixels_, scratch, y);
    }
  }

  const ResizeLoops& loops_;
  Operand x_;
  Image x_image_, y_image_;
  ResizeAxes axes_;
  PixelTaps pixels_;
  bool channels_last_ = false;
  bool by_elements_ =
      true;  // rows of single elements; else of pixels, a vector of channels at a time
  std::int64_t planes_ = 0, rows_per_task_ = 1;
  std::int64_t row_ = 0;  // floats of an input row
};

}  // namespace

std::unique_ptr<Kernel> resize_interpolate(const Plan& plan, const KernelPlan& kernel) {
  return std::make_unique<InterpolateKernel>(plan, kernel);
}

}  // namespace braze::cpu
