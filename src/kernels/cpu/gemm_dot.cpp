// A matrix times a vector whose elements lie along the depth: dot products of rows, four at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_dot.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/gemm.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

/// R rows, U vectors of each in flight.
template <int R, int U>
HWY_INLINE void dots(const DotRows& work, std::int64_t row) {
  const float* a[R];
  unroll<R>([&](auto r) BRAZE_INLINE { a[r] = work.a + (row + r) * work.a_row; });
  Vec32 sum[R][U];
  unroll<R>([&](auto r) BRAZE_INLINE {
    unroll<U>([&](auto u) BRAZE_INLINE { sum[r][u] = hn::Zero(kF32); });
  });
  std::int64_t k = 0;
  for (; k + U * kLanes <= work.depth; k += U * kLanes) {
    unroll<U>([&](auto u) BRAZE_INLINE {
      const Vec32 x = hn::LoadU(kF32, work.x + k + u * kLanes);
      unroll<R>([&](auto r) BRAZE_INLINE {
        sum[r][u] = hn::MulAdd(hn::LoadU(kF32, a[r] + k + u * kLanes), x, sum[r][u]);
      });
    });
  }
  for (; k < work.depth; k += kLanes) {
    const auto n = static_cast<std::size_t>(work.depth - k < kLanes ? work.depth - k : kLanes);
    const Vec32 x = load_n(kF32, work.x + k, n);
    unroll<R>([&](auto r) BRAZE_INLINE {
      sum[r][0] = hn::MulAdd(load_n(kF32, a[r] + k, n), x, sum[r][0]);
    });
  }
  unroll<R>([&](auto r) BRAZE_INLINE {
    unroll<U - 1>([&](auto u) BRAZE_INLINE { sum[r][0] = hn::Add(sum[r][0], sum[r][u + 1]); });
    work.y[row + r] = work.alpha * hn::GetLane(hn::SumOfLanes(kF32, sum[r][0]));
  });
}

void dot_rows(const DotRows& work) {
  std::int64_t row = 0;
  for (; row + 4 <= work.rows; row += 4) dots<4, 2>(work, row);
  for (; row < work.rows; ++row) dots<1, 4>(work, row);
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace braze::cpu {
namespace {

HWY_EXPORT(dot_rows);

/// Takes products with one column, or with one row and a transposed b: then b's columns are the
/// rows.
class DotKernel final : public Kernel {
 public:
  DotKernel(const Plan& plan, const KernelPlan& kernel, GemmProblem problem)
      : problem_(std::move(problem)),
        finish_(plan, kernel, problem_),
        dot_rows_(BRAZE_DISPATCH(dot_rows)) {
    by_rows_ = problem_.columns == 1;
    count_ = by_rows_ ? problem_.rows : problem_.columns;
    per_task_ = std::max<std::int64_t>(kTaskFloats / std::max<std::int64_t>(problem_.depth, 1), 4);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t tasks = (count_ + per_task_ - 1) / per_task_;
    parallel_for(tasks * problem_.batch() < kWorthWaking ? nullptr : arguments.pool,
                 static_cast<std::size_t>(tasks * problem_.batch()),
                 [&](std::size_t task, std::size_t) {
                   const std::int64_t index = static_cast<std::int64_t>(task) / tasks;
                   const std::int64_t first = static_cast<std::int64_t>(task) % tasks * per_task_;
                   run_rows(arguments, index, first, std::min(per_task_, count_ - first));
                 });
  }

 private:
  static constexpr std::int64_t kTaskFloats = 16 * 1024;
  static constexpr std::int64_t kWorthWaking = 4;  // tasks

  void run_rows(const KernelArguments& arguments, std::int64_t index, std::int64_t first,
                std::int64_t rows) const {
    const auto product = static_cast<std::size_t>(index);
    const float* a =
        static_cast<const float*>(problem_.a.data(arguments)) + problem_.a_offsets[product];
    const float* b =
        static_cast<const float*>(problem_.b.data(arguments)) + problem_.b_offsets[product];
    DotRows work;
    work.a = by_rows_ ? a + first * problem_.a_row : b + first * problem_.b_column;
    work.a_row = by_rows_ ? problem_.a_row : problem_.b_column;
    work.rows = rows;
    work.x = by_rows_ ? b : a;
    work.depth = problem_.depth;
    work.alpha = problem_.alpha;
    work.y = static_cast<float*>(arguments.outputs[static_cast<std::size_t>(problem_.output)]) +
             index * count_ + first;
    dot_rows_(work);
    if (by_rows_) {
      finish_.apply(arguments, problem_, index, first, rows, 0, 1, work.y);
    } else {
      finish_.apply(arguments, problem_, index, 0, 1, first, rows, work.y);
    }
  }

  GemmProblem problem_;
  GemmFinish finish_;
  DotRowsFn dot_rows_;
  bool by_rows_ = true;
  std::int64_t count_ = 0, per_task_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> gemm_dots(const Plan& plan, const KernelPlan& kernel, GemmProblem problem) {
  return std::make_unique<DotKernel>(plan, kernel, std::move(problem));
}

}  // namespace braze::cpu
#endif
