// Pool: max (with indices) and average.
#include <algorithm>
#include <optional>

#include "graph/interpret/call.hpp"
#include "graph/window.hpp"

namespace braze::graph {
namespace {

/// Calls f(index) for each element of an image that the window at `output` covers; index has one
/// entry per spatial axis.
template <class F>
void for_each_covered(const Window& window, const Shape& image, const Shape& output, F&& f) {
  Shape tap(image.size(), 0);
  Shape index(image.size());
  for (;;) {
    bool covered = true;
    for (std::size_t i = 0; i < image.size(); ++i) {
      index[i] =
          output[i] * window.strides[i] - window.pads_begin[i] + tap[i] * window.dilations[i];
      covered = covered && index[i] >= 0 && index[i] < image[i];
    }
    if (covered) f(index);
    std::size_t axis = image.size();
    while (axis > 0 && ++tap[axis - 1] == window.kernel[axis - 1]) tap[--axis] = 0;
    if (axis == 0) return;
  }
}

/// Taps of the window at `output` that lie on the image or its padding: a window that ceil_mode
/// lets stick out counts only those.
std::int64_t padded_taps(const Window& window, const Shape& image, const Shape& output) {
  std::int64_t taps = 1;
  for (std::size_t i = 0; i < image.size(); ++i) {
    const std::int64_t start = output[i] * window.strides[i] - window.pads_begin[i];
    const std::int64_t room = image[i] + window.pads_end[i] - start;
    taps *= std::clamp<std::int64_t>(ceil_div(room, window.dilations[i]), 0, window.kernel[i]);
  }
  return taps;
}

std::int64_t flat_index(const Shape& index, const Shape& image, bool column_major) {
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::size_t axis = column_major ? index.size() - 1 - i : i;
    flat = flat * image[axis] + index[axis];
  }
  return flat;
}

/// Calls f(offset of the channel's image, output position) for each output element in order.
template <class F>
void for_each_output(const Shape& x, const Shape& y, F&& f) {
  const Shape extents(y.begin() + 2, y.end());
  const std::int64_t image = element_count({x.begin() + 2, x.end()});
  const std::int64_t outputs = element_count(extents);
  for (std::int64_t plane = 0; plane < y[0] * y[1]; ++plane) {
    for (std::int64_t at = 0; at < outputs; ++at) {
      Shape position(extents.size());
      std::int64_t rest = at;
      for (std::size_t i = extents.size(); i-- > 0; rest /= extents[i])
        position[i] = rest % extents[i];
      f(plane * image, position);
    }
  }
}

/// NaN wins. Of equal elements the first one gives the index.
template <class C>
void max_pool(const Pool& op, Call& call, C least) {
  const Shape& x_shape = call.shape();
  const Shape image(x_shape.begin() + 2, x_shape.end());
  const std::vector<C> x = call.load<C>(0);
  std::vector<C> y;
  Ints indices;
  for_each_output(x_shape, call.output().shape(), [&](std::int64_t plane, const Shape& position) {
    C best = least;
    std::optional<std::int64_t> best_index;
    for_each_covered(op.window, image, position, [&](const Shape& index) {
      const C value = x[static_cast<std::size_t>(plane + flat_index(index, image, false))];
      bool better = !best_index || value > best;
      if constexpr (std::same_as<C, double>)
        better = better || (std::isnan(value) && !std::isnan(best));
      if (!better) return;
      best = value;
      best_index = plane + flat_index(index, image, op.column_major_indices);
    });
    y.push_back(best);
    indices.push_back(best_index.value_or(plane));
  });
  call.store(y);
  if (call.wants(1)) store(std::span<const std::int64_t>(indices), call.output(1));
}

void average_pool(const Pool& op, Call& call) {
  const Shape& x_shape = call.shape();
  const Shape image(x_shape.begin() + 2, x_shape.end());
  const auto x = call.load<double>(0);
  std::vector<double> y;
  for_each_output(x_shape, call.output().shape(), [&](std::int64_t plane, const Shape& position) {
    double sum = 0;
    std::int64_t count = 0;
    for_each_covered(op.window, image, position, [&](const Shape& index) {
      sum += x[static_cast<std::size_t>(plane + flat_index(index, image, false))];
      ++count;
    });
    if (op.count_include_pad) count = padded_taps(op.window, image, position);
    y.push_back(count == 0 ? 0 : sum / static_cast<double>(count));
  });
  call.store(y);
}

}  // namespace

void run_op(const Pool& op, Call& call) {
  if (op.fn == PoolFn::kAverage) return average_pool(op, call);
  if (is_float(call.input(0).dtype()))
    return max_pool(op, call, -std::numeric_limits<double>::infinity());
  max_pool(op, call, integer_range(call.input(0).dtype()).low);
}

}  // namespace braze::graph
