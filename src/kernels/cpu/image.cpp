// Where the elements of a value lie, as an image.
#include "base/error.hpp"
#include "kernels/cpu/kernel.hpp"

namespace braze::cpu {

// Ranks below 3 are rows of channels: [c] is one of them, [n, c] are n. Spatial axes beyond the
// third join d.
Image image_of(const Plan& plan, ValueId id) {
  const Shape& shape = plan.graph.value(id).shape;
  const Placement& placement = plan.placements[static_cast<std::size_t>(id)];
  const std::size_t rank = shape.size();
  Image image;
  if (rank < 3) {
    ensure(placement.layout == Layout::kModel, "values of rank below 3 are in model layout");
    image.c = rank == 0 ? 1 : shape.back();
    image.n = rank == 2 ? shape[0] : 1;
    image.stride_c = 1;
    image.stride_n = image.stride_w = image.stride_h = image.stride_d = image.c;
    return image;
  }
  image.n = shape[0];
  image.c = shape[1];
  image.w = shape[rank - 1];
  if (rank > 3) image.h = shape[rank - 2];
  for (std::size_t axis = 2; axis + 2 < rank; ++axis) image.d *= shape[axis];

  const std::int64_t pixels = image.d * image.h * image.w;
  const bool channels_last = placement.layout == Layout::kChannelsLast;
  ensure(!channels_last || placement.pitch >= image.c, "a pixel's pitch covers its channels");
  image.stride_w = channels_last ? placement.pitch : 1;
  image.stride_h = image.stride_w * image.w;
  image.stride_d = image.stride_h * image.h;
  image.stride_c = channels_last ? 1 : pixels;
  image.stride_n = channels_last ? placement.pitch * pixels : pixels * image.c;
  return image;
}

}  // namespace braze::cpu
