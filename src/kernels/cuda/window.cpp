#include "kernels/cuda/window.hpp"

#include "base/error.hpp"
#include "kernels/strides.hpp"

namespace braze::cuda {

ImageAxes image_axes(const Plan& plan, ValueId id) {
  const Shape& shape = plan.graph.value(id).shape;
  ensure(shape.size() >= 2 && shape.size() <= 5, "an image has at most three spatial axes");
  const Ints strides = axis_strides(plan, id);
  ImageAxes image;
  if (shape.size() == 2) {
    image.channels = shape[1];
    image.stride_channel = strides[1];
    image.extent[2] = static_cast<int>(shape[0]);
    image.stride[2] = strides[0];
    return image;
  }
  image.n = shape[0];
  image.channels = shape[1];
  image.stride_n = strides[0];
  image.stride_channel = strides[1];
  const std::size_t missing = 5 - shape.size();
  for (std::size_t axis = missing; axis < 3; ++axis) {
    image.extent[axis] = static_cast<int>(shape[axis + 2 - missing]);
    image.stride[axis] = strides[axis + 2 - missing];
  }
  return image;
}

bool offsets_fit(const ImageAxes& image) {
  std::int64_t last = image.channels;
  for (std::size_t axis = 0; axis < 3; ++axis) last += image.extent[axis] * image.stride[axis];
  return last < (std::int64_t{1} << 30);  // in the padding they are larger
}

}  // namespace braze::cuda
