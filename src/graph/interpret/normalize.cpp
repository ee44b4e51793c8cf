// BatchNorm, InstanceNorm, Lrn, Softmax. x is [N, C, image].
#include <algorithm>

#include "graph/interpret/call.hpp"

namespace braze::graph {
namespace {

struct Planes {
  std::size_t batch, channels, image;

  explicit Planes(const Shape& x)
      : batch(static_cast<std::size_t>(x[0])),
        channels(static_cast<std::size_t>(x[1])),
        image(static_cast<std::size_t>(element_count({x.begin() + 2, x.end()}))) {}
};

}  // namespace

/// y = (x - mean) / sqrt(variance + epsilon) * scale + bias
void run_op(const BatchNorm& op, Call& call) {
  const Planes planes(call.shape());
  auto x = call.load<double>(0);
  const auto scale = call.load<double>(1);
  const auto bias = call.load<double>(2);
  const auto mean = call.load<double>(3);
  const auto variance = call.load<double>(4);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i / planes.image % planes.channels;
    x[i] = (x[i] - mean[c]) / std::sqrt(variance[c] + op.epsilon) * scale[c] + bias[c];
  }
  call.store(x);
}

/// As BatchNorm, with the mean and (biased) variance of each image.
void run_op(const InstanceNorm& op, Call& call) {
  const Planes planes(call.shape());
  auto x = call.load<double>(0);
  const auto scale = call.load<double>(1);
  const auto bias = call.load<double>(2);
  const auto count = static_cast<double>(planes.image);
  for (std::size_t plane = 0; plane < planes.batch * planes.channels; ++plane) {
    const std::span<double> image(x.data() + plane * planes.image, planes.image);
    double mean = 0;
    for (const double value : image) mean += value / count;
    double variance = 0;
    for (const double value : image) variance += (value - mean) * (value - mean) / count;
    const std::size_t c = plane % planes.channels;
    for (double& value : image)
      value = (value - mean) / std::sqrt(variance + op.epsilon) * scale[c] + bias[c];
  }
  call.store(x);
}

/// y = x / (bias + alpha / size * sum of x^2 over `size` channels around it)^beta; an even size
/// reaches further up.
void run_op(const Lrn& op, Call& call) {
  const Planes planes(call.shape());
  const auto x = call.load<double>(0);
  std::vector<double> y(x.size());
  const auto below = static_cast<std::size_t>((op.size - 1) / 2);
  const auto above = static_cast<std::size_t>(op.size / 2);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i / planes.image % planes.channels;
    const std::size_t first = c - std::min(c, below);
    const std::size_t last = std::min(c + above, planes.channels - 1);
    double sum = 0;
    for (std::size_t other = first; other <= last; ++other) {
      const double value = x[i + other * planes.image - c * planes.image];
      sum += value * value;
    }
    y[i] = x[i] / std::pow(op.bias + op.alpha / static_cast<double>(op.size) * sum, op.beta);
  }
  call.store(y);
}

/// exp(x - max) / sum of exp(x - max), or its logarithm
void run_op(const Softmax& op, Call& call) {
  const Shape& shape = call.shape();
  auto x = call.load<double>(0);
  const auto extent = static_cast<std::size_t>(shape[static_cast<std::size_t>(op.axis)]);
  const auto inner =
      static_cast<std::size_t>(element_count({shape.begin() + op.axis + 1, shape.end()}));
  if (x.empty()) return;
  for (std::size_t line = 0; line < x.size() / extent; ++line) {
    double* first = x.data() + line / inner * extent * inner + line % inner;
    double max = first[0];
    for (std::size_t i = 0; i < extent; ++i) max = std::max(max, first[i * inner]);
    double sum = 0;
    for (std::size_t i = 0; i < extent; ++i) sum += std::exp(first[i * inner] - max);
    for (std::size_t i = 0; i < extent; ++i) {
      double& value = first[i * inner];
      value = op.log ? value - max - std::log(sum) : std::exp(value - max) / sum;
    }
  }
  call.store(x);
}

}  // namespace braze::graph
