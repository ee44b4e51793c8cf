// Conv, ConvTranspose, QLinearConv: y[n,k,o] = bias[k] + sum over c, t of w[k,c,t] * x[n, c, o *
// stride - pad + t * dilation].
#include <algorithm>

#include "graph/interpret/call.hpp"

namespace braze::graph {
namespace {

using Extents = std::array<std::int64_t, 3>;

/// One window with exactly three spatial axes; missing outer ones have extent 1.
struct Geometry {
  std::int64_t batch, groups, group_inputs, group_outputs;
  Extents input{1, 1, 1}, output{1, 1, 1};
  Extents kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0};

  /// x and y are [N, channels, spatial...].
  Geometry(const Window& window, const Shape& x, const Shape& y, std::int64_t group)
      : batch(x[0]), groups(group), group_inputs(x[1] / group), group_outputs(y[1] / group) {
    const std::size_t axes = x.size() - 2;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::size_t at = 3 - axes + i;
      input[at] = x[i + 2];
      output[at] = y[i + 2];
      kernel[at] = window.kernel[i];
      stride[at] = window.strides[i];
      dilation[at] = window.dilations[i];
      pad[at] = window.pads_begin[i];
    }
  }
};

std::int64_t volume(const Extents& extents) { return extents[0] * extents[1] * extents[2]; }

struct Interval {
  std::int64_t begin, end;  // end is exclusive
};

/// The positions p in [0, count) for which p * stride + offset lies in [0, extent).
Interval inside(std::int64_t count, std::int64_t stride, std::int64_t offset, std::int64_t extent) {
  const auto first_at_or_after = [&](std::int64_t target) {
    const std::int64_t distance = target - offset;
    return distance <= 0 ? 0 : (distance + stride - 1) / stride;
  };
  return {std::min(first_at_or_after(0), count), std::min(first_at_or_after(extent), count)};
}

/// Calls f(tap, output row, input row) for each pair of rows (along the innermost axis) that a tap
/// of the kernel's outer two axes joins. Rows and taps count through both axes; `forward` is the
/// geometry of a plain convolution.
template <class F>
void for_each_row_pair(const Geometry& g, F&& f) {
  for (std::int64_t td = 0; td < g.kernel[0]; ++td) {
    const std::int64_t offset_d = td * g.dilation[0] - g.pad[0];
    const Interval d = inside(g.output[0], g.stride[0], offset_d, g.input[0]);
    for (std::int64_t th = 0; th < g.kernel[1]; ++th) {
      const std::int64_t offset_h = th * g.dilation[1] - g.pad[1];
      const Interval h = inside(g.output[1], g.stride[1], offset_h, g.input[1]);
      for (std::int64_t od = d.begin; od < d.end; ++od) {
        for (std::int64_t oh = h.begin; oh < h.end; ++oh) {
          f(td * g.kernel[1] + th, od * g.output[1] + oh,
            (od * g.stride[0] + offset_d) * g.input[1] + oh * g.stride[1] + offset_h);
        }
      }
    }
  }
}

/// y += w * x. y [N,K,...] holds the bias, or zero.
template <class T>
void convolve(const Geometry& g, const std::vector<T>& x, const std::vector<T>& w,
              std::vector<T>& y) {
  const std::int64_t x_image = volume(g.input);
  const std::int64_t y_image = volume(g.output);
  const std::int64_t taps = volume(g.kernel);
  const std::int64_t outputs = g.groups * g.group_outputs;
  for (std::int64_t nk = 0; nk < g.batch * outputs; ++nk) {
    const std::int64_t n = nk / outputs;
    const std::int64_t k = nk % outputs;
    T* y_plane = y.data() + nk * y_image;
    for (std::int64_t c = 0; c < g.group_inputs; ++c) {
      const std::int64_t channel = k / g.group_outputs * g.group_inputs + c;
      const T* x_plane = x.data() + (n * g.groups * g.group_inputs + channel) * x_image;
      const T* w_plane = w.data() + (k * g.group_inputs + c) * taps;
      for_each_row_pair(g, [&](std::int64_t tap, std::int64_t y_row, std::int64_t x_row) {
        for (std::int64_t tw = 0; tw < g.kernel[2]; ++tw) {
          const T weight = w_plane[tap * g.kernel[2] + tw];
          const std::int64_t offset = tw * g.dilation[2] - g.pad[2];
          const Interval columns = inside(g.output[2], g.stride[2], offset, g.input[2]);
          T* to = y_plane + y_row * g.output[2];
          const T* from = x_plane + x_row * g.input[2] + offset;
          const std::int64_t stride = g.stride[2];
          if (stride == 1) {
            for (std::int64_t i = columns.begin; i < columns.end; ++i) to[i] += weight * from[i];
          } else {
            for (std::int64_t i = columns.begin; i < columns.end; ++i)
              to[i] += weight * from[i * stride];
          }
        }
      });
    }
  }
}

/// The transpose of a convolution from y to x: `g` is that convolution's geometry, so its input is
/// y and its output x.
template <class T>
void convolve_transposed(const Geometry& g, const std::vector<T>& x, const std::vector<T>& w,
                         std::vector<T>& y) {
  const std::int64_t x_image = volume(g.output);
  const std::int64_t y_image = volume(g.input);
  const std::int64_t taps = volume(g.kernel);
  const std::int64_t x_channels = g.groups * g.group_outputs;
  for (std::int64_t nc = 0; nc < g.batch * x_channels; ++nc) {
    const std::int64_t n = nc / x_channels;
    const std::int64_t c = nc % x_channels;
    const T* x_plane = x.data() + nc * x_image;
    for (std::int64_t k = 0; k < g.group_inputs; ++k) {
      const std::int64_t channel = c / g.group_outputs * g.group_inputs + k;
      T* y_plane = y.data() + (n * g.groups * g.group_inputs + channel) * y_image;
      const T* w_plane = w.data() + (c * g.group_inputs + k) * taps;
      for_each_row_pair(g, [&](std::int64_t tap, std::int64_t x_row, std::int64_t y_row) {
        for (std::int64_t tw = 0; tw < g.kernel[2]; ++tw) {
          const T weight = w_plane[tap * g.kernel[2] + tw];
          const std::int64_t offset = tw * g.dilation[2] - g.pad[2];
          const Interval columns = inside(g.output[2], g.stride[2], offset, g.input[2]);
          T* to = y_plane + y_row * g.input[2] + offset;
          const T* from = x_plane + x_row * g.output[2];
          for (std::int64_t i = columns.begin; i < columns.end; ++i)
            to[i * g.stride[2]] += weight * from[i];
        }
      });
    }
  }
}

/// [N,K,...] filled with bias[k] (input i of the node), or with zero.
template <class T>
std::vector<T> start_with_bias(const Call& call, std::size_t i, const Shape& y) {
  std::vector<T> values(static_cast<std::size_t>(element_count(y)), T{});
  if (!call.has(i)) return values;
  const std::vector<T> bias = call.load<T>(i);
  const std::size_t image =
      values.size() / std::max<std::size_t>(static_cast<std::size_t>(y[0] * y[1]), 1);
  for (std::size_t at = 0; at < values.size(); ++at) values[at] = bias[at / image % bias.size()];
  return values;
}

template <class T>
T per_channel(const std::vector<T>& values, std::size_t channel) {
  return values.size() == 1 ? values[0] : values[channel];
}

}  // namespace

void run_op(const Conv& op, Call& call) {
  const Shape& shape = call.output().shape();
  auto y = start_with_bias<double>(call, 2, shape);
  convolve(Geometry(op.window, call.shape(0), shape, op.group), call.load<double>(0),
           call.load<double>(1), y);
  call.store(y);
}

void run_op(const ConvTranspose& op, Call& call) {
  const Shape& shape = call.output().shape();
  auto y = start_with_bias<double>(call, 2, shape);
  convolve_transposed(Geometry(op.window, shape, call.shape(0), op.group), call.load<double>(0),
                      call.load<double>(1), y);
  call.store(y);
}

/// y = saturate(round(conv(x - x_zero, w - w_zero) + bias, scaled by x_scale * w_scale / y_scale) +
/// y_zero)
void run_op(const QLinearConv& op, Call& call) {
  const Shape& shape = call.output().shape();
  auto x = call.load<std::int64_t>(0);
  const auto x_zero = call.scalar<std::int64_t>(2);
  for (std::int64_t& value : x) value -= x_zero;
  auto w = call.load<std::int64_t>(3);
  const auto w_zero = call.load<std::int64_t>(5);
  const std::size_t filter =
      w.size() / std::max<std::size_t>(static_cast<std::size_t>(shape[1]), 1);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] -= per_channel(w_zero, i / filter);

  auto sums = start_with_bias<std::int64_t>(call, 8, shape);
  convolve(Geometry(op.window, call.shape(0), shape, op.group), x, w, sums);

  const auto w_scale = call.load<double>(4);
  const double scale = call.scalar<double>(1) / call.scalar<double>(6);
  const auto y_zero = call.scalar<std::int64_t>(7);
  const IntegerRange range = integer_range(call.output().dtype());
  const std::size_t image =
      sums.size() / std::max<std::size_t>(static_cast<std::size_t>(shape[0] * shape[1]), 1);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t k = i / image % static_cast<std::size_t>(shape[1]);
    const double scaled =
        std::nearbyint(static_cast<double>(sums[i]) * scale * per_channel(w_scale, k));
    sums[i] = static_cast<std::int64_t>(std::clamp(scaled + static_cast<double>(y_zero),
                                                   static_cast<double>(range.low),
                                                   static_cast<double>(range.high)));
  }
  call.store(sums);
}

}  // namespace braze::graph
