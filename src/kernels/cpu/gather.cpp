// Gather along one axis: runs of elements picked by indices, which may be run-time values. Model
// layout.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

class GatherKernel final : public Kernel {
 public:
  GatherKernel(const Plan& plan, const KernelPlan& kernel) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    const Value& x = plan.graph.value(node.input(0));
    const Value& indices = plan.graph.value(node.input(1));
    const auto axis = static_cast<std::size_t>(node.as<Gather>()->axis);
    x_ = operand_of(plan, kernel.group, node.input(0));
    indices_ = operand_of(plan, kernel.group, node.input(1));
    wide_indices_ = indices.dtype == DType::kInt64;
    for (std::size_t i = 0; i < axis; ++i) outer_ *= x.shape[i];
    extent_ = x.shape[axis];
    run_ = static_cast<std::int64_t>(size_of(x.dtype));
    for (std::size_t i = axis + 1; i < x.shape.size(); ++i) run_ *= x.shape[i];
    picks_ = element_count(indices.shape);
    where_ = fmt::format("node '{}' (Gather)", node.id);
    axis_ = node.as<Gather>()->axis;
    if (indices_.input < 0) check(indices_.constant.data(), ErrorCode::kModelInvalid);
  }

  void run(const KernelArguments& arguments) const override {
    if (indices_.input >= 0) check(indices_.data(arguments), ErrorCode::kInput);
    const std::int64_t total = outer_ * picks_;
    if (total == 0 || run_ == 0) return;
    const std::int64_t per_task = std::max<std::int64_t>(kTaskBytes / run_, 1);
    const auto tasks = static_cast<std::size_t>((total + per_task - 1) / per_task);
    parallel_for(tasks < kWorthWaking ? nullptr : arguments.pool, tasks,
                 [&](std::size_t task, std::size_t) {
                   const std::int64_t begin = static_cast<std::int64_t>(task) * per_task;
                   copy(arguments, begin, std::min(begin + per_task, total));
                 });
  }

 private:
  static constexpr std::int64_t kTaskBytes = 32 * 1024;
  static constexpr std::size_t kWorthWaking = 4;

  [[nodiscard]] std::int64_t raw_index(const void* indices, std::int64_t i) const {
    return wide_indices_ ? static_cast<const std::int64_t*>(indices)[i]
                         : static_cast<const std::int32_t*>(indices)[i];
  }
  /// Negative indices count from the end. Clamped, since the caller could write to the indices
  /// after check() has read them: memory that is not x's is never read.
  [[nodiscard]] std::int64_t index(const void* indices, std::int64_t i) const {
    std::int64_t value = raw_index(indices, i);
    if (value < 0) value += extent_;
    return std::min(std::max<std::int64_t>(value, 0), extent_ - 1);
  }
  /// Fails with `code` if an index is outside of the axis.
  void check(const void* indices, ErrorCode code) const {
    for (std::int64_t i = 0; i < picks_; ++i) {
      const std::int64_t value = raw_index(indices, i);
      if (value >= -extent_ && value < extent_) continue;
      fail(code, "{}: index {} is outside of the {} elements of axis {}", where_, value, extent_,
           axis_);
    }
  }

  void copy(const KernelArguments& arguments, std::int64_t begin, std::int64_t end) const {
    const auto* x = static_cast<const std::uint8_t*>(x_.data(arguments));
    const void* indices = indices_.data(arguments);
    auto* y = static_cast<std::uint8_t*>(arguments.outputs[0]);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t from = (i / picks_ * extent_ + index(indices, i % picks_)) * run_;
      std::memcpy(y + i * run_, x + from, static_cast<std::size_t>(run_));
    }
  }

  std::string where_;  // the node, for errors
  std::int64_t axis_ = 0;
  Operand x_, indices_;
  bool wide_indices_ = true;
  std::int64_t outer_ = 1, extent_ = 0, picks_ = 0;
  std::int64_t run_ = 0;  // bytes
};

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.kind() != OpKind::kGather) return Support::no("operator", "runs Gather only");
  if (graph.value(node.input(0)).shape[static_cast<std::size_t>(node.as<Gather>()->axis)] == 0) {
    return Support::no("empty-axis", "there is nothing to pick from");
  }
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  Work work;
  work.dram_bytes = 2 * bytes_of(graph, group.outputs[0]);
  return work;
}

}  // namespace

Row gather() {
  KernelFamily family;
  family.name = "gather";
  family.backend = "cpu";
  family.layouts = LayoutRule::kModelOnly;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, [](const Plan& plan, const KernelPlan& kernel) -> std::unique_ptr<Kernel> {
            return std::make_unique<GatherKernel>(plan, kernel);
          }};
}

}  // namespace braze::cpu
