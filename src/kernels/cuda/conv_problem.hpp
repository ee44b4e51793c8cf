// A Conv node as numbers: what the convolution families share.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/kernel.hpp"
#include "kernels/cuda/kernel.hpp"

namespace braze::cuda {

/// Axes are depth, height, width; missing outer ones have extent 1. Channels and outputs are
/// counted within a group.
struct ConvProblem {
  std::int64_t batch = 1, groups = 1, channels = 1, outputs = 1;
  std::array<std::int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, pad{0, 0, 0};

  [[nodiscard]] std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  [[nodiscard]] std::int64_t pixels() const { return out[0] * out[1] * out[2]; }
  [[nodiscard]] double flops() const;
};
ConvProblem conv_problem(const Graph& graph, const Node& node);

/// A Conv of a rank, dtype and size that kernels with 32-bit coordinates take.
Support supports_conv(const Graph& graph, const Node& node);

/// How a tile of an image result is stored: channels that one thread takes at once, whether they
/// are stored at once, and whether adjacent threads take adjacent pixels rather than channels.
struct StoreShape {
  int vector = 8;
  bool at_once = false;
  bool along_pixels = false;
};
/// For a result whose channels come in groups of `outputs`.
StoreShape store_shape(const Plan& plan, ValueId result, std::int64_t groups, std::int64_t outputs);

}  // namespace braze::cuda
