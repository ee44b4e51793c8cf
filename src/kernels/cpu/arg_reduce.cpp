// ArgReduce: the first (or last) of equal extrema; NaN is never larger nor smaller than another
// element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/arg_reduce.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/reduce.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

using I32 = hn::RebindToSigned<F32>;
constexpr I32 kI32{};

/// Which of two elements, the second of higher index, is taken.
template <bool kMax, bool kLast>
HWY_INLINE hn::Mask<F32> better(Vec32 value, Vec32 than) {
  if constexpr (kMax) return kLast ? hn::Ge(value, than) : hn::Gt(value, than);
  return kLast ? hn::Le(value, than) : hn::Lt(value, than);
}

/// where[i] of `count` lines that lie together; their elements are `step` apart.
template <bool kMax, bool kLast>
void arg_columns(const float* x, std::int64_t step, std::int64_t extent, std::int64_t count,
                 std::int32_t* where) {
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const auto rest = static_cast<std::size_t>(count - i < kLanes ? count - i : kLanes);
    Vec32 best = load_n(kF32, x + i, rest);
    auto index = hn::Zero(kI32);
    for (std::int64_t e = 1; e < extent; ++e) {
      const Vec32 value = load_n(kF32, x + e * step + i, rest);
      const auto take = better<kMax, kLast>(value, best);
      best = hn::IfThenElse(take, value, best);
      index = hn::IfThenElse(hn::RebindMask(kI32, take),
                             hn::Set(kI32, static_cast<std::int32_t>(e)), index);
    }
    store_n(index, kI32, where + i, rest);
  }
}

/// where[r] of `count` lines a step apart, whose elements lie together. Every lane starts from
/// element 0 and looks at its own share of the others, so that a NaN there blocks no lane.
template <bool kMax, bool kLast>
void arg_rows(const float* x, std::int64_t step, std::int64_t extent, std::int64_t count,
              std::int32_t* where) {
  for (std::int64_t r = 0; r < count; ++r, x += step) {
    Vec32 best = hn::Set(kF32, x[0]);
    auto index = hn::Zero(kI32);
    for (std::int64_t i = 0; i < extent; i += kLanes) {
      const auto rest = static_cast<std::size_t>(extent - i < kLanes ? extent - i : kLanes);
      const Vec32 value = load_n(kF32, x + i, rest);
      const auto take = hn::And(better<kMax, kLast>(value, best), hn::FirstN(kF32, rest));
      best = hn::IfThenElse(take, value, best);
      index = hn::IfThenElse(hn::RebindMask(kI32, take),
                             hn::Iota(kI32, static_cast<std::int32_t>(i)), index);
    }
    // Among the lanes with the extremum: the first (or last) index. Lanes differ from NaN unless
    // all have it from element 0.
    const Vec32 extreme = kMax ? hn::MaxOfLanes(kF32, best) : hn::MinOfLanes(kF32, best);
    const auto is_extreme = hn::RebindMask(kI32, hn::Eq(best, extreme));
    const auto none = hn::Set(kI32, kLast ? 0 : std::numeric_limits<std::int32_t>::max());
    const auto candidates = hn::IfThenElse(is_extreme, index, none);
    const auto chosen = kLast ? hn::MaxOfLanes(kI32, candidates) : hn::MinOfLanes(kI32, candidates);
    where[r] = x[0] == x[0] ? hn::GetLane(chosen) : 0;
  }
}

using ArgFn = void (*)(const float* x, std::int64_t step, std::int64_t extent, std::int64_t count,
                       std::int32_t* where);

template <bool kMax, bool kLast>
ArgFn pick(bool by_rows) {
  return by_rows ? arg_rows<kMax, kLast> : arg_columns<kMax, kLast>;
}

ArgFn find_arg(bool max, bool last, bool by_rows) {
  if (max) return last ? pick<true, true>(by_rows) : pick<true, false>(by_rows);
  return last ? pick<false, true>(by_rows) : pick<false, false>(by_rows);
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace braze::cpu {
namespace {

HWY_EXPORT(find_arg);

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::int64_t kWorthWaking = 32 * 1024;  // elements

/// Lines are taken a block at a time, so that memory is read in the order in which it lies.
class ArgReduceKernel final : public Kernel {
 public:
  ArgReduceKernel(const Plan& plan, const KernelPlan& kernel) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    op_ = *node.as<ArgReduce>();
    x_ = operand_of(plan, kernel.group, node.input(0));
    dtype_ = plan.graph.value(node.input(0)).dtype;
    ReduceAxes axes = reduce_axes(plan, kernel.group, {op_.axis}, op_.keepdims);
    if (!axes.reduced.empty()) line_ = axes.reduced[0];
    if (!axes.kept.empty()) {
      lines_ = axes.kept.back();
      axes.kept.pop_back();
    }
    outer_ = std::move(axes.kept);
    const bool by_rows = line_.from == kFloat, by_columns = lines_.from == kFloat;
    if (dtype_ == DType::kFloat32 && line_.extent < INT32_MAX && (by_rows || by_columns)) {
      step_ = (by_rows ? lines_.from : line_.from) / kFloat;
      arg_ = BRAZE_DISPATCH(find_arg)(op_.max, op_.select_last, by_rows);
    }
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t blocks = (lines_.extent + kBlock - 1) / kBlock;
    const std::int64_t tasks = count_of(outer_) * blocks;
    const bool small = count_of(outer_) * lines_.extent * line_.extent < kWorthWaking;
    parallel_for(small ? nullptr : arguments.pool, static_cast<std::size_t>(tasks),
                 [&](std::size_t index, std::size_t) {
                   const auto task = static_cast<std::int64_t>(index);
                   const CopyOffsets at = offsets_at(outer_, task / blocks);
                   const std::int64_t first = task % blocks * kBlock;
                   const auto* x = static_cast<const std::uint8_t*>(x_.data(arguments)) + at.from +
                                   first * lines_.from;
                   auto* y =
                       static_cast<std::uint8_t*>(arguments.outputs[0]) + at.to + first * lines_.to;
                   const std::int64_t count = std::min(kBlock, lines_.extent - first);
                   if (arg_ != nullptr)
                     return run_floats(reinterpret_cast<const float*>(x), y, count);
                   visit_storage(dtype_, [&](auto zero) {
                     using T = decltype(zero);
                     run_block<T>(x, y, count);
                   });
                 });
  }

 private:
  static constexpr std::int64_t kBlock = 128;

  void run_floats(const float* x, std::uint8_t* y, std::int64_t count) const {
    std::int32_t where[kBlock];
    arg_(x, step_, line_.extent, count, where);
    for (std::int64_t i = 0; i < count; ++i)
      *reinterpret_cast<std::int64_t*>(y + i * lines_.to) = where[i];
  }

  template <class T>
  void run_block(const std::uint8_t* x, std::uint8_t* y, std::int64_t count) const {
    using C = typename ComputeType<T>::Type;
    C best[kBlock];
    std::int64_t where[kBlock];
    const auto at = [&](std::int64_t e, std::int64_t i) {
      return convert<C>(*reinterpret_cast<const T*>(x + e * line_.from + i * lines_.from));
    };
    const auto better = [this](C value, C than) {
      if (op_.select_last && value == than) return true;
      return op_.max ? value > than : value < than;
    };
    const auto consider = [&](std::int64_t e, std::int64_t i) {
      const C value = at(e, i);
      if (better(value, best[i])) {
        best[i] = value;
        where[i] = e;
      }
    };
    for (std::int64_t i = 0; i < count; ++i) {
      best[i] = at(0, i);
      where[i] = 0;
    }
    if (line_.from < lines_.from) {
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t e = 1; e < line_.extent; ++e) consider(e, i);
      }
    } else {
      for (std::int64_t e = 1; e < line_.extent; ++e) {
        for (std::int64_t i = 0; i < count; ++i) consider(e, i);
      }
    }
    for (std::int64_t i = 0; i < count; ++i)
      *reinterpret_cast<std::int64_t*>(y + i * lines_.to) = where[i];
  }

  ArgReduce op_;
  void (*arg_)(const float*, std::int64_t, std::int64_t, std::int64_t, std::int32_t*) = nullptr;
  std::int64_t step_ = 0;  // floats
  Operand x_;
  DType dtype_ = DType::kFloat32;
  std::vector<CopyAxis> outer_;
  CopyAxis line_, lines_;
};

}  // namespace

std::unique_ptr<Kernel> arg_reduce(const Plan& plan, const KernelPlan& kernel) {
  return std::make_unique<ArgReduceKernel>(plan, kernel);
}

}  // namespace braze::cpu
#endif
