// Inner loop of direct convolution with pixels along a vector:
// B output channels x NV vectors of accumulators; each step loads NV vectors of input and
// broadcasts one weight per channel.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/conv_direct_pixels.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/conv_direct.hpp"
#include "kernels/cpu/conv_direct_table.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {

template <int B, int NV>
void pixel_tile(const ConvTile& tile) {
  Vec32 acc[B][NV];
  unroll<B>([&](auto i) BRAZE_INLINE {
    const Vec32 bias = hn::Set(kF32, tile.bias[static_cast<int>(i)]);
    unroll<NV>([&](auto j) BRAZE_INLINE { acc[i][j] = bias; });
  });
  const float* const all_w = tile.w;
  const std::int64_t x_offset = tile.x_offset;
  const std::int64_t x_step = tile.x_step;
  const std::int64_t tap_step = tile.run * B;
  for (const ConvTap* tap = tile.taps; tap->x != nullptr; ++tap) {
    const float* x = tap->x + x_offset;
    const float* w = all_w + tap->index * tap_step;
    for (const float* const end = w + tap_step; w != end; w += B, x += x_step) {
      Vec32 value[NV];
      unroll<NV>([&](auto j) BRAZE_INLINE {
        value[j] = hn::LoadU(kF32, x + j * kLanes);
        pin(value[j]);
      });
      unroll<B>([&](auto i) BRAZE_INLINE {
        const Vec32 weight = hn::Set(kF32, w[static_cast<int>(i)]);
        unroll<NV>([&](auto j)
                       BRAZE_INLINE { acc[i][j] = hn::MulAdd(weight, value[j], acc[i][j]); });
      });
    }
  }

  clamp_keep_nan(acc, tile.clamp.lo, tile.clamp.hi);
  float* out = tile.out;
  const std::int64_t out_step = tile.out_step;
  const std::int64_t edge = tile.edge;
  if (edge == kLanes) {
    unroll<B>([&](auto i) BRAZE_INLINE {
      unroll<NV>([&](auto j) BRAZE_INLINE { hn::StoreU(acc[i][j], kF32, out + j * kLanes); });
      out += out_step;
    });
  } else {
    unroll<B>([&](auto i) BRAZE_INLINE {
      unroll<NV - 1>([&](auto j) BRAZE_INLINE { hn::StoreU(acc[i][j], kF32, out + j * kLanes); });
      store_n(acc[i][NV - 1], kF32, out + (NV - 1) * kLanes, static_cast<std::size_t>(edge));
      out += out_step;
    });
  }
}

template <int B, int NV>
struct PixelTile {
  static constexpr ConvTileFn kFn = pixel_tile<B, NV>;
};

const ConvTiles* pixel_tiles() {
  static constexpr ConvTiles kTiles = [] {
    ConvTiles tiles;
    tiles.lanes = kLanes;
    // Few output channels leave registers for many pixels.
    fill_table<PixelTile, kRegisters, 1, 2, 3, 4, 6>(tiles.whole);
    return tiles;
  }();
  return &kTiles;
}

}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {
HWY_EXPORT(pixel_tiles);
const ConvTiles& conv_pixel_tiles() { return *BRAZE_DISPATCH(pixel_tiles)(); }
}  // namespace braze::cpu
#endif
