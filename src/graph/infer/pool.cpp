// Pool, Reduce, ArgReduce.
#include <algorithm>

#include "graph/infer/infer.hpp"
#include "graph/window.hpp"

namespace braze::graph {
namespace {

Shape reduced_shape(const Shape& shape, const Ints& axes, bool keepdims) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i));
    if (!reduced) {
      result.push_back(shape[i]);
    } else if (keepdims) {
      result.push_back(1);
    }
  }
  return result;
}

}  // namespace

Types infer_op(const Pool& op, const NodeView& in) {
  const Shape& x = in.shape(0);
  const Window& window = op.window;
  if (x.size() < 3) in.invalid("x has shape {}, expected [N,C,spatial...]", to_string(x));
  if (x.size() > 5)
    in.unsupported("x has shape {}; at most 3 spatial axes are supported", to_string(x));
  ensure(window.pads_begin.size() == x.size() - 2 && window.auto_pad == AutoPad::kNotSet,
         "a resolved window has one entry per spatial axis");
  if (op.fn == PoolFn::kAverage && !is_float(in.dtype(0))) {
    in.invalid("x is {}, expected a float", to_string(in.dtype(0)));
  }
  Shape shape = {x[0], x[1]};
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const std::int64_t extent = window_extent(window.kernel[i], window.dilations[i]);
    const std::int64_t padded = x[i + 2] + window.pads_begin[i] + window.pads_end[i];
    const std::int64_t count =
        op.ceil_mode ? window_count_ceil(x[i + 2], window.pads_begin[i], window.pads_end[i], extent,
                                         window.strides[i])
                     : window_count(padded, extent, window.strides[i]);
    if (count < 1) {
      in.invalid(
          "the window covers {} elements of spatial axis {}, but x with its padding has only {}",
          extent, i, padded);
    }
    shape.push_back(count);
  }
  if (op.fn == PoolFn::kAverage) return {{in.dtype(0), shape}};
  return {{in.dtype(0), shape}, {DType::kInt64, shape}};
}

Types infer_op(const Reduce& op, const NodeView& in) {
  const bool extreme = op.fn == ReduceFn::kMax || op.fn == ReduceFn::kMin;
  if (in.dtype(0) == DType::kBool && !extreme) {
    in.invalid("{} does not take '{}' of dtype bool", to_string(op.fn), in.value(0).name);
  }
  ensure(!op.spatial && std::is_sorted(op.axes.begin(), op.axes.end()),
         "a resolved Reduce has ascending axes");
  return {{in.dtype(0), reduced_shape(in.shape(0), op.axes, op.keepdims)}};
}

Types infer_op(const ArgReduce& op, const NodeView& in) {
  const std::int64_t axis = in.axis(op.axis, in.rank(0));
  if (in.shape(0)[static_cast<std::size_t>(axis)] == 0)
    in.invalid("axis {} of '{}' is empty", axis, in.value(0).name);
  return {{DType::kInt64, reduced_shape(in.shape(0), {axis}, op.keepdims)}};
}

}  // namespace braze::graph
