// y = x / (bias + alpha / size * sum of x^2 over `size` channels around it)^beta
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/lrn.cpp"
#include "kernels/cpu/lrn.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"
#include "kernels/cpu/vector_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

/// x * base^-beta. The usual beta needs square roots only.
HWY_INLINE Vec32 scaled(Vec32 x, Vec32 base, float beta) {
  if (beta == 0.75F) {
    const Vec32 root = hn::Sqrt(base);
    return hn::Div(x, hn::Mul(root, hn::Sqrt(root)));
  }
  return hn::Mul(x, exp(hn::Mul(splat(-beta), log(base))));
}

/// Pixels that lie together, channels a step apart.
void lrn_planes(const LrnTile& tile) {
  for (std::int64_t c = 0; c < tile.channels; ++c) {
    const std::int64_t first = c > tile.below ? c - tile.below : 0;
    const std::int64_t last =
        c + tile.above < tile.channels - 1 ? c + tile.above : tile.channels - 1;
    for (std::int64_t p = 0; p < tile.count; p += kLanes) {
      const auto rest = static_cast<std::size_t>(tile.count - p < kLanes ? tile.count - p : kLanes);
      Vec32 sum = hn::Zero(kF32);
      for (std::int64_t other = first; other <= last; ++other) {
        const Vec32 x = load_n(kF32, tile.x + other * tile.x_step + p, rest);
        sum = hn::MulAdd(x, x, sum);
      }
      const Vec32 base = hn::MulAdd(sum, splat(tile.alpha), splat(tile.bias));
      const Vec32 x = load_n(kF32, tile.x + c * tile.x_step + p, rest);
      store_n(scaled(x, base, tile.beta), kF32, tile.y + c * tile.y_step + p, rest);
    }
  }
}

/// Channels that lie together, pixels a step apart. tile.squares has room for below + channels +
/// above, rounded up to vectors.
void lrn_channels(const LrnTile& tile) {
  const std::int64_t padded = tile.below + tile.channels + tile.above + kLanes;
  for (std::int64_t i = 0; i < padded; ++i) tile.squares[i] = 0;
  for (std::int64_t p = 0; p < tile.count; ++p) {
    const float* x = tile.x + p * tile.x_step;
    float* y = tile.y + p * tile.y_step;
    for (std::int64_t c = 0; c < tile.channels; ++c) tile.squares[tile.below + c] = x[c] * x[c];
    for (std::int64_t c = 0; c < tile.channels; c += kLanes) {
      const auto rest =
          static_cast<std::size_t>(tile.channels - c < kLanes ? tile.channels - c : kLanes);
      Vec32 sum = hn::Zero(kF32);
      for (std::int64_t i = 0; i <= tile.below + tile.above; ++i)
        sum = hn::Add(sum, hn::LoadU(kF32, tile.squares + c + i));
      const Vec32 base = hn::MulAdd(sum, splat(tile.alpha), splat(tile.bias));
      store_n(scaled(load_n(kF32, x + c, rest), base, tile.beta), kF32, y + c, rest);
    }
  }
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "kernels/cpu/families.hpp"
#include "kernels/cpu/group.hpp"

namespace braze::cpu {
namespace {

HWY_EXPORT(lrn_planes);
HWY_EXPORT(lrn_channels);

constexpr std::int64_t kMostLanes = 64;  // of any instruction set

class LrnKernel final : public Kernel {
 public:
  LrnKernel(const Plan& plan, const KernelPlan& kernel) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    const auto& op = *node.as<Lrn>();
    x_image_ = image_of(plan, node.input(0));
    y_image_ = image_of(plan, stored_output(plan.graph, kernel.group));
    x_ = operand_of(plan, kernel.group, node.input(0));
    pixels_ = x_image_.d * x_image_.h * x_image_.w;
    channels_last_ = x_image_.channels_last() || x_image_.stride_w != 1 || y_image_.stride_w != 1;
    tile_.channels = x_image_.c;
    tile_.below = (op.size - 1) / 2, tile_.above = op.size / 2;
    tile_.alpha = static_cast<float>(op.alpha / static_cast<double>(op.size));
    tile_.beta = static_cast<float>(op.beta), tile_.bias = static_cast<float>(op.bias);
    tile_.x_step = channels_last_ ? x_image_.stride_w : x_image_.stride_c;
    tile_.y_step = channels_last_ ? y_image_.stride_w : y_image_.stride_c;
    block_ = std::clamp<std::int64_t>(kTaskFloats / std::max<std::int64_t>(x_image_.c, 1), 64,
                                      std::max<std::int64_t>(pixels_, 64));
    lrn_ = channels_last_ ? BRAZE_DISPATCH(lrn_channels) : BRAZE_DISPATCH(lrn_planes);
  }

  [[nodiscard]] std::size_t workspace_bytes(std::size_t threads) const override {
    return threads * sizeof(float) * static_cast<std::size_t>(scratch_floats());
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t blocks = (pixels_ + block_ - 1) / block_;
    const bool small = x_image_.n * x_image_.c * pixels_ < kTaskFloats;
    parallel_for(small ? nullptr : arguments.pool, static_cast<std::size_t>(x_image_.n * blocks),
                 [&](std::size_t task, std::size_t worker) {
                   const std::int64_t n = static_cast<std::int64_t>(task) / blocks;
                   const std::int64_t p = static_cast<std::int64_t>(task) % blocks * block_;
                   LrnTile tile = tile_;
                   tile.x = static_cast<const float*>(x_.data(arguments)) + n * x_image_.stride_n +
                            p * x_image_.stride_w;
                   tile.y = static_cast<float*>(arguments.outputs[0]) + n * y_image_.stride_n +
                            p * y_image_.stride_w;
                   tile.count = std::min(block_, pixels_ - p);
                   tile.squares = static_cast<float*>(arguments.workspace) +
                                  static_cast<std::int64_t>(worker) * scratch_floats();
                   lrn_(tile);
                 });
  }

 private:
  static constexpr std::int64_t kTaskFloats = 16 * 1024;
  [[nodiscard]] std::int64_t scratch_floats() const {
    return channels_last_ ? tile_.channels + tile_.below + tile_.above + kMostLanes : 0;
  }

  Image x_image_, y_image_;
  Operand x_;
  LrnTile tile_;
  std::int64_t pixels_ = 1, block_ = 1;
  bool channels_last_ = false;
  void (*lrn_)(const LrnTile&) = nullptr;
};

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.kind() != OpKind::kLrn) return Support::no("operator", "runs Lrn only");
  const Value& x = graph.value(node.input(0));
  if (x.dtype != DType::kFloat32)
    return Support::no("dtype", std::string("computes in float, not ") + to_string(x.dtype));
  if (x.shape.size() < 3) return Support::no("rank", "normalises images: x has no spatial axis");
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = anchor_of(graph, group);
  const auto elements = static_cast<double>(element_count(graph.value(node.input(0)).shape));
  return streaming_work(graph, group,
                        elements * (2.0 * static_cast<double>(node.as<Lrn>()->size) + 20), 0.2);
}

}  // namespace

Row lrn() {
  KernelFamily family;
  family.name = "lrn";
  family.backend = "cpu";
  family.layouts = LayoutRule::kSame;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, [](const Plan& plan, const KernelPlan& kernel) -> std::unique_ptr<Kernel> {
            return std::make_unique<LrnKernel>(plan, kernel);
          }};
}

}  // namespace braze::cpu
#endif
