// Inner loop of direct convolution with output channels along a vector:
// P pixels x NV vectors of accumulators; each step loads NV vectors of weights and broadcasts one
// input element per pixel.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/conv_direct_channels.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/conv_direct.hpp"
#include "kernels/cpu/conv_direct_table.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {

/// Addresses of P elements, `step` floats apart. Only odd multiples of the step are held in
/// registers; x86 scales an index by 2, 4 and 8 for free.
template <int P>
class Strided {
 public:
  explicit HWY_INLINE Strided(std::int64_t step) {
    unroll<P>([&](auto i) BRAZE_INLINE {
      if constexpr (i % 2 == 1) odd_[i] = i * step * static_cast<std::int64_t>(sizeof(float));
    });
    pin();
  }
  /// Hides where the multiples come from, so that the compiler does not hold all of them (or a
  /// pointer per element) in registers that it does not have. Costs no instruction.
  HWY_INLINE void pin() {
#if HWY_ARCH_X86
    unroll<P>([&](auto i) BRAZE_INLINE {
      if constexpr (i % 2 == 1) asm("" : "+r"(odd_[i]));
    });
#endif
  }
  template <int I, class T>
  HWY_INLINE T* at(T* p) const {
    if constexpr (I == 0) {
      return p;
    } else {
      constexpr int kShift = __builtin_ctz(I);
      using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
      return reinterpret_cast<T*>(reinterpret_cast<Byte*>(p) + (odd_[I >> kShift] << kShift));
    }
  }

 private:
  std::int64_t odd_[P + 1] = {};
};

template <class D, int P, int NV>
void channel_tile(const ConvTile& tile) {
  using V = hn::Vec<D>;
  const D d;
  constexpr int kL = static_cast<int>(hn::MaxLanes(D{}));
  // Few accumulators would wait for each other: sum kUnroll steps apart.
  constexpr int kUnroll = P * NV >= 8 ? 1 : P * NV >= 4 ? 2 : 4;
  constexpr std::int64_t kStep = NV * kL;

  V acc[P][NV];
  V more[kUnroll][P][NV];  // sums of steps 1 ... kUnroll - 1
  const float* bias = tile.bias;
  unroll<NV>([&](auto j) BRAZE_INLINE {
    const V start = hn::LoadU(d, bias + j * kL);
    unroll<P>([&](auto i) BRAZE_INLINE { acc[i][j] = start; });
    if constexpr (kUnroll > 1) {
      unroll<kUnroll - 1>([&](auto u) BRAZE_INLINE {
        unroll<P>([&](auto i) BRAZE_INLINE { more[u + 1][i][j] = hn::Zero(d); });
      });
    }
  });

  Strided<P> pixels(tile.x_step);
  const auto step = [&](const float* x, const float* w, auto u, V(&sums)[P][NV]) BRAZE_INLINE {
    V weights[NV];
    unroll<NV>([&](auto j) BRAZE_INLINE { weights[j] = hn::LoadU(d, w + u * kStep + j * kL); });
    unroll<P>([&](auto i) BRAZE_INLINE {
      const V value = hn::Set(d, pixels.template at<i>(x)[static_cast<int>(u)]);
      unroll<NV>([&](auto j)
                     BRAZE_INLINE { sums[i][j] = hn::MulAdd(value, weights[j], sums[i][j]); });
    });
    pixels.pin();
  };
  const float* const all_w = tile.w;
  const std::int64_t x_offset = tile.x_offset;
  const std::int64_t run = tile.run;
  const std::int64_t tap_step = run * kStep;
  for (const ConvTap* tap = tile.taps; tap->x != nullptr; ++tap) {
    const float* x = tap->x + x_offset;
    const float* w = all_w + tap->index * tap_step;
    const float* const end = w + tap_step;
    if constexpr (kUnroll > 1) {
      for (const float* const last = end - (kUnroll - 1) * kStep; w < last;
           w += kUnroll * kStep, x += kUnroll) {
        step(x, w, std::integral_constant<int, 0>{}, acc);
        unroll<kUnroll - 1>([&](auto u) BRAZE_INLINE {
          step(x, w, std::integral_constant<int, u + 1>{}, more[u + 1]);
        });
      }
    }
    for (; w != end; w += kStep, ++x) {
      step(x, w, std::integral_constant<int, 0>{}, acc);
    }
  }
  unroll<kUnroll - 1>([&](auto u) BRAZE_INLINE {
    unroll<P>([&](auto i) BRAZE_INLINE {
      unroll<NV>([&](auto j) BRAZE_INLINE { acc[i][j] = hn::Add(acc[i][j], more[u + 1][i][j]); });
    });
  });

  clamp_keep_nan(acc, tile.clamp.lo, tile.clamp.hi);
  float* const out = tile.out;
  const std::int64_t edge = tile.edge;
  const Strided<P> places(tile.out_step);  // not one after the other: that is a chain of additions
  unroll<P>([&](auto i) BRAZE_INLINE {
    unroll<NV - 1>([&](auto j) BRAZE_INLINE {
      hn::StoreU(acc[i][j], d, places.template at<i>(out) + j * kL);
    });
  });
  float* const last = out + (NV - 1) * kL;
  if (edge == kL) {
    unroll<P>([&](auto i)
                  BRAZE_INLINE { hn::StoreU(acc[i][NV - 1], d, places.template at<i>(last)); });
  } else {
    unroll<P>([&](auto i) BRAZE_INLINE {
      store_n(acc[i][NV - 1], d, places.template at<i>(last), static_cast<std::size_t>(edge));
    });
  }
}

template <int B, int NV>
struct ChannelTile {
  static constexpr ConvTileFn kFn = channel_tile<F32, B, NV>;
};
template <int B, int NV>
struct HalfChannelTile {
  static constexpr ConvTileFn kFn =
      channel_tile<hn::CappedTag<float, HWY_MAX(1, kLanes / 2)>, B, NV>;
};

const ConvTiles* channel_tiles() {
  static constexpr ConvTiles kTiles = [] {
    ConvTiles tiles;
    tiles.lanes = kLanes;
    fill_table<ChannelTile, kRegisters, 1, 2, 3>(tiles.whole);
    if constexpr (kLanes >= 16) fill_table<HalfChannelTile, kRegisters, 1, 3>(tiles.half);
    return tiles;
  }();
  return &kTiles;
}

}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {
HWY_EXPORT(channel_tiles);
const ConvTiles& conv_channel_tiles() { return *BRAZE_DISPATCH(channel_tiles)(); }

int ConvTiles::broadcasts(int vectors) const {
  int most = kConvMaxBroadcasts;
  while (most > 0 &&
         whole[static_cast<std::size_t>(vectors)][static_cast<std::size_t>(most)] == nullptr)
    --most;
  return most;
}
}  // namespace braze::cpu
#endif
