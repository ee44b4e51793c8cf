// Resize: scales from sizes and sizes from scales, for every axis.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/resolve/resolver.hpp"

namespace braze::graph {
namespace {

/// Puts one entry per named axis at its place among all of them.
template <class T>
std::vector<T> spread(const std::vector<T>& values, const Ints& axes, std::vector<T> all) {
  for (std::size_t i = 0; i < axes.size(); ++i) all[static_cast<std::size_t>(axes[i])] = values[i];
  return all;
}

/// floor(x * scale) in float, as scales are floats: 10 * 0.7f is 7.
std::int64_t scaled_extent(std::int64_t extent, double scale) {
  return static_cast<std::int64_t>(
      std::floor(static_cast<float>(extent) * static_cast<float>(scale)));
}

void scales_from_sizes(Resize& op, const Shape& x, const Ints& axes) {
  op.scales.assign(x.size(), 1);
  for (const std::int64_t named : axes) {
    const auto axis = static_cast<std::size_t>(named);
    if (x[axis] > 0)
      op.scales[axis] = static_cast<double>(op.sizes[axis]) / static_cast<double>(x[axis]);
  }
  if (op.aspect == AspectPolicy::kStretch || axes.empty()) return;
  double scale = op.scales[static_cast<std::size_t>(axes[0])];
  for (const std::int64_t axis : axes) {
    const double other = op.scales[static_cast<std::size_t>(axis)];
    scale = op.aspect == AspectPolicy::kNotLarger ? std::min(scale, other) : std::max(scale, other);
  }
  for (const std::int64_t named : axes) {
    const auto axis = static_cast<std::size_t>(named);
    op.scales[axis] = scale;
    op.sizes[axis] =
        static_cast<std::int64_t>(std::floor(scale * static_cast<double>(x[axis]) + 0.5));
  }
}

}  // namespace

Attributes resolve_op(Resize op, Resolver& node) {
  const NodeView in = node.in();
  const Shape x = node.shape(0);
  const std::size_t rank = x.size();
  if (const auto roi = node.doubles(1); roi && op.coordinate == CoordinateMode::kTfCropAndResize)
    op.roi = *roi;
  if (const auto scales = node.doubles(2); scales && !scales->empty()) op.scales = *scales;
  if (const auto sizes = node.ints(3); sizes && !sizes->empty()) op.sizes = *sizes;
  node.drop_inputs(1);

  Ints axes = op.axes;
  for (std::int64_t& axis : axes) axis = in.axis(axis, std::ssize(x));
  normal_axes(in, axes, std::ssize(x));
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  const auto fits = [&axes](std::size_t entries) { return entries == 0 || entries == axes.size(); };
  const bool either = op.scales.empty() != op.sizes.empty() || axes.empty();
  if (!fits(op.scales.size()) || !fits(op.sizes.size()) || !either) {
    in.invalid("has {} scales and {} sizes, expected one or the other for each of {} axes",
               op.scales.size(), op.sizes.size(), axes.size());
  }
  op.axes.clear();
  const bool crops = op.coordinate == CoordinateMode::kTfCropAndResize && !op.roi.empty();
  if (crops && op.roi.size() != 2 * axes.size())
    in.invalid("has {} roi entries for {} axes", op.roi.size(), axes.size());
  std::vector<double> roi(2 * rank, 0);
  std::fill(roi.begin() + std::ssize(x), roi.end(), 1);
  for (std::size_t i = 0; crops && i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    roi[axis] = op.roi[i];
    roi[rank + axis] = op.roi[axes.size() + i];
  }
  op.roi = roi;

  if (!op.sizes.empty()) {
    op.sizes = spread(op.sizes, axes, x);
    scales_from_sizes(op, x, axes);
  } else {
    op.scales = spread(op.scales, axes, std::vector<double>(rank, 1));
    op.sizes = x;
    for (const std::int64_t named : axes) {
      const auto axis = static_cast<std::size_t>(named);
      if (!(op.scales[axis] > 0 && op.scales[axis] < 1e9))
        in.invalid("the scale of axis {} is {}", axis, op.scales[axis]);
      op.sizes[axis] = scaled_extent(x[axis], op.scales[axis]);
    }
  }
  op.aspect = AspectPolicy::kStretch;
  return op;
}

}  // namespace braze::graph
