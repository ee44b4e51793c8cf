// Reductions of floats in vectors: rows, whose elements lie together, or columns, whose elements
// are a step apart and whose neighbours are other outputs. Sums run in pieces of bounded length, so
// that rounding errors do not grow with the extent.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce_fp32.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/reduce.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

/// map is applied to each element, join to what it makes; NaN wins.
struct SumOf {
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Add(a, b);
  }
  static HWY_INLINE Vec32 map(Vec32 x) { return x; }
};
struct SumOfAbs : SumOf {
  static HWY_INLINE Vec32 map(Vec32 x) { return hn::Abs(x); }
};
struct SumOfSquares : SumOf {
  static HWY_INLINE Vec32 map(Vec32 x) { return hn::Mul(x, x); }
};
struct ProductOf : SumOf {
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Mul(a, b);
  }
};
struct MaxOf : SumOf {
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::IfThenElse(hn::IsNaN(a), a, max_keep_nan(b, a));
  }
};
struct MinOf : SumOf {
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::IfThenElse(hn::IsNaN(a), a, min_keep_nan(b, a));
  }
};

/// acc[c] = join(acc[c], x[c], x[step + c], ...) of n elements, for c < columns.
template <class Op>
void columns(const float* x, std::int64_t step, std::int64_t n, float* acc, std::int64_t count,
             float start) {
  constexpr int kAcross = 4;
  std::int64_t c = 0;
  for (; c + kAcross * kLanes <= count; c += kAcross * kLanes) {
    Vec32 sum[kAcross];
    unroll<kAcross>([&](auto j) BRAZE_INLINE { sum[j] = hn::Set(kF32, start); });
    for (std::int64_t i = 0; i < n; ++i) {
      const float* from = x + i * step + c;
      unroll<kAcross>([&](auto j) BRAZE_INLINE {
        sum[j] = Op::join(sum[j], Op::map(hn::LoadU(kF32, from + j * kLanes)));
      });
    }
    unroll<kAcross>([&](auto j) BRAZE_INLINE {
      float* to = acc + c + j * kLanes;
      hn::StoreU(Op::join(hn::LoadU(kF32, to), sum[j]), kF32, to);
    });
  }
  for (; c < count; c += kLanes) {
    const auto rest = static_cast<std::size_t>(count - c < kLanes ? count - c : kLanes);
    Vec32 even = hn::Set(kF32, start), odd = hn::Set(kF32, start);
    std::int64_t i = 0;
    for (; i + 2 <= n; i += 2) {
      even = Op::join(even, Op::map(load_n(kF32, x + i * step + c, rest)));
      odd = Op::join(odd, Op::map(load_n(kF32, x + (i + 1) * step + c, rest)));
    }
    if (i < n) even = Op::join(even, Op::map(load_n(kF32, x + i * step + c, rest)));
    store_n(Op::join(load_n(kF32, acc + c, rest), Op::join(even, odd)), kF32, acc + c, rest);
  }
}

/// All lanes joined, halves first.
template <class Op, class D>
HWY_INLINE float fold([[maybe_unused]] D d, hn::Vec<D> v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(d) > 1) {
    const hn::Half<D> half;
    return fold<Op>(half, Op::join(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  return hn::GetLane(v);
}

/// acc[0] = join(acc[0], x[0], ..., x[n - 1]).
template <class Op>
void row(const float* x, std::int64_t /*step*/, std::int64_t n, float* acc, std::int64_t /*count*/,
         float start) {
  constexpr int kAhead = 4;
  Vec32 sum[kAhead];
  unroll<kAhead>([&](auto j) BRAZE_INLINE { sum[j] = hn::Set(kF32, start); });
  std::int64_t i = 0;
  for (; i + kAhead * kLanes <= n; i += kAhead * kLanes) {
    unroll<kAhead>([&](auto j) BRAZE_INLINE {
      sum[j] = Op::join(sum[j], Op::map(hn::LoadU(kF32, x + i + j * kLanes)));
    });
  }
  for (; i + kLanes <= n; i += kLanes) sum[0] = Op::join(sum[0], Op::map(hn::LoadU(kF32, x + i)));
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    sum[1] = hn::IfThenElse(hn::FirstN(kF32, rest),
                            Op::join(sum[1], Op::map(load_n(kF32, x + i, rest))), sum[1]);
  }
  const Vec32 all = Op::join(Op::join(sum[0], sum[1]), Op::join(sum[2], sum[3]));
  const Vec32 total = Op::join(hn::Set(kF32, acc[0]), hn::Set(kF32, fold<Op>(kF32, all)));
  acc[0] = hn::GetLane(total);
}

using ReduceFp32Fn = void (*)(const float* x, std::int64_t step, std::int64_t n, float* acc,
                              std::int64_t count, float start);

template <class Op>
ReduceFp32Fn pick(bool by_rows) {
  return by_rows ? row<Op> : columns<Op>;
}

ReduceFp32Fn reduce_function(ReduceFn fn, bool by_rows) {
  switch (fn) {
    case ReduceFn::kL1:
      return pick<SumOfAbs>(by_rows);
    case ReduceFn::kL2:
    case ReduceFn::kSumSquare:
      return pick<SumOfSquares>(by_rows);
    case ReduceFn::kMax:
      return pick<MaxOf>(by_rows);
    case ReduceFn::kMin:
      return pick<MinOf>(by_rows);
    case ReduceFn::kProd:
      return pick<ProductOf>(by_rows);
    default:
      return pick<SumOf>(by_rows);
  }
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <limits>

namespace braze::cpu {
namespace {

HWY_EXPORT(reduce_function);

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::int64_t kColumns = 64;  // outputs of a task, where they lie together
constexpr std::int64_t kPiece =
    512;  // terms of a column that are summed before they join the others
constexpr std::int64_t kRowPiece = 16384;  // the same for a row, of which each lane has a part
constexpr std::int64_t kTaskFloats = 16 * 1024;
constexpr std::int64_t kWorthWaking = 64 * 1024;  // floats

using ReduceFp32Fn = void (*)(const float* x, std::int64_t step, std::int64_t n, float* acc,
                              std::int64_t count, float start);

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const Plan& plan, const KernelPlan& kernel) {
    const Node& node = anchor_of(plan.graph, kernel.group);
    const auto& op = *node.as<Reduce>();
    x_ = operand_of(plan, kernel.group, node.input(0));
    fn_ = op.fn;
    ReduceAxes axes = reduce_axes(plan, kernel.group, op.axes, op.keepdims);
    terms_ = count_of(axes.reduced);
    elements_ = terms_ * count_of(axes.kept);
    by_rows_ = !axes.reduced.empty() && axes.reduced.back().from == kFloat;
    if (!axes.reduced.empty()) {
      line_ = axes.reduced.back();
      axes.reduced.pop_back();
    }
    if (!axes.kept.empty()) {
      outputs_ = axes.kept.back();
      axes.kept.pop_back();
    }
    kept_ = std::move(axes.kept);
    reduced_ = std::move(axes.reduced);
    const std::int64_t rows =
        std::max<std::int64_t>(kTaskFloats / std::max<std::int64_t>(terms_, 1), 1);
    block_ = std::min(by_rows_ ? rows : kColumns, std::max<std::int64_t>(outputs_.extent, 1));
    start_ = fn_ == ReduceFn::kMax    ? -std::numeric_limits<float>::infinity()
             : fn_ == ReduceFn::kMin  ? std::numeric_limits<float>::infinity()
             : fn_ == ReduceFn::kProd ? 1.0F
                                      : 0.0F;
    reduce_ = BRAZE_DISPATCH(reduce_function)(fn_, by_rows_);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t blocks = (outputs_.extent + block_ - 1) / block_;
    parallel_for(elements_ < kWorthWaking ? nullptr : arguments.pool,
                 static_cast<std::size_t>(count_of(kept_) * blocks),
                 [&](std::size_t index, std::size_t) {
                   const auto task = static_cast<std::int64_t>(index);
                   const CopyOffsets at = offsets_at(kept_, task / blocks);
                   const std::int64_t first = task % blocks * block_;
                   const auto* x = static_cast<const float*>(x_.data(arguments)) +
                                   (at.from + first * outputs_.from) / kFloat;
                   auto* y = static_cast<float*>(arguments.outputs[0]) +
                             (at.to + first * outputs_.to) / kFloat;
                   const std::int64_t count = std::min(block_, outputs_.extent - first);
                   by_rows_ ? run_rows(x, y, count) : run_columns(x, y, count);
                 });
  }

 private:
  void run_rows(const float* x, float* y, std::int64_t rows) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      float sum = start_;
      reduce_all(x + r * outputs_.from / kFloat, kRowPiece, &sum, 1);
      y[r * outputs_.to / kFloat] = finish(sum);
    }
  }

  void run_columns(const float* x, float* y, std::int64_t count) const {
    float sums[kColumns];
    std::fill_n(sums, count, start_);
    reduce_all(x, kPiece, sums, count);
    for (std::int64_t c = 0; c < count; ++c) y[c * outputs_.to / kFloat] = finish(sums[c]);
  }

  void reduce_all(const float* x, std::int64_t piece, float* sums, std::int64_t count) const {
    const std::int64_t lines = count_of(reduced_);
    const std::int64_t step = line_.from / kFloat;
    for (std::int64_t i = 0; i < lines; ++i) {
      const float* line = x + offsets_at(reduced_, i).from / kFloat;
      for (std::int64_t begin = 0; begin < line_.extent; begin += piece) {
        reduce_(line + begin * step, step, std::min(piece, line_.extent - begin), sums, count,
                start_);
      }
    }
  }

  [[nodiscard]] float finish(float value) const {
    switch (fn_) {
      case ReduceFn::kMean:
        return value / static_cast<float>(terms_);
      case ReduceFn::kL2:
        return std::sqrt(value);
      case ReduceFn::kLogSum:
        return std::log(value);
      default:
        return value;
    }
  }

  Operand x_;
  ReduceFn fn_ = ReduceFn::kSum;
  ReduceFp32Fn reduce_ = nullptr;
  bool by_rows_ = true;
  float start_ = 0;
  std::int64_t terms_ = 1;     // of each output
  std::int64_t elements_ = 0;  // of x
  std::vector<CopyAxis> kept_, reduced_;
  CopyAxis outputs_;  // the innermost kept axis
  CopyAxis line_;     // the innermost reduced axis
  std::int64_t block_ = 1;
};

}  // namespace

bool reduces_fp32(ReduceFn fn, DType dtype, const ReduceAxes& axes) {
  if (dtype != DType::kFloat32 || fn == ReduceFn::kLogSumExp) return false;
  const bool rows = !axes.reduced.empty() && axes.reduced.back().from == kFloat;
  return rows || axes.kept.empty() || axes.kept.back().from == kFloat;
}

std::unique_ptr<Kernel> reduce_fp32(const Plan& plan, const KernelPlan& kernel) {
  return std::make_unique<ReduceKernel>(plan, kernel);
}

}  // namespace braze::cpu
#endif
