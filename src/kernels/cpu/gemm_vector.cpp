// A matrix times a vector: dot products of four rows at a time, or four scaled rows added at a
// time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_vector.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/gemm.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

/// R rows, U vectors of each in flight.
template <int R, int U>
HWY_INLINE void dots(const VectorProduct& work, std::int64_t row) {
  const float* a[R];
  unroll<R>([&](auto r) BRAZE_INLINE { a[r] = work.a + (row + r) * work.a_row; });
  Vec32 sum[R][U];
  unroll<R>([&](auto r) BRAZE_INLINE {
    unroll<U>([&](auto u) BRAZE_INLINE { sum[r][u] = hn::Zero(kF32); });
  });
  std::int64_t k = 0;
  for (; k + U * kLanes <= work.columns; k += U * kLanes) {
    unroll<U>([&](auto u) BRAZE_INLINE {
      const Vec32 x = hn::LoadU(kF32, work.x + k + u * kLanes);
      unroll<R>([&](auto r) BRAZE_INLINE {
        sum[r][u] = hn::MulAdd(hn::LoadU(kF32, a[r] + k + u * kLanes), x, sum[r][u]);
      });
    });
  }
  for (; k < work.columns; k += kLanes) {
    const auto n = static_cast<std::size_t>(work.columns - k < kLanes ? work.columns - k : kLanes);
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

void vector_dots(const VectorProduct& work) {
  std::int64_t row = 0;
  for (; row + 4 <= work.rows; row += 4) dots<4, 2>(work, row);
  for (; row < work.rows; ++row) dots<1, 4>(work, row);
}

/// y += of R rows. The first ones start from zero.
template <int R>
HWY_INLINE void add_rows(const VectorProduct& work, std::int64_t row) {
  Vec32 x[R];
  unroll<R>([&](auto r) BRAZE_INLINE { x[r] = hn::Set(kF32, work.alpha * work.x[row + r]); });
  const float* a = work.a + row * work.a_row;
  for (std::int64_t k = 0; k < work.columns; k += kLanes) {
    const auto n = static_cast<std::size_t>(work.columns - k < kLanes ? work.columns - k : kLanes);
    const bool whole = n == static_cast<std::size_t>(kLanes);
    Vec32 sum = row == 0 ? hn::Zero(kF32)
                : whole  ? hn::LoadU(kF32, work.y + k)
                         : load_n(kF32, work.y + k, n);
    unroll<R>([&](auto r) BRAZE_INLINE {
      const float* from = a + r * work.a_row + k;
      sum = hn::MulAdd(x[r], whole ? hn::LoadU(kF32, from) : load_n(kF32, from, n), sum);
    });
    whole ? hn::StoreU(sum, kF32, work.y + k) : store_n(sum, kF32, work.y + k, n);
  }
}

void vector_sums(const VectorProduct& work) {
  for (std::int64_t k = 0; work.rows == 0 && k < work.columns; ++k) work.y[k] = 0;
  std::int64_t row = 0;
  for (; row + 4 <= work.rows; row += 4) add_rows<4>(work, row);
  for (; row < work.rows; ++row) add_rows<1>(work, row);
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace braze::cpu {
namespace {

HWY_EXPORT(vector_dots);
HWY_EXPORT(vector_sums);

/// One column: dots with the rows of a. One row: dots with the columns of b where those are
/// contiguous, else sums of its rows.
class VectorKernel final : public Kernel {
 public:
  VectorKernel(const Plan& plan, const KernelPlan& kernel, GemmProblem problem)
      : problem_(std::move(problem)), finish_(plan, kernel, problem_) {
    one_column_ = problem_.columns == 1;
    sums_ = !one_column_ && problem_.b_depth != 1;
    outputs_ = one_column_ ? problem_.rows : problem_.columns;
    const std::int64_t per_output = std::max<std::int64_t>(problem_.depth, 1);
    per_task_ = sums_ ? kTaskColumns : std::max<std::int64_t>(kTaskFloats / per_output, 4);
    product_ = sums_ ? BRAZE_DISPATCH(vector_sums) : BRAZE_DISPATCH(vector_dots);
  }

  void run(const KernelArguments& arguments) const noexcept override {
    const std::int64_t tasks = (outputs_ + per_task_ - 1) / per_task_;
    parallel_for(problem_.flops() < kWorthWaking ? nullptr : arguments.pool,
                 static_cast<std::size_t>(tasks * problem_.batch()),
                 [&](std::size_t task, std::size_t) {
                   const std::int64_t index = static_cast<std::int64_t>(task) / tasks;
                   const std::int64_t first = static_cast<std::int64_t>(task) % tasks * per_task_;
                   make_outputs(arguments, index, first, std::min(per_task_, outputs_ - first));
                 });
  }

 private:
  static constexpr std::int64_t kTaskFloats = 16 * 1024;
  static constexpr std::int64_t kTaskColumns = 512;
  static constexpr double kWorthWaking = 2e5;  // flops

  void make_outputs(const KernelArguments& arguments, std::int64_t index, std::int64_t first,
                    std::int64_t count) const {
    const auto at = static_cast<std::size_t>(index);
    const float* a = static_cast<const float*>(problem_.a.data(arguments)) + problem_.a_offsets[at];
    const float* b = static_cast<const float*>(problem_.b.data(arguments)) + problem_.b_offsets[at];
    VectorProduct work;
    work.x = one_column_ ? b : a;
    work.alpha = problem_.alpha;
    work.y = static_cast<float*>(arguments.outputs[static_cast<std::size_t>(problem_.output)]) +
             index * outputs_ + first;
    if (sums_) {
      work.a = b + first, work.a_row = problem_.b_depth;
      work.rows = problem_.depth, work.columns = count;
    } else {
      work.a_row = one_column_ ? problem_.a_row : problem_.b_column;
      work.a = (one_column_ ? a : b) + first * work.a_row;
      work.rows = count, work.columns = problem_.depth;
    }
    product_(work);
    if (one_column_) {
      finish_.apply(arguments, problem_, index, first, count, 0, 1, work.y);
    } else {
      finish_.apply(arguments, problem_, index, 0, 1, first, count, work.y);
    }
  }

  GemmProblem problem_;
  GemmFinish finish_;
  VectorProductFn product_ = nullptr;
  bool one_column_ = true, sums_ = false;
  std::int64_t outputs_ = 0, per_task_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> gemm_vector(const Plan& plan, const KernelPlan& kernel,
                                    GemmProblem problem) {
  return std::make_unique<VectorKernel>(plan, kernel, std::move(problem));
}

}  // namespace braze::cpu
#endif
