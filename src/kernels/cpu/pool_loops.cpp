#include "kernels/cpu/pool_loops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pool_loops.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include "kernels/cpu/isa.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "graph/window.hpp"
#include "kernels/cpu/simd.hpp"
#include "kernels/cpu/vector_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

struct Maximum {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();
  static HWY_INLINE Vec32 join(Vec32 a, Vec32 b) { return max_nan(a, b); }
  static HWY_INLINE Vec32 finish(Vec32 v, Vec32) { return v; }
  static float join(float a, float b) { return a >= b || a != a ? a : b; }
  static float finish(float v, float) { return v; }
};

struct Sum {
  static constexpr float kNone = 0;
  static HWY_INLINE Vec32 join(Vec32 a, Vec32 b) { return hn::Add(a, b); }
  static HWY_INLINE Vec32 finish(Vec32 v, Vec32 scale) { return hn::Mul(v, scale); }
  static float join(float a, float b) { return a + b; }
  static float finish(float v, float scale) { return v * scale; }
};

/// Calls f(offset) for every row of taps.
template <class F>
HWY_INLINE void for_tap_rows(const PoolTaps& taps, const F& f) {
  for (std::int64_t d = 0; d < taps.count_d; ++d) {
    for (std::int64_t h = 0; h < taps.count_h; ++h) f(d * taps.step_d + h * taps.step_h);
  }
}

/// Calls f(tap, i) with the address of each tap of vector i of kPixels by kVectors.
template <int kPixels, int kVectors, class F>
HWY_INLINE void for_taps(const PoolPixels& p, const float* in, const F& f) {
  for_tap_rows(p.taps, [&](std::int64_t offset) BRAZE_INLINE {
    const float* tap = in + offset;
    for (std::int64_t w = 0; w < p.taps.count_w; ++w, tap += p.taps.step_w) {
      unroll<kPixels * kVectors>([&](auto i) BRAZE_INLINE {
        f(tap + i / kVectors * p.in_pixel + i % kVectors * kLanes, i);
      });
    }
  });
}

/// kPixels adjacent pixels by kVectors vectors of channels.
template <class Op, int kPixels, int kVectors, class Load, class Store>
HWY_INLINE void block(const PoolPixels& p, const float* in, float* out, const Load& load,
                      const Store& store) {
  constexpr int kCount = kPixels * kVectors;
  Vec32 acc[kCount];
  unroll<kCount>([&](auto i) BRAZE_INLINE { acc[i] = splat(Op::kNone); });
  if constexpr (std::is_same_v<Op, Maximum>) {
    // Sums tell NaN, in other pipes than those that are busy with maxima: a maximum that keeps NaN
    // costs three times as much.
    Vec32 sum[kCount];
    unroll<kCount>([&](auto i) BRAZE_INLINE { sum[i] = hn::Zero(kF32); });
    for_taps<kPixels, kVectors>(p, in, [&](const float* tap, auto i) BRAZE_INLINE {
      const Vec32 x = load(tap);
      acc[i] = hn::Max(x, acc[i]);  // in this order x is loaded once for both
      sum[i] = hn::Add(sum[i], x);
    });
    Vec32 all = sum[0];
    unroll<kCount - 1>([&](auto i) BRAZE_INLINE { all = hn::Add(all, sum[i + 1]); });
    if (!hn::AllFalse(kF32, hn::IsNaN(all))) {  // NaN, or infinities of both signs
      unroll<kCount>([&](auto i) BRAZE_INLINE { acc[i] = splat(Op::kNone); });
      for_taps<kPixels, kVectors>(p, in, [&](const float* tap, auto i) BRAZE_INLINE {
        acc[i] = Op::join(acc[i], load(tap));
      });
    }
  } else {
    for_taps<kPixels, kVectors>(p, in, [&](const float* tap, auto i) BRAZE_INLINE {
      acc[i] = Op::join(acc[i], load(tap));
    });
  }
  const Vec32 scale = splat(p.scale);
  unroll<kCount>([&](auto i) BRAZE_INLINE {
    store(Op::finish(acc[i], scale), out + i / kVectors * p.out_pixel + i % kVectors * kLanes);
  });
}

/// kPixels adjacent pixels, all channels. The last vector overlaps the one before it.
template <class Op, int kPixels>
HWY_INLINE void all_channels(const PoolPixels& p, const float* in, float* out) {
  constexpr int kVectors = 4 / kPixels;
  const auto load = [](const float* from) BRAZE_INLINE { return hn::LoadU(kF32, from); };
  const auto store = [](Vec32 v, float* to) BRAZE_INLINE { hn::StoreU(v, kF32, to); };
  if (p.channels < kLanes) {
    const auto n = static_cast<std::size_t>(p.channels);
    block<Op, kPixels, 1>(
        p, in, out, [n](const float* from) BRAZE_INLINE { return load_n(kF32, from, n); },
        [n](Vec32 v, float* to) BRAZE_INLINE { store_n(v, kF32, to, n); });
    return;
  }
  std::int64_t c = 0;
  for (; c + kVectors * kLanes <= p.channels; c += kVectors * kLanes) {
    block<Op, kPixels, kVectors>(p, in + c, out + c, load, store);
  }
  for (; c < p.channels; c += kLanes) {
    const std::int64_t at = std::min(c, p.channels - kLanes);
    block<Op, kPixels, 1>(p, in + at, out + at, load, store);
  }
}

template <class Op>
void pixels(const PoolPixels& p) {
  if (p.pixels < 4) {
    for (std::int64_t o = 0; o < p.pixels; ++o) {
      all_channels<Op, 1>(p, p.in + o * p.in_pixel, p.out + o * p.out_pixel);
    }
    return;
  }
  for (std::int64_t o = 0; o < p.pixels; o += 4) {
    const std::int64_t at = std::min(o, p.pixels - 4);  // the last ones overlap those before them
    all_channels<Op, 4>(p, p.in + at * p.in_pixel, p.out + at * p.out_pixel);
  }
}

/// One output of a row in model layout, taps [first, first + count) of each tap row; `in` is under
/// tap 0.
template <class Op>
float one(const PoolRow& row, const float* in, std::int64_t first, std::int64_t count) {
  float result = Op::kNone;
  Vec32 wide = splat(Op::kNone);
  const std::int64_t whole =
      row.taps.step_w == 1 ? count / kLanes * kLanes : 0;  // of adjacent taps
  for_tap_rows(row.taps, [&](std::int64_t offset) BRAZE_INLINE {
    const float* const tap = in + offset + first * row.taps.step_w;
    for (std::int64_t w = 0; w < whole; w += kLanes)
      wide = Op::join(wide, hn::LoadU(kF32, tap + w));
    for (std::int64_t w = whole; w < count; ++w)
      result = Op::join(result, tap[w * row.taps.step_w]);
  });
  alignas(64) float lanes[kLanes];
  hn::Store(wide, kF32, lanes);
  if (whole > 0) {
    for (const float lane : lanes) result = Op::join(result, lane);
  }
  return result;
}

template <class Op>
void row_loop(const PoolRow& row) {
  const std::int64_t window = (row.taps.count_w - 1) * row.taps.step_w;
  const auto edge = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t start = o * row.stride_w - row.pad_w;
      const std::int64_t step = row.taps.step_w;
      const std::int64_t first = start < 0 ? ceil_div(-start, step) : 0;
      const std::int64_t last =
          start < row.in_width ? std::min(row.taps.count_w, ceil_div(row.in_width - start, step))
                               : 0;
      const float value =
          one<Op>(row, row.in + start, first, std::max<std::int64_t>(0, last - first));
      row.out[o] = Op::finish(value, row.scale * row.scale_w[o]);
    }
  };
  // Outputs whose whole window is on the row.
  const std::int64_t begin = std::min(row.out_width, ceil_div(row.pad_w, row.stride_w));
  const std::int64_t room = row.in_width - 1 - window + row.pad_w;
  const std::int64_t end =
      std::max(begin, std::min(row.out_width, room < 0 ? 0 : room / row.stride_w + 1));
  if (end - begin < kLanes) return edge(0, row.out_width);
  edge(0, begin);
  edge(end, row.out_width);
  const auto indices = hn::Mul(hn::Iota(kI32, 0), splat(static_cast<std::int32_t>(row.stride_w)));
  const Vec32 scale = splat(row.scale);
  const auto loop = [&](const auto& load) BRAZE_INLINE {
    for (std::int64_t o = begin; o < end; o += kLanes) {
      const std::int64_t at =
          std::min(o, end - kLanes);  // the last vector overlaps the one before it
      const float* const in = row.in + at * row.stride_w - row.pad_w;
      Vec32 acc = splat(Op::kNone);
      for_tap_rows(row.taps, [&](std::int64_t offset) BRAZE_INLINE {
        const float* tap = in + offset;
        for (std::int64_t w = 0; w < row.taps.count_w; ++w, tap += row.taps.step_w)
          acc = Op::join(acc, load(tap));
      });
      hn::StoreU(Op::finish(acc, hn::Mul(scale, hn::LoadU(kF32, row.scale_w + at))), kF32,
                 row.out + at);
    }
  };
  if (row.stride_w == 1) {
    loop([](const float* p) BRAZE_INLINE { return hn::LoadU(kF32, p); });
  } else {
    loop([indices](const float* p) BRAZE_INLINE { return hn::GatherIndex(kF32, p, indices); });
  }
}

PoolPixelsFn find_pixels(PoolFn fn) { return fn == PoolFn::kMax ? pixels<Maximum> : pixels<Sum>; }
PoolRowFn find_row(PoolFn fn) { return fn == PoolFn::kMax ? row_loop<Maximum> : row_loop<Sum>; }

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {

HWY_EXPORT(find_pixels);
HWY_EXPORT(find_row);

PoolPixelsFn pool_pixels(PoolFn fn) { return BRAZE_DISPATCH(find_pixels)(fn); }
PoolRowFn pool_row(PoolFn fn) { return BRAZE_DISPATCH(find_row)(fn); }

}  // namespace braze::cpu
#endif  // HWY_ONCE
