#include "kernels/cpu/conv_depthwise_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/conv_depthwise_rows.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include "kernels/cpu/isa.hpp"

#include <algorithm>

#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

constexpr bool kHalves = HWY_TARGET == HWY_AVX3;

/// Adjacent channels.
template <class D>
struct Adjacent {
  using V = hn::Vec<D>;
  HWY_INLINE V load(const float* p) const { return hn::LoadU(D(), p); }
  HWY_INLINE V weight(const float* p) const { return hn::LoadU(D(), p); }
  HWY_INLINE void store(V v, float* p) const { hn::StoreU(v, D(), p); }
};

/// The first n of a vector's channels; those behind them may not be touched.
struct Partial {
  using V = Vec32;
  std::size_t n;
  HWY_INLINE V load(const float* p) const { return load_n(kF32, p, n); }
  HWY_INLINE V weight(const float* p) const { return hn::LoadU(kF32, p); }
  HWY_INLINE void store(V v, float* p) const { store_n(v, kF32, p, n); }
};

/// Channels of the input that each serve several of the output.
struct Expanded {
  using V = Vec32;
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

  /// acc[r] += sum of one tap row. `p` is column 0 of the block; columns outside of [lo, hi) do not
  /// exist.
  template <int R, bool kClip, class A>
  static HWY_INLINE void add(const DepthwiseRow& row, const A& access, const float* p,
                             const float* w, std::int64_t lo, std::int64_t hi,
                             typename A::V (&acc)[R]) {
    typename A::V tap[kWidth];
    unroll<kWidth>([&](auto k) BRAZE_INLINE { tap[k] = access.weight(w + k * kLanes); });
    unroll<kColumns<R>>([&](auto column) BRAZE_INLINE {
      constexpr int c = decltype(column)::value;
      if (!kClip || (c >= lo && c < hi)) {
        const auto x = access.load(p);
        unroll<R>([&](auto pixel) BRAZE_INLINE {
          constexpr int r = decltype(pixel)::value;
          constexpr int k = c - r * kStride;
          if constexpr (k >= 0 && k < kWidth) acc[r] = hn::MulAdd(x, tap[k], acc[r]);
        });
      }
      p += row.in_pixel;
    });
  }
};

/// Any kernel width, stride and dilation.
struct AnyTaps {
  static constexpr bool kFixed = false;

  template <int R, bool kClip, class A>
  static HWY_INLINE void add(const DepthwiseRow& row, const A& access, const float* p,
                             const float* w, std::int64_t lo, std::int64_t hi,
                             typename A::V (&acc)[R]) {
    for (std::int64_t k = 0; k < row.kernel_w; ++k, w += kLanes) {
      const auto tap = access.weight(w);
      const std::int64_t first = k * row.dilation_w;
      unroll<R>([&](auto r) BRAZE_INLINE {
        const std::int64_t c = first + r * row.stride_w;
        if (!kClip || (c >= lo && c < hi))
          acc[r] = hn::MulAdd(access.load(p + c * row.in_pixel), tap, acc[r]);
      });
    }
  }
};

/// R adjacent pixels by one vector of channels.
template <class Taps, int R, bool kClip, class A>
HWY_INLINE void block(const DepthwiseRow& row, const A& access, const float* in,
                      const float* packed, float* out, std::int64_t lo, std::int64_t hi) {
  typename A::V acc[R];
  unroll<R>([&](auto r) BRAZE_INLINE { acc[r] = access.weight(packed); });
  const float* w = packed + kLanes + row.first_tap;
  for (std::int64_t i = 0; i < row.tap_rows; ++i) {
    Taps::template add<R, kClip>(row, access, in, w, lo, hi, acc);
    in += row.in_row;
    w += row.kernel_w * kLanes;
  }
  const hn::DFromV<typename A::V> d;
  const auto floor = hn::Set(d, row.clamp.lo), ceiling = hn::Set(d, row.clamp.hi);
  unroll<R>([&](auto r) BRAZE_INLINE {
    access.store(min_keep_nan(max_keep_nan(acc[r], floor), ceiling), out + r * row.out_pixel);
  });
}

/// R adjacent pixels, all vectors. `in` is column 0 of the block.
template <class Taps, int R, bool kClip, bool kExpand>
HWY_INLINE void pixels(const DepthwiseRow& row, const float* in, float* out, std::int64_t lo,
                       std::int64_t hi) {
  const float* packed = row.weights;
  const std::int32_t* channel = row.channels;
  if constexpr (kExpand) {
    for (int v = 0; v < row.whole; ++v, packed += row.vector_weights) {
      const bool last = v + 1 == row.whole && row.partial > 0;
      const Expanded access{row.sources + v * kLanes,
                            static_cast<std::size_t>(last ? row.partial : kLanes)};
      block<Taps, R, kClip>(row, access, in, packed, out + channel[v], lo, hi);
    }
    return;
  }
  for (int v = 0; v < row.whole; ++v, packed += row.vector_weights, ++channel) {
    block<Taps, R, kClip>(row, Adjacent<F32>(), in + *channel, packed, out + *channel, lo, hi);
  }
  if constexpr (kHalves) {
    for (int v = 0; v < row.half; ++v, packed += row.vector_weights, ++channel) {
      block<Taps, R, kClip>(row, Adjacent<hn::Half<F32>>(), in + *channel, packed, out + *channel,
                            lo, hi);
    }
  }
  if constexpr (!Taps::kFixed) {
    if (row.partial > 0) {
      block<Taps, R, kClip>(row, Partial{static_cast<std::size_t>(row.partial)}, in, packed, out,
                            lo, hi);
    }
  }
}

template <class Taps, int R, bool kExpand>
void row_loop(const DepthwiseRow& row) {
  const std::int64_t columns = (R - 1) * row.stride_w + (row.kernel_w - 1) * row.dilation_w + 1;
  for (std::int64_t o = 0; o < row.out_width; o += R) {
    const std::int64_t at =
        std::min(o, row.out_width - R);  // the last block overlaps the one before it
    const std::int64_t first = at * row.stride_w - row.pad_w;
    const float* const in = row.in + first * row.in_pixel;
    float* const out = row.out + at * row.out_pixel;
    const std::int64_t lo = -first, hi = row.in_width - first;
    if (lo <= 0 && hi >= columns) {
      pixels<Taps, R, false, kExpand>(row, in, out, 0, columns);
    } else {
      pixels<Taps, R, true, kExpand>(row, in, out, lo, hi);
    }
  }
}

template <class Taps>
DepthwiseRowFn fixed(int pixels) {
  switch (pixels) {
    case 1:
      return row_loop<Taps, 1, false>;
    case 2:
      return row_loop<Taps, 2, false>;
    case 4:
      return row_loop<Taps, 4, false>;
    case 5:
      return row_loop<Taps, 5, false>;
    case 7:
      return row_loop<Taps, 7, false>;
    default:
      return nullptr;
  }
}

DepthwiseRowFn find_row(const DepthwiseChoice& choice) {
  if (!choice.expand && !choice.partial && choice.dilation_w == 1) {
    if (choice.kernel_w == 3 && choice.stride_w == 1) return fixed<FixedTaps<3, 1>>(choice.pixels);
    if (choice.kernel_w == 3 && choice.stride_w == 2) return fixed<FixedTaps<3, 2>>(choice.pixels);
    if (choice.kernel_w == 5 && choice.stride_w == 1) return fixed<FixedTaps<5, 1>>(choice.pixels);
    if (choice.kernel_w == 5 && choice.stride_w == 2) return fixed<FixedTaps<5, 2>>(choice.pixels);
  }
  if (choice.pixels == 4)
    return choice.expand ? row_loop<AnyTaps, 4, true> : row_loop<AnyTaps, 4, false>;
  if (choice.pixels == 1)
    return choice.expand ? row_loop<AnyTaps, 1, true> : row_loop<AnyTaps, 1, false>;
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
