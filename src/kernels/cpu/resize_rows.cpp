#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/resize_rows.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/resize.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE Vec32 weight_of(const ResizeTap& tap) {
  return hn::Set(kF32, static_cast<float>(tap.weight));
}

/// to[i] = sum over T taps of weight * from[tap.index * step + i]; T = 0: `count` taps, known at
/// run time only.
template <int T>
HWY_INLINE void weighted_sum(const float* from, std::int64_t step, const ResizeTap* taps,
                             std::int64_t tap_count, float* to, std::int64_t n) {
  const auto sum_at = [&](auto load) BRAZE_INLINE {
    Vec32 sum = hn::Mul(weight_of(taps[0]), load(from + taps[0].index * step));
    if constexpr (T > 0) {
      unroll<T - 1>([&](auto t) BRAZE_INLINE {
        sum = hn::MulAdd(weight_of(taps[t + 1]), load(from + taps[t + 1].index * step), sum);
      });
    } else {
      for (std::int64_t t = 1; t < tap_count; ++t)
        sum = hn::MulAdd(weight_of(taps[t]), load(from + taps[t].index * step), sum);
    }
    return sum;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(sum_at([i](const float* p) BRAZE_INLINE { return hn::LoadU(kF32, p + i); }), kF32,
               to + i);
  }
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    store_n(sum_at([i, rest](const float* p) BRAZE_INLINE { return load_n(kF32, p + i, rest); }),
            kF32, to + i, rest);
  }
}

HWY_INLINE void weighted_sum(const float* from, std::int64_t step, const ResizeTap* taps,
                             std::int64_t count, float* to, std::int64_t n) {
  switch (count) {
    case 1:
      return weighted_sum<1>(from, step, taps, count, to, n);
    case 2:
      return weighted_sum<2>(from, step, taps, count, to, n);
    case 4:
      return weighted_sum<4>(from, step, taps, count, to, n);
    default:
      return weighted_sum<0>(from, step, taps, count, to, n);
  }
}

void blend_rows(const BlendRows& b) {
  weighted_sum(b.rows, b.row_step, b.taps, b.tap_count, b.to, b.count);
}

void resize_channels(const ResizeChannels& row) {
  float* y = row.y;
  for (const std::vector<ResizeTap>& taps : *row.axis) {
    weighted_sum(row.x, row.x_step, taps.data(), static_cast<std::int64_t>(taps.size()), y,
                 row.channels);
    y += row.y_step;
  }
}

void resize_pixels(const PixelTaps& taps, const float* x, float* y) {
  const hn::RebindToSigned<F32> di;
  const float* weight = taps.weight.data();
  const std::int32_t* index = taps.index.data();
  const std::int64_t* first = taps.first.data();
  for (std::int64_t o = 0; o < taps.outputs; o += kLanes) {
    Vec32 sum = hn::Zero(kF32);
    for (std::int64_t t = 0; t < taps.taps; ++t, ++first, index += kLanes, weight += kLanes) {
      const auto at = hn::LoadU(di, index);
      const Vec32 value = taps.nearby ? hn::TableLookupLanes(hn::LoadU(kF32, x + *first),
                                                             hn::IndicesFromVec(kF32, at))
                                      : hn::GatherIndex(kF32, x + *first, at);
      const Vec32 w = hn::LoadU(kF32, weight);
      // A tap that is not there adds nothing, infinities included.
      sum = hn::IfThenElse(hn::Eq(w, hn::Zero(kF32)), sum, hn::MulAdd(w, value, sum));
    }
    if (o + kLanes <= taps.outputs) {
      hn::StoreU(sum, kF32, y + o);
    } else {
      store_n(sum, kF32, y + o, static_cast<std::size_t>(taps.outputs - o));
    }
  }
}

const ResizeLoops* find_resize_loops() {
  static constexpr ResizeLoops kLoops = {kLanes, blend_rows, resize_pixels, resize_channels};
  return &kLoops;
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {

HWY_EXPORT(find_resize_loops);
const ResizeLoops& resize_loops() { return *BRAZE_DISPATCH(find_resize_loops)(); }

}  // namespace braze::cpu
#endif
