// Conv, ConvTranspose, QLinearConv.
#include "graph/infer/infer.hpp"
#include "graph/window.hpp"

namespace braze::graph {
namespace {

/// x [N,C,spatial...] and w of the same rank, 1 to 3 spatial axes.
void check_ranks(const NodeView& in, std::size_t w) {
  if (in.rank(0) < 3)
    in.invalid("x has shape {}, expected [N,C,spatial...]", to_string(in.shape(0)));
  if (in.rank(0) > 5)
    in.unsupported("x has shape {}; at most 3 spatial axes are supported", to_string(in.shape(0)));
  if (in.rank(w) != in.rank(0)) {
    in.invalid("the weight has shape {}, expected rank {} as x has shape {}",
               to_string(in.shape(w)), in.rank(0), to_string(in.shape(0)));
  }
}

void check_window(const NodeView& in, const Window& window, std::size_t w) {
  const Shape& weight = in.shape(w);
  const auto spatial = static_cast<std::size_t>(in.rank(0) - 2);
  ensure(window.strides.size() == spatial && window.dilations.size() == spatial &&
             window.pads_begin.size() == spatial && window.pads_end.size() == spatial &&
             window.auto_pad == AutoPad::kNotSet,
         "a resolved window has one entry per spatial axis");
  if (!std::equal(window.kernel.begin(), window.kernel.end(), weight.begin() + 2, weight.end())) {
    in.invalid("kernel_shape is {}, but the weight has shape {}", to_string(window.kernel),
               to_string(weight));
  }
}

/// [N, K, spatial...] of a convolution whose weight [K,C/group,...] is input w.
Shape conv_shape(const NodeView& in, const Window& window, std::int64_t group, std::size_t w) {
  check_ranks(in, w);
  check_window(in, window, w);
  const Shape& x = in.shape(0);
  const Shape& weight = in.shape(w);
  if (group < 1 || weight[1] * group != x[1] || weight[0] % group != 0) {
    in.invalid(
        "weight {} with group {} does not fit x {}: expected [K, C/group, ...] with K divisible by "
        "group",
        to_string(weight), group, to_string(x));
  }
  Shape shape = {x[0], weight[0]};
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const std::int64_t padded = x[i + 2] + window.pads_begin[i] + window.pads_end[i];
    const std::int64_t extent = window_extent(window.kernel[i], window.dilations[i]);
    const std::int64_t count = window_count(padded, extent, window.strides[i]);
    if (count < 1) {
      in.invalid(
          "the window covers {} elements of spatial axis {}, but x with its padding has only {}",
          extent, i, padded);
    }
    shape.push_back(count);
  }
  return shape;
}

void expect_one_or(const NodeView& in, std::size_t i, const char* what, std::int64_t channels) {
  const Shape& shape = in.shape(i);
  if (element_count(shape) == 1 && shape.size() <= 1) return;
  in.expect_vector(i, what, channels);
}

}  // namespace

Types infer_op(const Conv& op, const NodeView& in) {
  in.expect_same_dtype(1, "the weight");
  in.expect_same_dtype(2, "the bias");
  Shape shape = conv_shape(in, op.window, op.group, 1);
  in.expect_vector(2, "the bias", shape[1]);
  return {{in.dtype(0), std::move(shape)}};
}

Types infer_op(const ConvTranspose& op, const NodeView& in) {
  in.expect_same_dtype(1, "the weight");
  in.expect_same_dtype(2, "the bias");
  check_ranks(in, 1);
  check_window(in, op.window, 1);
  const Shape& x = in.shape(0);
  const Shape& weight = in.shape(1);
  const Window& window = op.window;
  if (op.group < 1 || weight[0] != x[1] || x[1] % op.group != 0) {
    in.invalid(
        "weight {} with group {} does not fit x {}: expected [C, K/group, ...] with C divisible by "
        "group",
        to_string(weight), op.group, to_string(x));
  }
  Shape shape = {x[0], weight[1] * op.group};
  in.expect_vector(2, "the bias", shape[1]);
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const std::int64_t extent = window.strides[i] * (x[i + 2] - 1) + op.output_padding[i] +
                                window_extent(window.kernel[i], window.dilations[i]) -
                                window.pads_begin[i] - window.pads_end[i];
    if (extent < 1) in.invalid("the output would have {} elements on spatial axis {}", extent, i);
    shape.push_back(extent);
  }
  return {{in.dtype(0), std::move(shape)}};
}

Types infer_op(const QLinearConv& op, const NodeView& in) {
  Shape shape = conv_shape(in, op.window, op.group, 3);
  expect_one_or(in, 1, "x_scale", 1);
  expect_one_or(in, 2, "x_zero_point", 1);
  expect_one_or(in, 4, "w_scale", shape[1]);
  expect_one_or(in, 5, "w_zero_point", shape[1]);
  expect_one_or(in, 6, "y_scale", 1);
  expect_one_or(in, 7, "y_zero_point", 1);
  in.expect_vector(8, "the bias", shape[1]);
  in.expect_same_dtype(2, "x_zero_point");
  if (in.dtype(3) != in.dtype(5)) {
    in.invalid("w is {}, but w_zero_point is {}", to_string(in.dtype(3)), to_string(in.dtype(5)));
  }
  for (const std::size_t i : {0U, 3U, 7U}) {
    if (in.dtype(i) != DType::kInt8 && in.dtype(i) != DType::kUInt8) {
      in.invalid("'{}' is {}, expected int8 or uint8", in.value(i).name, to_string(in.dtype(i)));
    }
  }
  if (in.has(8) && in.dtype(8) != DType::kInt32) {
    in.invalid("the bias is {}, expected int32", to_string(in.dtype(8)));
  }
  return {{in.dtype(7), std::move(shape)}};
}

}  // namespace braze::graph
