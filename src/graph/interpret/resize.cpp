// Resize: one axis after the other, as it is separable.
#include "graph/resize.hpp"
#include "graph/interpret/call.hpp"

namespace braze::graph {
namespace {

using Taps = std::vector<std::vector<ResizeTap>>;

std::vector<Taps> taps_of_axes(const Resize& op, const Shape& x) {
  std::vector<Taps> taps;
  taps.reserve(x.size());
  for (std::size_t axis = 0; axis < x.size(); ++axis)
    taps.push_back(resize_taps(op, axis, x[axis]));
  return taps;
}

/// Copies elements as they are.
void resize_nearest(const Resize& op, Call& call) {
  const Ints strides = dense_strides(call.shape());
  std::vector<Ints> tables;
  for (const Taps& taps : taps_of_axes(op, call.shape())) {
    Ints table;
    for (const std::vector<ResizeTap>& tap : taps) {
      table.push_back(tap.empty() ? kOutside : tap.front().index * strides[tables.size()]);
    }
    tables.push_back(std::move(table));
  }
  copy_elements(call.input(0), call.output(), tables,
                make_tensor(call.output().dtype(), {}, std::vector<double>{op.extrapolation}));
}

/// x [outer, extent, inner] -> [outer, taps.size(), inner]
std::vector<double> interpolate(const std::vector<double>& x, const Taps& taps, std::size_t outer,
                                std::size_t extent, std::size_t inner, double extrapolation) {
  std::vector<double> y;
  y.reserve(outer * taps.size() * inner);
  for (std::size_t o = 0; o < outer; ++o) {
    for (const std::vector<ResizeTap>& element : taps) {
      const std::size_t start = y.size();
      y.resize(start + inner, element.empty() ? extrapolation : 0);
      for (const ResizeTap& tap : element) {
        const double* from = x.data() + (o * extent + static_cast<std::size_t>(tap.index)) * inner;
        for (std::size_t i = 0; i < inner; ++i) y[start + i] += tap.weight * from[i];
      }
    }
  }
  return y;
}

bool is_identity(const Taps& taps, std::int64_t extent) {
  if (std::ssize(taps) != extent) return false;
  for (std::int64_t i = 0; i < extent; ++i) {
    const std::vector<ResizeTap>& tap = taps[static_cast<std::size_t>(i)];
    if (tap.size() != 1 || tap.front().index != i) return false;
  }
  return true;
}

}  // namespace

void run_op(const Resize& op, Call& call) {
  if (op.mode == ResizeMode::kNearest) return resize_nearest(op, call);
  Shape shape = call.shape();
  auto values = call.load<double>(0);
  const std::vector<Taps> taps = taps_of_axes(op, shape);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (is_identity(taps[axis], shape[axis])) continue;
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
    const auto outer = static_cast<std::size_t>(element_count({shape.begin(), at}));
    const auto inner = static_cast<std::size_t>(element_count({at + 1, shape.end()}));
    values = interpolate(values, taps[axis], outer, static_cast<std::size_t>(shape[axis]), inner,
                         op.extrapolation);
    shape[axis] = op.sizes[axis];
  }
  call.store(values);
}

}  // namespace braze::graph
