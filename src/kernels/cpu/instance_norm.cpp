// y = (x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance over the pixels of
// one image and channel.
//
// Three passes: m = mean of x in fp32; then of d = x - m the mean e and the mean square; then y =
// (d - e) * k + bias with k = scale / sqrt(mean(d^2) - e^2 + epsilon). d is nearly exact and e
// makes up for the rounding of m, so that a large mean does no harm. Sums run in pieces.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/instance_norm.cpp"
#include "kernels/cpu/instance_norm.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/epilogue.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kPiece =
    256;  // additions of a lane before its sum joins the others, in double

/// sum += of lanes first, then across pieces in double.
HWY_INLINE double total(Vec32 v) {
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(kF32, v)));
}

/// One channel whose pixels lie together.
void normalize_plane(const NormTile& tile) {
  const std::int64_t n = tile.pixels;
  const auto sum_over = [&](auto term) BRAZE_INLINE {
    double sum = 0;
    for (std::int64_t begin = 0; begin < n; begin += kPiece * kLanes) {
      const std::int64_t end = begin + kPiece * kLanes < n ? begin + kPiece * kLanes : n;
      Vec32 even = hn::Zero(kF32), odd = hn::Zero(kF32);
      std::int64_t i = begin;
      for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
        even = term(hn::LoadU(kF32, tile.x + i), even);
        odd = term(hn::LoadU(kF32, tile.x + i + kLanes), odd);
      }
      for (; i + kLanes <= end; i += kLanes) even = term(hn::LoadU(kF32, tile.x + i), even);
      if (i < end) {
        const auto rest = static_cast<std::size_t>(end - i);
        odd =
            hn::IfThenElse(hn::FirstN(kF32, rest), term(load_n(kF32, tile.x + i, rest), odd), odd);
      }
      sum += total(hn::Add(even, odd));
    }
    return sum / static_cast<double>(n);
  };
  const auto mean =
      static_cast<float>(sum_over([](Vec32 x, Vec32 sum) BRAZE_INLINE { return hn::Add(sum, x); }));
  const Vec32 m = hn::Set(kF32, mean);
  const double rest =
      sum_over([m](Vec32 x, Vec32 sum) BRAZE_INLINE { return hn::Add(sum, hn::Sub(x, m)); });
  const double square = sum_over([m](Vec32 x, Vec32 sum) BRAZE_INLINE {
    const Vec32 d = hn::Sub(x, m);
    return hn::MulAdd(d, d, sum);
  });
  const NormFactors factors = norm_factors(rest, square, tile.epsilon, tile.scale[0], tile.bias[0]);
  const Vec32 k = hn::Set(kF32, factors.scale), b = hn::Set(kF32, factors.bias);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(kF32, tile.x + i), m), k, b), kF32, tile.y + i);
  if (i < n) {
    const auto count = static_cast<std::size_t>(n - i);
    store_n(hn::MulAdd(hn::Sub(load_n(kF32, tile.x + i, count), m), k, b), kF32, tile.y + i, count);
  }
}

/// Up to kNormChannels channels that lie together in each pixel.
void normalize_channels(const NormTile& tile) {
  const auto n = static_cast<double>(tile.pixels);
  double mean[kNormChannels] = {}, rest[kNormChannels] = {}, square[kNormChannels] = {};
  float m[kNormChannels] = {}, k[kNormChannels] = {}, b[kNormChannels] = {};
  for (std::int64_t c = 0; c < tile.channels; c += kLanes) {
    const auto count =
        static_cast<std::size_t>(tile.channels - c < kLanes ? tile.channels - c : kLanes);
    alignas(64) float lanes[kLanes];
    const auto add_lanes = [&](Vec32 v, double* to) BRAZE_INLINE {
      hn::Store(v, kF32, lanes);
      for (std::size_t i = 0; i < count; ++i)
        to[static_cast<std::size_t>(c) + i] += static_cast<double>(lanes[i]);
    };
    const auto pieces = [&](auto visit) BRAZE_INLINE {
      for (std::int64_t begin = 0; begin < tile.pixels; begin += kPiece)
        visit(begin, begin + kPiece < tile.pixels ? begin + kPiece : tile.pixels);
    };
    const auto load = [&](std::int64_t pixel) BRAZE_INLINE {
      return load_n(kF32, tile.x + pixel * tile.x_pixel + c, count);
    };
    pieces([&](std::int64_t begin, std::int64_t end) BRAZE_INLINE {
      Vec32 sum = hn::Zero(kF32);
      for (std::int64_t p = begin; p < end; ++p) sum = hn::Add(sum, load(p));
      add_lanes(sum, mean);
    });
    for (std::size_t i = static_cast<std::size_t>(c); i < static_cast<std::size_t>(c) + count; ++i)
      m[i] = static_cast<float>(mean[i] / n);
    const Vec32 center = load_n(kF32, m + c, count);
    pieces([&](std::int64_t begin, std::int64_t end) BRAZE_INLINE {
      Vec32 sum = hn::Zero(kF32), squares = hn::Zero(kF32);
      for (std::int64_t p = begin; p < end; ++p) {
        const Vec32 d = hn::Sub(load(p), center);
        sum = hn::Add(sum, d);
        squares = hn::MulAdd(d, d, squares);
      }
      add_lanes(sum, rest);
      add_lanes(squares, square);
    });
    for (std::size_t i = static_cast<std::size_t>(c); i < static_cast<std::size_t>(c) + count;
         ++i) {
      const NormFactors factors =
          norm_factors(rest[i] / n, square[i] / n, tile.epsilon, tile.scale[i], tile.bias[i]);
      k[i] = factors.scale, b[i] = factors.bias;
    }
  }
  for (std::int64_t p = 0; p < tile.pixels; ++p) {
    const float* x = tile.x + p * tile.x_pixel;
    float* y = tile.y + p * tile.y_pixel;
    std::int64_t c = 0;
    for (; c + kLanes <= tile.channels; c += kLanes) {
      const Vec32 d = hn::Sub(hn::LoadU(kF32, x + c), hn::LoadU(kF32, m + c));
      hn::StoreU(hn::MulAdd(d, hn::LoadU(kF32, k + c), hn::LoadU(kF32, b + c)), kF32, y + c);
    }
    if (c < tile.channels) {
      const auto count = static_cast<std::size_t>(tile.channels - c);
      const Vec32 d = hn::Sub(load_n(kF32, x + c, count), load_n(kF32, m + c, count));
      store_n(hn::MulAdd(d, load_n(kF32, k + c, count), load_n(kF32, b + c, count)), kF32, y + c,
              count);
    }
  }
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "graph/elements.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {

NormFactors norm_factors(double rest, double square, double epsilon, float scale, float bias) {
  const double k =
      static_cast<double>(scale) / std::sqrt(std::max(square - rest * rest, 0.0) + epsilon);
  return {static_cast<float>(k), static_cast<float>(static_cast<double>(bias) - rest * k)};
}

namespace {

HWY_EXPORT(normalize_plane);
HWY_EXPORT(normalize_channels);

class InstanceNormKernel final : public Kernel {
 public:
  InstanceNormKernel(const Plan& plan, const KernelPlan& kernel)
      : epilogue_(plan, kernel, kernel.group.members.front()) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    x_image_ = image_of(plan, node.input(0));
    y_image_ = image_of(plan, stored_output(plan.graph, kernel.group));
    x_ = operand_of(plan, kernel.group, node.input(0));
    scale_ = operand_of(plan, kernel.group, node.input(1));
    bias_ = operand_of(plan, kernel.group, node.input(2));
    epsilon_ = node.as<InstanceNorm>()->epsilon;
    pixels_ = x_image_.d * x_image_.h * x_image_.w;
    const bool together =
        x_image_.stride_w == 1 && y_image_.stride_w == 1;  // or one channel without gaps
    channels_last_ = !together && pixels_ > 1 && (x_image_.c == 1 || x_image_.channels_last());
    block_ = channels_last_ ? std::min(kNormChannels, std::max<std::int64_t>(x_image_.c, 1)) : 1;
    normalize_ =
        channels_last_ ? BRAZE_DISPATCH(normalize_channels) : BRAZE_DISPATCH(normalize_plane);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t blocks = (x_image_.c + block_ - 1) / block_;
    const bool small = x_image_.n * x_image_.c * pixels_ < kWorthWaking;
    if (pixels_ == 0) return;
    parallel_for(
        small ? nullptr : arguments.pool, static_cast<std::size_t>(x_image_.n * blocks),
        [&](std::size_t task, std::size_t) {
          const std::int64_t n = static_cast<std::int64_t>(task) / blocks;
          const std::int64_t c = static_cast<std::int64_t>(task) % blocks * block_;
          NormTile tile;
          tile.x = static_cast<const float*>(x_.data(arguments)) + n * x_image_.stride_n +
                   c * x_image_.stride_c;
          tile.y = static_cast<float*>(arguments.outputs[0]) + n * y_image_.stride_n +
                   c * y_image_.stride_c;
          tile.pixels = pixels_, tile.x_pixel = x_image_.stride_w, tile.y_pixel = y_image_.stride_w;
          tile.channels = std::min(block_, x_image_.c - c);
          tile.scale = static_cast<const float*>(scale_.data(arguments)) + c;
          tile.bias = static_cast<const float*>(bias_.data(arguments)) + c;
          tile.epsilon = epsilon_;
          normalize_(tile);
          if (epilogue_.empty()) return;
          epilogue_.apply(arguments, {tile.y, n, 0, pixels_, channels_last_ ? tile.y_pixel : 1, c,
                                      tile.channels, channels_last_ ? 1 : y_image_.stride_c});
        });
  }

 private:
  static constexpr std::int64_t kWorthWaking = 32 * 1024;  // elements

  TileEpilogue epilogue_;
  Image x_image_, y_image_;
  Operand x_, scale_, bias_;
  double epsilon_ = 0;
  std::int64_t pixels_ = 1, block_ = 1;
  bool channels_last_ = false;
  void (*normalize_)(const NormTile&) = nullptr;
};

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.kind() != OpKind::kInstanceNorm)
    return Support::no("operator", "runs InstanceNorm only");
  for (std::size_t i = 0; i < 3; ++i) {
    const DType dtype = graph.value(node.input(i)).dtype;
    if (dtype != DType::kFloat32)
      return Support::no("dtype", std::string("computes in float, not ") + to_string(dtype));
  }
  if (graph.value(node.input(0)).shape.size() < 3)
    return Support::no("rank", "normalises images: x has no spatial axis");
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = anchor_of(graph, group);
  return streaming_work(
      graph, group, 7 * static_cast<double>(element_count(graph.value(node.input(0)).shape)), 0.25);
}

}  // namespace

Row instance_norm() {
  KernelFamily family;
  family.name = "instance_norm";
  family.backend = "cpu";
  family.layouts = LayoutRule::kSame;
  family.epilogue = true;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, [](const Plan& plan, const KernelPlan& kernel) -> std::unique_ptr<Kernel> {
            return std::make_unique<InstanceNormKernel>(plan, kernel);
          }};
}

}  // namespace braze::cpu
#endif
