// Operators that slide a window: Conv, ConvTranspose, QLinearConv, Pool.
#include "graph/window.hpp"

#include <algorithm>
#include <limits>

#include "graph/resolve/resolver.hpp"

namespace braze::graph {
namespace {

constexpr std::int64_t kLargest =
    std::numeric_limits<std::int32_t>::max();  // products of two fit into 64 bits

void fill(const NodeView& in, Ints& values, const char* what, std::size_t axes,
          std::int64_t standard, std::int64_t least) {
  if (values.empty()) values.assign(axes, standard);
  const bool fits = values.size() == axes &&
                    std::all_of(values.begin(), values.end(), [least](std::int64_t value) {
                      return value >= least && value <= kLargest;
                    });
  if (!fits) {
    in.invalid("{} are {}, expected {} numbers from {} to {}", what, to_string(values), axes, least,
               kLargest);
  }
}

/// Splits `total` into begin and end; the odd element goes where the mode says.
void split_pads(Window& window, std::size_t axis, std::int64_t total, bool more_at_end) {
  const std::int64_t less = total / 2;
  window.pads_begin[axis] = more_at_end ? less : total - less;
  window.pads_end[axis] = total - window.pads_begin[axis];
}

/// SAME: as many outputs as strides fit into the input, ceil(x / stride).
void same_pads(Window& window, const Shape& x) {
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const std::int64_t count = ceil_div(x[i + 2], window.strides[i]);
    const std::int64_t needed = (count - 1) * window.strides[i] +
                                window_extent(window.kernel[i], window.dilations[i]) - x[i + 2];
    split_pads(window, i, std::max<std::int64_t>(needed, 0),
               window.auto_pad == AutoPad::kSameUpper);
  }
}

}  // namespace

void resolve_window(Window& window, const Resolver& node, std::size_t w, bool transposed) {
  const NodeView in = node.in();
  const Shape x = node.shape(0);
  if (x.size() < 3) in.invalid("x has shape {}, expected [N,C,spatial...]", to_string(x));
  const std::size_t axes = x.size() - 2;
  if (w != 0) {
    const Shape weight = node.shape(w);
    if (weight.size() != x.size()) {
      in.invalid("the weight has shape {}, expected rank {} as x has shape {}", to_string(weight),
                 x.size(), to_string(x));
    }
    if (window.kernel.empty()) window.kernel.assign(weight.begin() + 2, weight.end());
  }
  if (window.kernel.size() != axes) {
    in.invalid("kernel_shape is {}, but x of shape {} has {} spatial axes",
               to_string(window.kernel), to_string(x), axes);
  }
  fill(in, window.kernel, "kernel_shape", axes, 1, 1);
  fill(in, window.strides, "strides", axes, 1, 1);
  fill(in, window.dilations, "dilations", axes, 1, 1);
  if (window.auto_pad != AutoPad::kNotSet) {
    window.pads_begin.assign(axes, 0);
    window.pads_end.assign(axes, 0);
  }
  fill(in, window.pads_begin, "pads", axes, 0, -kLargest);  // negative pads crop
  fill(in, window.pads_end, "pads", axes, 0, -kLargest);
  if (transposed) return;
  if (window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower)
    same_pads(window, x);
  window.auto_pad = AutoPad::kNotSet;
}

Attributes resolve_op(Conv op, Resolver& node) {
  resolve_window(op.window, node, 1);
  return op;
}

Attributes resolve_op(QLinearConv op, Resolver& node) {
  resolve_window(op.window, node, 3);
  return op;
}

/// y = stride * (x - 1) + output_padding + window - pads: a wanted y gives the pads. Without
/// output_shape, SAME wants y = x * stride.
Attributes resolve_op(ConvTranspose op, Resolver& node) {
  resolve_window(op.window, node, 1, true);
  Window& window = op.window;
  const NodeView in = node.in();
  const Shape x = node.shape(0);
  const std::size_t axes = x.size() - 2;
  fill(in, op.output_padding, "output_padding", axes, 0, 0);
  Ints wanted = op.output_shape;
  const bool same =
      window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower;
  if (wanted.empty() && same) {
    for (std::size_t i = 0; i < axes; ++i) wanted.push_back(x[i + 2] * window.strides[i]);
  } else if (wanted.size() == axes + 2) {
    wanted.erase(wanted.begin(), wanted.begin() + 2);  // N and C may be given as well
  }
  if (!wanted.empty()) {
    fill(in, wanted, "output_shape", axes, 1, 1);
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t total = window.strides[i] * (x[i + 2] - 1) + op.output_padding[i] +
                                 window_extent(window.kernel[i], window.dilations[i]) - wanted[i];
      split_pads(window, i, std::max<std::int64_t>(total, 0),
                 window.auto_pad == AutoPad::kSameUpper);
      if (total < 0) op.output_padding[i] -= total;
    }
  }
  op.output_shape.clear();
  window.auto_pad = AutoPad::kNotSet;
  return op;
}

Attributes resolve_op(Pool op, Resolver& node) {
  const bool same =
      op.window.auto_pad == AutoPad::kSameUpper || op.window.auto_pad == AutoPad::kSameLower;
  resolve_window(op.window, node, 0);
  if (same) op.ceil_mode = false;  // the pads make it exact
  return op;
}

}  // namespace braze::graph
