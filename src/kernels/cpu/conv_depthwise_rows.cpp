#include "kernels/cpu/conv_depthwise_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/conv_depthwise_rows.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include "kernels/cpu/isa.hpp"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

constexpr bool kHalves = HWY_TARGET == HWY_AVX3;

/// Adjacent channels.
template <class D>
struct Adjacent {
  using V = hn::Vec<D>;
  static constexpr int kWide = static_cast<int>(hn::MaxLanes(D()));
  HWY_INLINE V load(const float* p) const { return hn::LoadU(D(), p); }
  HWY_INLINE V weight(const float* p) const { return hn::LoadU(D(), p); }
  HWY_INLINE void store(V v, float* p) const { hn::StoreU(v, D(), p); }
};

/// The first n of a vector's channels; those behind them may not be touched.
struct Partial {
  using V = Vec32;
  static constexpr int kWide = kLanes;
  std::size_t n;
  HWY_INLINE V load(const float* p) const { return load_n(kF32, p, n); }
  HWY_INLINE V weight(const float* p) const { return hn::LoadU(kF32, p); }
  HWY_INLINE void store(V v, float* p) const { store_n(v, kF32, p, n); }
};

/// Channels of the input that each serve several of the output.
struct Expanded {
  using V = Vec32;
  static constexpr int kWide = kLanes;
  const std::int32_t* source;
  std::size_t n;
  HWY_INLINE V load(const float* p) const {
    return hn::GatherIndex(kF32, p, hn::LoadU(hn::RebindToSigned<F32>(), source));
  }
  HWY_INLINE V weight(const float* p) const { return hn::LoadU(kF32, p); }
  HWY_INLINE void store(V v, float* p) const { store_n(v, kF32, p, n); }
};

/// Kernel width and stride known, no dilation: pixel r reads columns r * stride ... r * stride +
/// width - 1 of the block's.
template <int kWidth, int kStride>
struct FixedTaps {
  static constexpr bool kFixed = true;
  template <int R>
  static constexpr int kColumns = (R - 1) * kStride + kWidth;

  /// Loads the columns of an input row that exist ([lo, hi) of the block's), and calls
  /// f(x, pixel, tap) for each pixel and tap that a column serves.
  template <int R, bool kClip, class A, class F>
  static HWY_INLINE void for_columns(const DepthwiseRow& row, const A& access, const float* p,
                                     std::int64_t lo, std::int64_t hi, const F& f) {
    unroll<kColumns<R>>([&](auto column) BRAZE_INLINE {
      constexpr int kColumn = decltype(column)::value;
      if (!kClip || (kColumn >= lo && kColumn < hi)) {
        const auto x = access.load(p);
        unroll<R>([&](auto pixel) BRAZE_INLINE {
          constexpr int kTap = kColumn - decltype(pixel)::value * kStride;
          if constexpr (kTap >= 0 && kTap < kWidth)
            f(x, pixel, std::integral_constant<int, kTap>{});
        });
      }
      p += row.in_pixel;
    });
  }

  /// One output row. `p` is column 0 of the block under the first tap row in use.
  template <int R, bool kClip, class A>
  static HWY_INLINE void sum(const DepthwiseRow& row, const A& access, const float* p,
                             const float* w, std::int64_t lo, std::int64_t hi,
                             typename A::V (&acc)[1][R]) {
    w += row.first_tap * A::kWide;
    for (std::int64_t i = 0; i < row.tap_rows; ++i, p += row.in_row, w += kWidth * A::kWide) {
      typename A::V tap[kWidth];
      unroll<kWidth>([&](auto k) BRAZE_INLINE { tap[k] = access.weight(w + k * A::kWide); });
      for_columns<R, kClip>(row, access, p, lo, hi, [&](auto x, auto r, auto k) BRAZE_INLINE {
        acc[0][r] = hn::MulAdd(x, tap[k], acc[0][r]);
      });
    }
  }

  /// Two output rows, whose windows are square and share input rows. `p` is column 0 of the block
  /// in input row 0 of the upper window; input rows outside of [pair_lo, pair_hi) do not exist.
  template <int R, bool kClip, class A>
  static HWY_INLINE void sum(const DepthwiseRow& row, const A& access, const float* p,
                             const float* w, std::int64_t lo, std::int64_t hi,
                             typename A::V (&acc)[2][R]) {
    unroll<kWidth + kStride>([&](auto input_row) BRAZE_INLINE {
      constexpr int kRow = decltype(input_row)::value;  // tap row of the upper window
      if (!kClip || (kRow >= row.pair_lo && kRow < row.pair_hi)) {
        typename A::V tap[2][kWidth];  // of the upper and the lower window
        unroll<kWidth>([&](auto k) BRAZE_INLINE {
          if constexpr (kRow < kWidth)
            tap[0][k] = access.weight(w + (kRow * kWidth + k) * A::kWide);
          if constexpr (kRow >= kStride)
            tap[1][k] = access.weight(w + ((kRow - kStride) * kWidth + k) * A::kWide);
        });
        for_columns<R, kClip>(row, access, p, lo, hi, [&](auto x, auto r, auto k) BRAZE_INLINE {
          if constexpr (kRow < kWidth) acc[0][r] = hn::MulAdd(x, tap[0][k], acc[0][r]);
          if constexpr (kRow >= kStride) acc[1][r] = hn::MulAdd(x, tap[1][k], acc[1][r]);
        });
      }
      p += row.in_row;
    });
  }
};

/// Any kernel width, stride and dilation.
struct AnyTaps {
  static constexpr bool kFixed = false;

  template <int R, bool kClip, class A>
  static HWY_INLINE void sum(const DepthwiseRow& row, const A& access, const float* p,
                             const float* w, std::int64_t lo, std::int64_t hi,
                             typename A::V (&acc)[1][R]) {
    w += row.first_tap * A::kWide;
    for (std::int64_t i = 0; i < row.tap_rows; ++i, p += row.in_row) {
      for (std::int64_t k = 0; k < row.kernel_w; ++k, w += A::kWide) {
        const auto tap = access.weight(w);
        const std::int64_t first = k * row.dilation_w;
        unroll<R>([&](auto r) BRAZE_INLINE {
          const std::int64_t c = first + r * row.stride_w;
          if (!kClip || (c >= lo && c < hi)) {
            acc[0][r] = hn::MulAdd(access.load(p + c * row.in_pixel), tap, acc[0][r]);
          }
        });
      }
    }
  }
};

/// kRows by R adjacent pixels of one vector of channels.
template <class Taps, int kRows, int R, bool kClip, class A>
HWY_INLINE void block(const DepthwiseRow& row, const A& access, const float* in,
                      const float* packed, float* out, std::int64_t lo, std::int64_t hi) {
  typename A::V acc[kRows][R];
  unroll<kRows * R>([&](auto i) BRAZE_INLINE { acc[i / R][i % R] = access.weight(packed); });
  Taps::template sum<R, kClip>(row, access, in, packed + A::kWide, lo, hi, acc);
  const hn::DFromV<typename A::V> d;
  const auto floor = hn::Set(d, row.clamp.lo), ceiling = hn::Set(d, row.clamp.hi);
  unroll<kRows * R>([&](auto i) BRAZE_INLINE {
    access.store(min_keep_nan(max_keep_nan(acc[i / R][i % R], floor), ceiling),
                 out + i / R * row.out_row + i % R * row.out_pixel);
  });
}

/// The same of all vectors. `in` is column 0 of the block.
template <class Taps, int kRows, int R, bool kClip, bool kExpand>
HWY_INLINE void pixels(const DepthwiseRow& row, const float* in, float* out, std::int64_t lo,
                       std::int64_t hi) {
  const float* packed = row.weights;
  const std::int32_t* channel = row.channels;
  const auto next = [&](const auto& access, std::int64_t source) BRAZE_INLINE {
    block<Taps, kRows, R, kClip>(row, access, in + source, packed, out + *channel, lo, hi);
    packed += (1 + row.taps) * std::remove_cvref_t<decltype(access)>::kWide;
    ++channel;
  };
  if constexpr (kExpand) {
    for (int v = 0; v < row.whole; ++v) {
      const bool last = v + 1 == row.whole && row.partial > 0;
      next(
          Expanded{row.sources + v * kLanes, static_cast<std::size_t>(last ? row.partial : kLanes)},
          0);
    }
    return;
  }
  for (int v = 0; v < row.whole; ++v) next(Adjacent<F32>(), *channel);
  if constexpr (kHalves) {
    for (int v = 0; v < row.half; ++v) next(Adjacent<hn::Half<F32>>(), *channel);
  }
  if constexpr (!Taps::kFixed) {
    if (row.partial > 0) next(Partial{static_cast<std::size_t>(row.partial)}, 0);
  }
}

template <class Taps, int kRows, int R, bool kExpand>
void row_loop(const DepthwiseRow& row) {
  const std::int64_t columns = (R - 1) * row.stride_w + (row.kernel_w - 1) * row.dilation_w + 1;
  const bool clip = kRows == 2 && (row.pair_lo > 0 || row.pair_hi < row.kernel_w + row.stride_w);
  for (std::int64_t o = 0; o < row.out_width; o += R) {
    const std::int64_t at = std::min(o, row.out_width - R);  // the last block overlaps
    const std::int64_t first = at * row.stride_w - row.pad_w;
    const float* const in = row.in + first * row.in_pixel;
    float* const out = row.out + at * row.out_pixel;
    const std::int64_t lo = -first, hi = row.in_width - first;
    if (lo <= 0 && hi >= columns && !clip) {
      pixels<Taps, kRows, R, false, kExpand>(row, in, out, 0, columns);
    } else {
      pixels<Taps, kRows, R, true, kExpand>(row, in, out, lo, hi);
    }
  }
}

template <class Taps, int kRows>
DepthwiseRowFn find_fixed(int pixels) {
  switch (pixels) {
    case 1:
      return kRows == 1 ? row_loop<Taps, 1, 1, false> : nullptr;
    case 2:
      return kRows == 1 ? row_loop<Taps, 1, 2, false> : nullptr;
    case 4:
      return row_loop<Taps, kRows, 4, false>;
    case 5:
      return row_loop<Taps, kRows, 5, false>;
    case 7:
      if constexpr (kRows * 7 < kRegisters / 2) return row_loop<Taps, kRows, 7, false>;
      return nullptr;
    default:
      return nullptr;
  }
}

DepthwiseRowFn find_row(const DepthwiseChoice& choice) {
  const int pixels = choice.pixels;
  const bool one = choice.rows == 1;
  if (!choice.expand && !choice.partial && choice.dilation_w == 1) {
    if (choice.kernel_w == 3 && choice.stride_w == 1)
      return one ? find_fixed<FixedTaps<3, 1>, 1>(pixels) : find_fixed<FixedTaps<3, 1>, 2>(pixels);
    if (choice.kernel_w == 3 && choice.stride_w == 2)
      return one ? find_fixed<FixedTaps<3, 2>, 1>(pixels) : find_fixed<FixedTaps<3, 2>, 2>(pixels);
    if (choice.kernel_w == 5 && choice.stride_w == 1 && one)
      return find_fixed<FixedTaps<5, 1>, 1>(pixels);
    if (choice.kernel_w == 5 && choice.stride_w == 2 && one)
      return find_fixed<FixedTaps<5, 2>, 1>(pixels);
  }
  if (!one) return nullptr;
  if (pixels == 4)
    return choice.expand ? row_loop<AnyTaps, 1, 4, true> : row_loop<AnyTaps, 1, 4, false>;
  if (pixels == 1)
    return choice.expand ? row_loop<AnyTaps, 1, 1, true> : row_loop<AnyTaps, 1, 1, false>;
  return nullptr;
}

DepthwiseIsa describe() { return {kLanes, kHalves}; }

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {

HWY_EXPORT(find_row);
HWY_EXPORT(describe);

DepthwiseRowFn depthwise_row(const DepthwiseChoice& choice) {
  return BRAZE_DISPATCH(find_row)(choice);
}
DepthwiseIsa depthwise_isa() { return BRAZE_DISPATCH(describe)(); }

}  // namespace braze::cpu
#endif  // HWY_ONCE
