#include "bench/cpu/fma_peak.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/cpu/fma_peak.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {

/// `steps` multiply-adds on each of 12 accumulators (enough to hide their latency everywhere);
/// returns the operations done.
double multiply_add(int steps) {
  constexpr int kAccumulators = 12;
  Vec32 sums[kAccumulators];
  unroll<kAccumulators>([&](auto i) BRAZE_INLINE { sums[i] = hn::Set(kF32, 1.0F); });
  const Vec32 factor = hn::Set(kF32, 0.999F);
  const Vec32 term = hn::Set(kF32, 0.001F);
  for (int step = 0; step < steps; ++step) {
    unroll<kAccumulators>([&](auto i) BRAZE_INLINE {
      sums[i] = hn::MulAdd(sums[i], factor, term);
      pin(sums[i]);
    });
  }
  Vec32 total = hn::Zero(kF32);
  unroll<kAccumulators>([&](auto i) BRAZE_INLINE { total = hn::Add(total, sums[i]); });
  const volatile float used = hn::GetLane(total);
  static_cast<void>(used);
  return 2.0 * kLanes * kAccumulators * steps;
}

}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <chrono>

namespace braze::cpu {
HWY_EXPORT(multiply_add);
}

namespace braze::bench {

double fma_peak() {
  using namespace braze::cpu;  // NOLINT: HWY_DYNAMIC_DISPATCH takes an unqualified name
  double best = 0;
  for (int burst = 0; burst < 20; ++burst) {
    const auto start = std::chrono::steady_clock::now();
    const double operations = BRAZE_DISPATCH(multiply_add)(20000);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, operations / seconds.count());
  }
  return best;
}

}  // namespace braze::bench
#endif
