// Quantize, Dequantize.
#include <algorithm>

#include "graph/interpret/call.hpp"

namespace braze::graph {
namespace {

/// Which entry of a scale or zero point (one for all, or one per element of the axis) belongs to
/// each element of x.
class PerAxis {
 public:
  PerAxis(const Shape& x, std::int64_t axis, std::int64_t entries)
      : entries_(static_cast<std::size_t>(entries)) {
    if (entries > 1)
      inner_ = static_cast<std::size_t>(element_count({x.begin() + axis + 1, x.end()}));
  }
  [[nodiscard]] std::size_t operator()(std::size_t element) const {
    return element / inner_ % entries_;
  }

 private:
  std::size_t entries_;
  std::size_t inner_ = 1;
};

Ints zero_points(const Call& call) {
  return call.has(2) ? call.load<std::int64_t>(2)
                     : Ints(static_cast<std::size_t>(call.input(1).count()), 0);
}

}  // namespace

/// The quotient is rounded to float before it is rounded to an integer, as the operator's types
/// say: 0.35f / 0.1f is 3.5.
void run_op(const Quantize& op, Call& call) {
  const auto x = call.load<double>(0);
  const auto scale = call.load<double>(1);
  const Ints zero = zero_points(call);
  const PerAxis entry(call.shape(), op.axis, call.input(1).count());
  const IntegerRange range = integer_range(call.output().dtype());
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = entry(i);
    const auto quotient = static_cast<double>(static_cast<float>(x[i] / scale[at]));
    const double value = std::nearbyint(quotient) + static_cast<double>(zero[at]);
    y[i] = std::clamp(value, static_cast<double>(range.low), static_cast<double>(range.high));
  }
  call.store(y);
}

void run_op(const Dequantize& op, Call& call) {
  const Ints x = call.load<std::int64_t>(0);
  const auto scale = call.load<double>(1);
  const Ints zero = zero_points(call);
  const PerAxis entry(call.shape(), op.axis, call.input(1).count());
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = static_cast<double>(x[i] - zero[entry(i)]) * scale[entry(i)];
  call.store(y);
}

}  // namespace braze::graph
