// Nearest: where the indices of every axis are evenly spaced (up-scaling and down-scaling by
// integers), a strided copy; else by tables.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "kernels/cpu/copy_kernel.hpp"
#include "kernels/cpu/resize.hpp"

namespace braze::cpu {
namespace {

using Indices = std::vector<std::int64_t>;

Indices indices_of(const ResizeAxis& axis) {
  Indices indices;
  for (const std::vector<ResizeTap>& taps : axis) indices.push_back(taps[0].index);
  return indices;
}

/// indices[o] = first + o / repeat * step, in whole repeats.
struct Even {
  std::int64_t first = 0, repeat = 1, step = 0, count = 1;
};
std::optional<Even> evenly_spaced(const Indices& indices) {
  if (indices.empty()) return Even{0, 1, 0, 0};
  Even even;
  even.first = indices[0];
  const auto total = std::ssize(indices);
  const auto other = std::find_if(indices.begin(), indices.end(),
                                  [&](std::int64_t index) { return index != even.first; });
  even.repeat = other - indices.begin();
  if (total % even.repeat != 0) return std::nullopt;
  even.count = total / even.repeat;
  if (other != indices.end()) even.step = *other - even.first;
  for (std::int64_t o = 0; o < total; ++o) {
    if (indices[static_cast<std::size_t>(o)] != even.first + o / even.repeat * even.step)
      return std::nullopt;
  }
  return even;
}

/// Strides in bytes of an image's axes [n, c, d, h, w].
struct Strides {
  Strides(const Image& image, std::int64_t element)
      : n(image.stride_n * element),
        c(image.stride_c * element),
        d(image.stride_d * element),
        h(image.stride_h * element),
        w(image.stride_w * element) {}
  std::int64_t n, c, d, h, w;
};

class TableKernel final : public Kernel {
 public:
  TableKernel(const Plan& plan, const KernelPlan& kernel, std::array<Indices, 3> axes)
      : axes_(std::move(axes)),
        element_(
            static_cast<std::int64_t>(size_of(plan.graph.value(kernel.group.outputs[0]).dtype))) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    x_ = operand_of(plan, kernel.group, node.input(0));
    x_image_ = image_of(plan, node.input(0));
    y_image_ = image_of(plan, kernel.group.outputs[0]);
    // A pixel is a run of channels, or one element of each plane.
    by_pixels_ = y_image_.channels_last() && x_image_.channels_last() && y_image_.c > 1;
    planes_ = by_pixels_ ? y_image_.n : y_image_.n * y_image_.c;
    run_ = by_pixels_ ? y_image_.c * element_ : element_;
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t rows = y_image_.d * y_image_.h;
    const bool small = planes_ * rows * y_image_.w * run_ < kWorthWaking;
    parallel_for(small ? nullptr : arguments.pool, static_cast<std::size_t>(planes_ * rows),
                 [&](std::size_t task, std::size_t) {
                   const std::int64_t plane = static_cast<std::int64_t>(task) / rows;
                   const std::int64_t row = static_cast<std::int64_t>(task) % rows;
                   const std::int64_t n = by_pixels_ ? plane : plane / y_image_.c,
                                      c = by_pixels_ ? 0 : plane % y_image_.c;
                   const Strides from(x_image_, element_), to(y_image_, element_);
                   const std::int64_t d = row / y_image_.h, h = row % y_image_.h;
                   const auto* x = static_cast<const std::uint8_t*>(x_.data(arguments)) +
                                   n * from.n + c * from.c +
                                   axes_[0][static_cast<std::size_t>(d)] * from.d +
                                   axes_[1][static_cast<std::size_t>(h)] * from.h;
                   auto* y = static_cast<std::uint8_t*>(arguments.outputs[0]) + n * to.n +
                             c * to.c + d * to.d + h * to.h;
                   switch (run_) {
                     case 1:
                       return copy_row<1>(x, from.w, y, to.w);
                     case 2:
                       return copy_row<2>(x, from.w, y, to.w);
                     case 4:
                       return copy_row<4>(x, from.w, y, to.w);
                     case 8:
                       return copy_row<8>(x, from.w, y, to.w);
                     default:
                       return copy_row<0>(x, from.w, y, to.w);
                   }
                 });
  }

 private:
  static constexpr std::int64_t kWorthWaking = 128 * 1024;  // bytes

  template <std::size_t kRun>
  void copy_row(const std::uint8_t* x, std::int64_t from, std::uint8_t* y, std::int64_t to) const {
    const Indices& index = axes_[2];
    for (std::size_t w = 0; w < index.size(); ++w) {
      std::memcpy(y + static_cast<std::int64_t>(w) * to, x + index[w] * from,
                  kRun != 0 ? kRun : static_cast<std::size_t>(run_));
    }
  }

  std::array<Indices, 3> axes_;         // d, h, w
  std::int64_t element_ = 4, run_ = 4;  // bytes
  Operand x_;
  Image x_image_, y_image_;
  bool by_pixels_ = false;
  std::int64_t planes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> resize_nearest(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  const ResizeAxes taps = resize_axes(plan.graph, node);
  std::array<Indices, 3> axes = {indices_of(taps.d), indices_of(taps.h), indices_of(taps.w)};
  const auto d = evenly_spaced(axes[0]), h = evenly_spaced(axes[1]), w = evenly_spaced(axes[2]);
  if (!d || !h || !w) return std::make_unique<TableKernel>(plan, kernel, std::move(axes));

  const ValueId to_id = kernel.group.outputs[0];
  const auto element = static_cast<std::int64_t>(size_of(plan.graph.value(to_id).dtype));
  const Image y = image_of(plan, to_id);
  const Strides from(image_of(plan, node.input(0)), element), to(y, element);
  std::vector<CopyAxis> copy = {{y.n, from.n, to.n}, {y.c, from.c, to.c}};
  std::int64_t offset = 0;
  const auto add_axis = [&](const Even& even, std::int64_t from_stride, std::int64_t to_stride) {
    copy.push_back({even.count, even.step * from_stride, even.repeat * to_stride});
    copy.push_back({even.repeat, 0, to_stride});
    offset += even.first * from_stride;
  };
  add_axis(*d, from.d, to.d);
  add_axis(*h, from.h, to.h);
  add_axis(*w, from.w, to.w);
  auto result = std::make_unique<CopyKernel>();
  result->add(operand_of(plan, kernel.group, node.input(0)), 0,
              StridedCopy(element, std::move(copy), offset));
  return result;
}

}  // namespace braze::cpu
