// Softmax and LogSoftmax along any axis, fp32, either layout.
#include "kernels/cpu/softmax.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/cpu/copy_kernel.hpp"
#include "kernels/cpu/families.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t kFloat = sizeof(float);

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const Plan& plan, const KernelPlan& kernel) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    const auto& op = *node.as<Softmax>();
    const View x = view_of(plan, node.input(0)),
               y = view_of(plan, stored_output(plan.graph, kernel.group));
    x_ = operand_of(plan, kernel.group, node.input(0));
    for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
      const CopyAxis own{x.shape[axis], x.strides[axis], y.strides[axis]};
      if (axis == static_cast<std::size_t>(op.axis)) {
        line_ = own;
      } else {
        outer_.push_back(own);
      }
    }
    empty_ = element_count(x.shape) == 0;
    collapse_axes(outer_);
    // Lines that lie together share a vector; so do the elements of a line that lies together.
    const auto together = [](const CopyAxis& axis) {
      return axis.from == kFloat && axis.to == kFloat;
    };
    by_rows_ =
        together(line_) && !(line_.extent == 1 && !outer_.empty() && together(outer_.back()));
    tile_.extent = line_.extent;
    tile_.log = op.log;
    if (!outer_.empty() && (by_rows_ || together(outer_.back()))) {
      lines_ = outer_.back();
      outer_.pop_back();
    }
    const CopyAxis& step = by_rows_ ? lines_ : line_;
    tile_.x_step = step.from / kFloat;
    tile_.y_step = step.to / kFloat;
    const std::int64_t most =
        std::max<std::int64_t>(kTaskFloats / std::max<std::int64_t>(line_.extent, 1), 1);
    block_ = std::min((most + kAdjacent - 1) / kAdjacent * kAdjacent, lines_.extent);
    softmax_ = by_rows_ ? softmax_rows_function() : softmax_columns_function();
  }

  void run(const KernelArguments& arguments) const noexcept override {
    if (empty_) return;
    const std::int64_t blocks = (lines_.extent + block_ - 1) / block_;
    const std::int64_t tasks = count_of(outer_) * blocks;
    const bool small = count_of(outer_) * lines_.extent * line_.extent < kWorthWaking;
    parallel_for(small ? nullptr : arguments.pool, static_cast<std::size_t>(tasks),
                 [&](std::size_t index, std::size_t) {
                   const auto task = static_cast<std::int64_t>(index);
                   const CopyOffsets at = offsets_at(outer_, task / blocks);
                   const std::int64_t first = task % blocks * block_;
                   SoftmaxTile tile = tile_;
                   tile.x = static_cast<const float*>(x_.data(arguments)) +
                            (at.from + first * lines_.from) / kFloat;
                   tile.y = static_cast<float*>(arguments.outputs[0]) +
                            (at.to + first * lines_.to) / kFloat;
                   tile.count = std::min(block_, lines_.extent - first);
                   softmax_(tile);
                 });
  }

 private:
  static constexpr std::int64_t kTaskFloats = 8 * 1024;
  static constexpr std::int64_t kWorthWaking = 16 * 1024;  // floats
  static constexpr std::int64_t kAdjacent = 16;            // whole vectors and cache lines

  Operand x_;
  SoftmaxFn softmax_ = nullptr;
  SoftmaxTile tile_;
  std::vector<CopyAxis> outer_;
  CopyAxis line_, lines_;
  bool by_rows_ = true, empty_ = false;
  std::int64_t block_ = 1;  // lines of a task
};

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.kind() != OpKind::kSoftmax) return Support::no("operator", "runs Softmax only");
  const DType dtype = graph.value(node.input(0)).dtype;
  if (dtype != DType::kFloat32)
    return Support::no("dtype", std::string("computes in float, not ") + to_string(dtype));
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  constexpr double kFlops = 30;  // an exponential and three passes
  return streaming_work(
      graph, group,
      kFlops * static_cast<double>(element_count(graph.value(group.outputs[0]).shape)), 0.3);
}

}  // namespace

Row softmax() {
  KernelFamily family;
  family.name = "softmax";
  family.backend = "cpu";
  family.layouts = LayoutRule::kSame;
  family.pitched = true;
  family.in_place = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, [](const Plan& plan, const KernelPlan& kernel) -> std::unique_ptr<Kernel> {
            return std::make_unique<SoftmaxKernel>(plan, kernel);
          }};
}

}  // namespace braze::cpu
