// Where the elements of a placed value lie, and how an epilogue's operand steps along its result.
#pragma once

#include "graph/graph.hpp"
#include "plan/plan.hpp"

namespace braze {

/// Element strides of a value along its own axes; of a constant, those of its dense tensor.
Ints axis_strides(const Plan& plan, ValueId id);

/// Strides of a value for each axis of a result that it broadcasts to: 0 where it does not vary.
Ints broadcast_strides(const Plan& plan, ValueId id, const Shape& result);

/// Element strides along images, channels and pixels.
struct ImageStrides {
  std::int64_t n = 0, channel = 0, pixel = 0;
};

/// The strides, along a result [n, c, spatial...] ([n, c] or [c] below rank 3), of an operand that
/// broadcasts against it as classify_broadcast() allows. Of a result of rank 2, rows count as
/// images or as pixels, as a kernel likes.
ImageStrides image_strides(const Plan& plan, ValueId operand, const Shape& result);

}  // namespace braze
