#include "kernels/strides.hpp"

#include "base/error.hpp"

namespace braze {

Ints axis_strides(const Plan& plan, ValueId id) {
  const Value& value = plan.graph.value(id);
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  const bool channels_last = !value.is_constant() && placement.layout == Layout::kChannelsLast;
  Ints strides(value.shape.size(), 1);
  std::int64_t stride = channels_last ? placement.pitch : 1;
  for (std::size_t axis = strides.size(); axis-- > (channels_last ? 2U : 0U);) {
    strides[axis] = stride;
    stride *= value.shape[axis];
  }
  if (channels_last) strides[0] = stride;
  return strides;
}

Ints broadcast_strides(const Plan& plan, ValueId id, const Shape& result) {
  Ints strides(result.size(), 0);
  const Shape& shape = plan.graph.value(id).shape;
  const Ints own = axis_strides(plan, id);
  ensure(shape.size() <= result.size(), "an operand's rank is at most its result's");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t axis = result.size() - shape.size() + i;
    ensure(shape[i] == 1 || shape[i] == result[axis], "an operand broadcasts to its result");
    if (shape[i] != 1) strides[axis] = own[i];
  }
  return strides;
}

ImageStrides image_strides(const Plan& plan, ValueId operand, const Shape& result) {
  const Ints strides = broadcast_strides(plan, operand, result);
  ImageStrides step;
  if (result.empty()) return step;
  if (result.size() == 1) {
    step.channel = strides[0];
    return step;
  }
  step.n = strides[0];
  step.channel = strides[1];
  if (result.size() == 2) step.pixel = step.n;
  std::int64_t pixels = 1;  // in the axes behind the present one
  for (std::size_t axis = result.size(); axis-- > 2;) {
    if (result[axis] == 1) continue;
    const std::int64_t stride = strides[axis];
    if (pixels == 1) step.pixel = stride;
    ensure(stride == step.pixel * pixels,
           "an epilogue's operand varies along all spatial axes or none");
    pixels *= result[axis];
  }
  return step;
}

}  // namespace braze
