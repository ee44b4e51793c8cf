#include "kernels/cpu/copy_kernel.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace braze::cpu {

View dense_view(DType dtype, Shape shape) {
  View view;
  view.element_bytes = static_cast<std::int64_t>(size_of(dtype));
  view.shape = std::move(shape);
  view.strides.resize(view.shape.size());
  std::int64_t stride = view.element_bytes;
  for (std::size_t axis = view.shape.size(); axis-- > 0;) {
    view.strides[axis] = stride;
    stride *= view.shape[axis];
  }
  return view;
}

View view_of(const Plan& plan, ValueId id) {
  const Value& value = plan.graph.value(id);
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  View view = dense_view(value.dtype, value.shape);
  if (value.is_constant() || placement.layout == Layout::kModel) return view;
  ensure(value.shape.size() >= 3, "only images are channels-last");
  view.strides[1] = view.element_bytes;
  std::int64_t stride = placement.pitch * view.element_bytes;
  for (std::size_t axis = view.shape.size(); axis-- > 2;) {
    view.strides[axis] = stride;
    stride *= view.shape[axis];
  }
  view.strides[0] = stride;
  return view;
}

void CopyKernel::add(Operand from, int output, StridedCopy copy) {
  if (output < 0 || copy.tasks() == 0) return;
  const std::int64_t first = tasks_;
  tasks_ += copy.tasks();
  bytes_ += copy.bytes();
  pieces_.push_back({std::move(from), output, std::move(copy), first});
}

void CopyKernel::add(Operand from, const View& from_view, int output, const View& to_view,
                     std::int64_t from_offset, std::int64_t to_offset) {
  ensure(from_view.shape == to_view.shape, "a copy has one shape");
  std::vector<CopyAxis> axes;
  for (std::size_t axis = 0; axis < to_view.shape.size(); ++axis) {
    axes.push_back({to_view.shape[axis], from_view.strides[axis], to_view.strides[axis]});
  }
  add(std::move(from), output,
      StridedCopy(to_view.element_bytes, std::move(axes), from_offset, to_offset));
}

void CopyKernel::run(const KernelArguments& arguments) const noexcept {
  // Waking the workers takes longer than to copy this.
  constexpr std::int64_t kWorthWaking = 4 * StridedCopy::kTaskBytes;
  parallel_for(bytes_ < kWorthWaking ? nullptr : arguments.pool, static_cast<std::size_t>(tasks_),
               [&](std::size_t index, std::size_t) {
                 const auto task = static_cast<std::int64_t>(index);
                 const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), task,
                                                     [](std::int64_t value, const Piece& piece) {
                                                       return value < piece.first_task;
                                                     });
                 const Piece& piece = *std::prev(after);
                 piece.copy.run_task(task - piece.first_task, piece.from.data(arguments),
                                     arguments.outputs[static_cast<std::size_t>(piece.output)]);
               });
}

}  // namespace braze::cpu
