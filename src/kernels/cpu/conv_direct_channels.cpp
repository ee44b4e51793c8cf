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

/// p + i * step bytes. Only odd multiples of the step are kept in registers; x86 scales an index by
/// 2, 4 and 8 for free.
template <int P>
struct PixelOffsets {
  explicit HWY_INLINE PixelOffsets(std::int64_t step) {
    unroll<P>([&](auto i) BRAZE_INLINE {
      if constexpr (i % 2 == 1) {
        odd[i] = i * step * static_cast<std::int64_t>(sizeof(float));
#if HWY_ARCH_X86
        asm("" : "+r"(odd[i]));  // else each pixel gets a pointer of its own, and they are spilled
#endif
      }
    });
  }
  template <int I>
  HWY_INLINE const float* at(const char* p) const {
    if constexpr (I > 0) {
      constexpr int kShift = __builtin_ctz(I);
      p += odd[I >> kShift] * (1 << kShift);
    }
    return reinterpret_cast<const float*>(p);
  }
  std::int64_t odd[P + 1] = {};
};

template <class D, int P, int NV>
void channel_tile(const ConvTile& tile) {
  using V = hn::Vec<D>;
  constexpr D d{};
  constexpr int kL = static_cast<int>(hn::MaxLanes(D{}));
  // Few accumulators would wait for each other: sum U steps apart.
  constexpr int U = P * NV >= 8 ? 1 : P * NV >= 4 ? 2 : 4;
  constexpr std::int64_t kStep = NV * kL;

  V acc[U][P][NV];
  unroll<NV>([&](auto j) BRAZE_INLINE {
    const V bias = hn::LoadU(d, tile.bias + j * kL);
    unroll<P>([&](auto i) BRAZE_INLINE { acc[0][i][j] = bias; });
    unroll<U - 1>([&](auto u) BRAZE_INLINE {
      unroll<P>([&](auto i) BRAZE_INLINE { acc[u + 1][i][j] = hn::Zero(d); });
    });
  });

  const PixelOffsets<P> pixels(tile.x_step);
  const std::int64_t run = tile.run;
  const auto step = [&](const char* x, const float* w, auto u, auto into) BRAZE_INLINE {
    V weights[NV];
    unroll<NV>([&](auto j) BRAZE_INLINE { weights[j] = hn::LoadU(d, w + u * kStep + j * kL); });
    unroll<P>([&](auto i) BRAZE_INLINE {
      const V value = hn::Set(d, pixels.template at<i>(x)[static_cast<int>(u)]);
      unroll<NV>([&](auto j) BRAZE_INLINE {
        acc[into][i][j] = hn::MulAdd(value, weights[j], acc[into][i][j]);
      });
    });
  };
  for (const ConvTap* tap = tile.taps; tap->x != nullptr; ++tap) {
    const char* x = reinterpret_cast<const char*>(tap->x + tile.x_offset);
    const float* w = tile.w + tap->index * run * kStep;
    std::int64_t r = 0;
    if constexpr (U > 1) {
      for (; r + U <= run; r += U) {
        unroll<U>([&](auto u) BRAZE_INLINE { step(x, w, u, u); });
        x += U * sizeof(float);
        w += U * kStep;
      }
    }
    for (; r < run; ++r) {
      constexpr std::integral_constant<int, 0> kFirst{};
      step(x, w, kFirst, kFirst);
      x += sizeof(float);
      w += kStep;
    }
  }
  unroll<U - 1>([&](auto u) BRAZE_INLINE {
    unroll<P>([&](auto i) BRAZE_INLINE {
      unroll<NV>([&](auto j)
                     BRAZE_INLINE { acc[0][i][j] = hn::Add(acc[0][i][j], acc[u + 1][i][j]); });
    });
  });

  clamp_keep_nan(acc[0], tile.clamp.lo, tile.clamp.hi);
  float* out = tile.out;
  if (tile.edge == kL) {
    unroll<P>([&](auto i) BRAZE_INLINE {
      unroll<NV>([&](auto j) BRAZE_INLINE { hn::StoreU(acc[0][i][j], d, out + j * kL); });
      out += tile.out_step;
    });
  } else {
    const auto edge = static_cast<std::size_t>(tile.edge);
    unroll<P>([&](auto i) BRAZE_INLINE {
      unroll<NV - 1>([&](auto j) BRAZE_INLINE { hn::StoreU(acc[0][i][j], d, out + j * kL); });
      store_n(acc[0][i][NV - 1], d, out + (NV - 1) * kL, edge);
      out += tile.out_step;
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
    fill_table<ChannelTile, kRegisters, kConvMaxVectors>(tiles.whole);
    if constexpr (kLanes >= 16) fill_table<HalfChannelTile, kRegisters, 1>(tiles.half);
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
