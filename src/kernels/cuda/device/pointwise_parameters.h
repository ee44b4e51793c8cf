// Run-time parameters of pointwise.cuh.
#pragma once

#include "braze/divisor.h"

namespace braze::device {

inline constexpr int kPointwiseOperands = 16;
inline constexpr int kPointwiseValues = 24;
inline constexpr int kPointwiseAxes = 8;

/// y[at] = f(x0[at], x1[at], ...) over a box: axes are outermost first, strides in elements, 0
/// where an operand does not vary. The last axis counts groups of V elements.
struct PointwiseParameters {
  void* y;
  const void* x[kPointwiseOperands];
  long long count;  // of groups
  Divisor extent[kPointwiseAxes];
  long long y_stride[kPointwiseAxes];
  long long x_stride[kPointwiseOperands][kPointwiseAxes];
  long long y_step, x_step[kPointwiseOperands];  // from element to element of a group
  float value[kPointwiseValues];                 // bounds and slopes
  double wide_value[2];                          // the anchor's, where it computes in double,
  long long integer_value[2];                    // and in integers
};

}  // namespace braze::device
