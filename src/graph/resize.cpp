#include "graph/resize.hpp"

#include <algorithm>
#include <cmath>

namespace braze {
namespace {

/// One axis. Real is float for nearest, whose result jumps where a coordinate is rounded: scales
/// are floats, and 8 / 1.6f is 5.
template <class Real>
struct Axis {
  Real input;   // elements
  Real output;  // elements
  Real scale;
  Real width;  // scale * input: the output's extent before it is rounded down
  Real roi_begin;
  Real roi_end;

  Axis(const Resize& op, std::size_t axis, std::int64_t extent)
      : input(static_cast<Real>(extent)),
        output(static_cast<Real>(op.sizes[axis])),
        scale(static_cast<Real>(op.scales[axis])),
        width(static_cast<Real>(op.scales[axis] * static_cast<double>(extent))),
        roi_begin(static_cast<Real>(op.roi[axis])),
        roi_end(static_cast<Real>(op.roi[op.roi.size() / 2 + axis])) {
    constexpr Real kFloatNoise = static_cast<Real>(1e-6);
    if (std::fabs(width - output) <= kFloatNoise * output) width = output;
  }

  /// The coordinate on the input of output element x.
  [[nodiscard]] Real coordinate(CoordinateMode mode, Real x) const {
    constexpr Real kHalf = static_cast<Real>(0.5);
    switch (mode) {
      case CoordinateMode::kHalfPixel:
        return (x + kHalf) / scale - kHalf;
      case CoordinateMode::kHalfPixelSymmetric: {
        const Real adjustment = output / width;
        const Real offset = input / 2 * (1 - adjustment);
        return offset + (x + kHalf) / scale - kHalf;
      }
      case CoordinateMode::kPytorchHalfPixel:
        return output > 1 ? (x + kHalf) / scale - kHalf : 0;
      case CoordinateMode::kAlignCorners:
        return width == 1 ? 0 : x * (input - 1) / (width - 1);
      case CoordinateMode::kAsymmetric:
        return x / scale;
      case CoordinateMode::kTfHalfPixelForNn:
        if (scale == 1 && input == output) return x;  // an axis that keeps its extent is not moved
        return (x + kHalf) / scale;
      case CoordinateMode::kTfCropAndResize:
        return output > 1
                   ? roi_begin * (input - 1) + x * (roi_end - roi_begin) * (input - 1) / (width - 1)
                   : (roi_begin + roi_end) * (input - 1) / 2;
    }
    return 0;
  }
};

template <class Real>
Real rounded(NearestMode mode, Real x) {
  constexpr Real kHalf = static_cast<Real>(0.5);
  switch (mode) {
    case NearestMode::kRoundPreferFloor:
      return std::ceil(x - kHalf);
    case NearestMode::kRoundPreferCeil:
      return std::floor(x + kHalf);
    case NearestMode::kFloor:
      return std::floor(x);
    case NearestMode::kCeil:
      return std::ceil(x);
  }
  return x;
}

double triangle(double distance) { return std::max(0.0, 1 - std::fabs(distance)); }

/// Keys' cubic convolution kernel.
double cubic(double distance, double a) {
  const double x = std::fabs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/// The elements within reach of `at`. With antialias a reduced image is filtered over as many
/// elements as it merges into one. An element outside of the input repeats the border, or does not
/// count if exclude_outside.
std::vector<ResizeTap> interpolation_taps(const Resize& op, double at, double scale,
                                          std::int64_t extent) {
  const bool linear = op.mode == ResizeMode::kLinear;
  const double stretch = op.antialias ? std::min(scale, 1.0) : 1.0;
  const double reach = (linear ? 1 : 2) / stretch;
  const auto first = static_cast<std::int64_t>(std::floor(at - reach)) + 1;
  const auto last = static_cast<std::int64_t>(std::ceil(at + reach)) - 1;
  std::vector<ResizeTap> taps;
  double sum = 0;
  for (std::int64_t i = first; i <= last; ++i) {
    const double distance = (static_cast<double>(i) - at) * stretch;
    const double weight = linear ? triangle(distance) : cubic(distance, op.cubic_a);
    const bool outside = i < 0 || i >= extent;
    if (weight == 0 || (outside && op.exclude_outside)) continue;
    taps.push_back({std::clamp<std::int64_t>(i, 0, extent - 1), weight});
    sum += weight;
  }
  if (taps.empty()) return {{std::clamp<std::int64_t>(std::llround(at), 0, extent - 1), 1.0}};
  for (ResizeTap& tap : taps) tap.weight /= sum;
  return taps;
}

}  // namespace

std::vector<std::vector<ResizeTap>> resize_taps(const Resize& op, std::size_t axis,
                                                std::int64_t extent) {
  const Axis<double> exact(op, axis, extent);
  const Axis<float> nearest(op, axis, extent);
  std::vector<std::vector<ResizeTap>> taps;
  for (std::int64_t i = 0; i < op.sizes[axis]; ++i) {
    const double at = exact.coordinate(op.coordinate, static_cast<double>(i));
    const bool outside = at < 0 || at > static_cast<double>(extent - 1);
    if (op.coordinate == CoordinateMode::kTfCropAndResize && outside) {
      taps.emplace_back();
    } else if (op.mode == ResizeMode::kNearest) {
      const float chosen =
          rounded(op.nearest, nearest.coordinate(op.coordinate, static_cast<float>(i)));
      taps.push_back(
          {{std::clamp<std::int64_t>(static_cast<std::int64_t>(chosen), 0, extent - 1), 1.0}});
    } else {
      taps.push_back(interpolation_taps(op, at, op.scales[axis], extent));
    }
  }
  return taps;
}

}  // namespace braze
