// Quantize and Dequantize, with one scale or one per element of an axis, in either layout.
#include <algorithm>

#include "base/error.hpp"
#include "kernels/cpu/copy_kernel.hpp"
#include "kernels/cpu/quantized.hpp"

namespace braze::cpu {
namespace {

class QuantizeKernel final : public Kernel {
 public:
  QuantizeKernel(const Plan& plan, const KernelPlan& kernel) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    const ValueId to_id = stored_output(plan.graph, kernel.group);
    const auto* quantize = node.as<Quantize>();
    const View x = view_of(plan, node.input(0)), y = view_of(plan, to_id);
    x_ = operand_of(plan, kernel.group, node.input(0));
    scale_ = operand_of(plan, kernel.group, node.input(1));
    zero_ = operand_of(plan, kernel.group, node.input(2));
    run_ = quantize != nullptr ? quantize_function(plan.graph.value(to_id).dtype)
                               : dequantize_function(plan.graph.value(node.input(0)).dtype);
    ensure(run_ != nullptr, "the family supports these dtypes");
    from_bytes_ = x.element_bytes, to_bytes_ = y.element_bytes;
    zero_bytes_ = quantize != nullptr ? to_bytes_ : from_bytes_;

    const bool per_axis = element_count(plan.graph.value(node.input(1)).shape) > 1;
    const auto channel = static_cast<std::size_t>(
        quantize != nullptr ? quantize->axis : node.as<Dequantize>()->axis);
    for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
      const CopyAxis own{x.shape[axis], x.strides[axis], y.strides[axis]};
      if (per_axis && axis == channel) {
        channels_ = own;
      } else {
        outer_.push_back(own);
      }
    }
    collapse_axes(outer_);
    // A run follows the axis that lies together; along the channels its parameters change with it.
    along_channels_ = per_axis && channels_.to == to_bytes_;
    if (along_channels_) {
      line_ = channels_;
      channels_ = CopyAxis{};
    } else if (!outer_.empty()) {
      line_ = outer_.back();
      outer_.pop_back();
    }
    block_ = std::clamp<std::int64_t>(line_.extent, 1, kTaskElements);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t blocks = (line_.extent + block_ - 1) / block_;
    const std::int64_t tasks = count_of(outer_) * channels_.extent * blocks;
    const bool small = count_of(outer_) * channels_.extent * line_.extent < kWorthWaking;
    parallel_for(small ? nullptr : arguments.pool, static_cast<std::size_t>(tasks),
                 [&](std::size_t index, std::size_t) {
                   const auto task = static_cast<std::int64_t>(index);
                   const std::int64_t first = task % blocks * block_;
                   const std::int64_t channel = task / blocks % channels_.extent;
                   const CopyOffsets at = offsets_at(outer_, task / blocks / channels_.extent);
                   const std::int64_t parameter = along_channels_ ? first : channel;
                   QuantizeRun run;
                   run.x = static_cast<const std::uint8_t*>(x_.data(arguments)) + at.from +
                           channel * channels_.from + first * line_.from;
                   run.y = static_cast<std::uint8_t*>(arguments.outputs[0]) + at.to +
                           channel * channels_.to + first * line_.to;
                   run.x_step = line_.from / from_bytes_, run.y_step = line_.to / to_bytes_;
                   run.count = std::min(block_, line_.extent - first);
                   run.scale = static_cast<const float*>(scale_.data(arguments)) + parameter;
                   if (zero_.present())
                     run.zero = static_cast<const std::uint8_t*>(zero_.data(arguments)) +
                                parameter * zero_bytes_;
                   run.parameter_step = along_channels_ ? 1 : 0;
                   run_(run);
                 });
  }

 private:
  static constexpr std::int64_t kTaskElements = 16 * 1024;
  static constexpr std::int64_t kWorthWaking = 64 * 1024;

  Operand x_, scale_, zero_;
  QuantizeFn run_ = nullptr;
  std::int64_t from_bytes_ = 4, to_bytes_ = 4, zero_bytes_ = 1;
  std::vector<CopyAxis> outer_;
  CopyAxis channels_, line_;
  bool along_channels_ = false;
  std::int64_t block_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> quantize(const Plan& plan, const KernelPlan& kernel) {
  return std::make_unique<QuantizeKernel>(plan, kernel);
}

}  // namespace braze::cpu
