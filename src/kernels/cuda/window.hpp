// Images and sliding windows of kernels with up to three spatial axes.
#pragma once

#include "kernels/cuda/emit.hpp"

namespace braze::cuda {

/// An image's extents and element strides along depth, height and width; missing outer axes have
/// extent 1. Rank 3 to 5; the rows of a matrix are pixels along the width.
struct ImageAxes {
  std::int64_t n = 1, channels = 1;
  std::int64_t stride_n = 0, stride_channel = 0;
  int extent[3] = {1, 1, 1};
  std::int64_t stride[3] = {0, 0, 0};
};
ImageAxes image_axes(const Plan& plan, ValueId id);

/// Do the offsets of all elements of one image fit an int?
bool offsets_fit(const ImageAxes& image);

/// Fills kernel, stride, dilation and pad, each of depth, height and width.
template <class Block>
void set_window(Block& block, const Window& window) {
  const std::size_t missing = 3 - window.kernel.size();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const bool exists = axis >= missing;
    const std::size_t i = exists ? axis - missing : 0;
    block.kernel[axis] = exists ? static_cast<int>(window.kernel[i]) : 1;
    block.stride[axis] = exists ? static_cast<int>(window.strides[i]) : 1;
    block.dilation[axis] = exists ? static_cast<int>(window.dilations[i]) : 1;
    block.pad[axis] = exists ? static_cast<int>(window.pads_begin[i]) : 0;
  }
}

}  // namespace braze::cuda
