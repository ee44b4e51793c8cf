// Resizing images: what the files of the family share.
//
//   resize.cpp              the family's row: what it supports, which of these runs
//   resize_nearest.cpp      copies elements, of any dtype
//   resize_interpolate.cpp  linear and cubic, fp32: rows blended into one, then its pixels
//   resize_rows.cpp         the inner loops of that
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/resize.hpp"
#include "kernels/cpu/kernel.hpp"

namespace braze::cpu {

/// Taps of the output elements along one spatial axis.
using ResizeAxis = std::vector<std::vector<ResizeTap>>;
/// The three spatial axes of an image [n, c, d, h, w]; missing ones have one element.
struct ResizeAxes {
  ResizeAxis d, h, w;
};
ResizeAxes resize_axes(const Graph& graph, const Node& node);

std::unique_ptr<Kernel> resize_nearest(const Plan& plan, const KernelPlan& kernel);
std::unique_ptr<Kernel> resize_interpolate(const Plan& plan, const KernelPlan& kernel);

/// to[i] = sum over taps of weight * rows[tap.index * row_step + i] for i < count.
struct BlendRows {
  const float* rows = nullptr;
  std::int64_t row_step = 0;
  const ResizeTap* taps = nullptr;
  std::int64_t tap_count = 0;
  float* to = nullptr;
  std::int64_t count = 0;
};

/// A row whose pixels lie together becomes another one: y[o] = sum over taps of weight * x[index].
/// Blocks of `lanes` outputs; for each and each tap a first element, then indices from there on,
/// then weights (0 where an output has fewer taps).
struct PixelTaps {
  std::int64_t outputs = 0, taps = 1;
  bool nearby = true;  // all indices of a block are below `lanes`: a vector is loaded and permuted;
                       // else gathered
  std::vector<std::int64_t> first;
  std::vector<std::int32_t> index;
  std::vector<float> weight;
};

/// Pixels of `channels` that lie together: y[o, c] = sum over taps of weight * x[index, c].
struct ResizeChannels {
  const float* x = nullptr;
  std::int64_t x_step = 0;
  const ResizeAxis* axis = nullptr;
  float* y = nullptr;
  std::int64_t y_step = 0;
  std::int64_t channels = 0;
};

/// The inner loops of one instruction set.
struct ResizeLoops {
  int lanes = 1;
  void (*blend)(const BlendRows&) = nullptr;
  /// x may be read up to `lanes` elements behind its end.
  void (*pixels)(const PixelTaps&, const float* x, float* y) = nullptr;
  void (*channels)(const ResizeChannels&) = nullptr;
};
const ResizeLoops& resize_loops();  // of the instruction set in force

}  // namespace braze::cpu
