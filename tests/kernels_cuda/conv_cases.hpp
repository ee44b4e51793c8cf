// Convolutions for the tests of the families.
#pragma once

#include "kernels_cuda/twin.hpp"

namespace braze::cuda::testing {

enum class Source { kNone, kConstant, kInput };

struct ConvCase {
  Shape x{1, 8, 9, 11};
  std::int64_t outputs = 8, group = 1;
  Ints kernel{3, 3}, strides{1, 1}, dilations{1, 1}, begin{1, 1}, end{1, 1};
  DType compute = DType::kFloat16;
  DType x_stored = compute, y_stored = compute;
  LayoutChoice in{Layout::kChannelsLast, 0}, out{Layout::kChannelsLast, 0};
  Source weights = Source::kConstant, bias = Source::kConstant;
  int after = 0;  // which epilogue, see conv_twin()
  unsigned seed = 1;
};

inline constexpr int kAfters = 10;

inline Twin conv_twin(const ConvCase& c) {
  Twin twin(c.compute, c.seed);
  const ValueId x = twin.input(twin.values(c.x), c.x_stored, c.in);
  Shape w{c.outputs, c.x[1] / c.group};
  w.insert(w.end(), c.kernel.begin(), c.kernel.end());
  const auto make = [&](Source source, const Shape& shape) {
    if (source == Source::kNone) return kNoValue;
    const Tensor tensor = twin.values(shape);
    return source == Source::kConstant ? twin.constant(tensor) : twin.input(tensor);
  };
  const ValueId weights = make(c.weights, w);
  const ValueId bias = make(c.bias, {c.outputs});
  Conv conv;
  conv.group = c.group;
  conv.window = {c.kernel, c.strides, c.dilations, c.begin, c.end, AutoPad::kNotSet};
  twin.anchor(conv, bias == kNoValue ? std::vector{x, weights} : std::vector{x, weights, bias});
  twin.magnitude = 4.0 * static_cast<double>(element_count(w) / c.outputs);
  const Shape y = twin.shape();
  Shape channels(y.size() - 1, 1);
  channels[0] = y[1];
  Shape image(y.size(), 1);
  image[0] = y[0], image[1] = y[1];
  Shape pixels = y;
  pixels[0] = pixels[1] = 1;
  switch (c.after) {
    case 0:
      break;
    case 1:
      twin.then(Unary{UnaryFn::kRelu});
      break;
    case 2:
      twin.then(BinaryFn::kAdd, twin.input(twin.values(y), c.compute, c.out));
      twin.then(Unary{UnaryFn::kRelu});
      break;
    case 3:
      twin.then(BinaryFn::kMul, twin.constant(twin.values(channels)));
      twin.then(BinaryFn::kSub, twin.constant(twin.values({1})), true);
      break;
    case 4:
      twin.then(Unary{UnaryFn::kClip, -2, 3});
      twin.then(BinaryFn::kMul, twin.input(twin.values(image)));
      break;
    case 5:
      twin.then(BinaryFn::kAdd, twin.constant(twin.values(pixels)));
      twin.then(Unary{UnaryFn::kLeakyRelu, 0.125});
      break;
    case 6:
      twin.then(BinaryFn::kPRelu, twin.constant(twin.values(channels)));
      twin.then(BinaryFn::kAdd, twin.input(twin.values(y), DType::kFloat32, {}));
      break;
    case 7:
      twin.then(Unary{UnaryFn::kHardSwish});
      twin.then(BinaryFn::kMax, twin.constant(twin.values(y)));
      break;
    case 8:
      twin.then(Unary{UnaryFn::kSilu});
      break;
    default:
      twin.then(Unary{UnaryFn::kGelu});
      break;
  }
  twin.store_as(c.y_stored, c.out);
  return twin;
}

/// A convolution of any kind, small.
inline ConvCase random_conv(std::mt19937& random, DType compute) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
  };
  const auto layout = [&] {
    if (pick(0, 2) == 0) return LayoutChoice{};
    constexpr std::int64_t kGaps[] = {0, 0, 4, 8, 3};
    return LayoutChoice{Layout::kChannelsLast, kGaps[pick(0, 4)]};
  };
  ConvCase c;
  c.compute = c.x_stored = c.y_stored = compute;
  const auto axes = static_cast<std::size_t>(pick(1, 10));
  const std::size_t rank = axes <= 7 ? 2 : axes <= 8 ? 1 : 3;
  constexpr std::int64_t kChannels[] = {3, 8, 16, 17, 20, 32, 40, 5};
  c.group = pick(0, 3) == 0 ? pick(2, 3) : 1;
  c.x = {pick(1, 2), kChannels[pick(0, 7)] * c.group};
  c.outputs = kChannels[pick(0, 7)] * c.group;
  c.kernel.clear(), c.strides.clear(), c.dilations.clear(), c.begin.clear(), c.end.clear();
  const bool pointwise = pick(0, 4) == 0;
  for (std::size_t i = 0; i < rank; ++i) {
    c.kernel.push_back(pointwise ? 1 : pick(1, 4));
    c.strides.push_back(pick(0, 2) == 0 ? 2 : 1);
    c.dilations.push_back(pick(0, 3) == 0 ? 2 : 1);
    c.begin.push_back(pointwise ? 0 : pick(0, 2));
    c.end.push_back(pointwise ? 0 : pick(0, 2));
    const std::int64_t covered = (c.kernel.back() - 1) * c.dilations.back() + 1;
    c.x.push_back(std::max<std::int64_t>(pick(3, rank == 3 ? 5 : 11), covered));
  }
  c.in = layout();
  c.out = layout();
  if (pick(0, 3) == 0) c.x_stored = DType::kFloat32;
  if (pick(0, 3) == 0) c.y_stored = DType::kFloat32;
  c.bias = static_cast<Source>(pick(0, 2));
  c.after = static_cast<int>(pick(0, kAfters - 1));
  c.seed = static_cast<unsigned>(random());
  return c;
}

}  // namespace braze::cuda::testing
