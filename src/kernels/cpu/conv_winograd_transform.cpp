// Winograd transforms of tiles, vectors along channels.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/conv_winograd_transform.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/conv_winograd.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {

/// One axis of the transforms: y = B^T x of T inputs, y = A^T x of T points.
template <int M>
struct Axis;

template <>
struct Axis<2> {
  static constexpr int kT = 4;
  static HWY_INLINE void input(const Vec32* x, Vec32* y) {
    y[0] = hn::Sub(x[0], x[2]);
    y[1] = hn::Add(x[1], x[2]);
    y[2] = hn::Sub(x[2], x[1]);
    y[3] = hn::Sub(x[3], x[1]);
  }
  static HWY_INLINE void output(const Vec32* x, Vec32* y) {
    y[0] = hn::Add(x[0], hn::Add(x[1], x[2]));
    y[1] = hn::Add(x[3], hn::Sub(x[1], x[2]));
  }
};

template <>
struct Axis<4> {
  static constexpr int kT = 6;
  static constexpr double kA = 0.70710678118654752440, kB = 1.41421356237309504880;
  static HWY_INLINE Vec32 number(double value) { return hn::Set(kF32, static_cast<float>(value)); }

  static HWY_INLINE void input(const Vec32* x, Vec32* y) {
    const Vec32 a = number(kA), b = number(kB), half = number(0.5), two = number(2);
    const Vec32 sum = number(2.5);
    y[0] = hn::NegMulAdd(sum, x[2], hn::Add(x[0], x[4]));
    const Vec32 even_a = hn::NegMulAdd(two, x[2], x[4]), odd_a = hn::NegMulAdd(two, x[1], x[3]);
    y[1] = hn::MulAdd(a, odd_a, even_a);
    y[2] = hn::NegMulAdd(a, odd_a, even_a);
    const Vec32 even_b = hn::NegMulAdd(half, x[2], x[4]), odd_b = hn::NegMulAdd(half, x[1], x[3]);
    y[3] = hn::MulAdd(b, odd_b, even_b);
    y[4] = hn::NegMulAdd(b, odd_b, even_b);
    y[5] = hn::NegMulAdd(sum, x[3], hn::Add(x[1], x[5]));
  }
  static HWY_INLINE void output(const Vec32* x, Vec32* y) {
    const Vec32 sum_a = hn::Add(x[1], x[2]), difference_a = hn::Sub(x[1], x[2]);
    const Vec32 sum_b = hn::Add(x[3], x[4]), difference_b = hn::Sub(x[3], x[4]);
    y[0] = hn::Add(hn::Add(x[0], sum_a), sum_b);
    y[1] = hn::MulAdd(number(kB), difference_b, hn::Mul(number(kA), difference_a));
    y[2] = hn::MulAdd(number(2), sum_b, hn::Mul(number(0.5), sum_a));
    y[3] =
        hn::MulAdd(number(2 * kB), difference_b, hn::MulAdd(number(0.5 * kA), difference_a, x[5]));
  }
};

/// One vector of channels of all tiles. Neighbours share two columns of inputs.
template <int M, bool kWhole>
HWY_INLINE void input_vector(const WinogradInput& in, std::int64_t c, std::size_t lanes) {
  constexpr int kT = Axis<M>::kT;
  Vec32 columns[kT][kT];  // [point][column of pixels]
  const auto load_column = [&](auto j, const float* const* from) BRAZE_INLINE {
    Vec32 x[kT], y[kT];
    unroll<kT>([&](auto i) BRAZE_INLINE {
      const float* pixel = from[i * in.from_row + j] + c;
      x[i] = kWhole ? hn::LoadU(kF32, pixel) : load_n(kF32, pixel, lanes);
    });
    Axis<M>::input(x, y);
    unroll<kT>([&](auto i) BRAZE_INLINE { columns[i][j] = y[i]; });
  };
  const float* const* from = in.from;
  float* to = in.to + c;
  unroll<2>([&](auto j) BRAZE_INLINE { load_column(j, from); });
  for (std::int64_t tile = 0; tile < in.tiles; ++tile) {
    unroll<M>([&](auto j)
                  BRAZE_INLINE { load_column(std::integral_constant<int, j + 2>{}, from); });
    unroll<kT>([&](auto i) BRAZE_INLINE {
      Vec32 y[kT];
      Axis<M>::input(columns[i], y);
      unroll<kT>([&](auto j)
                     BRAZE_INLINE { hn::StoreU(y[j], kF32, to + (i * kT + j) * in.point_step); });
      columns[i][0] = columns[i][M];
      columns[i][1] = columns[i][M + 1];
    });
    from += M;
    to += in.tile_step;
  }
}

template <int M>
void input_transform(const WinogradInput& in) {
  std::int64_t c = 0;
  for (; c + kLanes <= in.channels; c += kLanes)
    input_vector<M, true>(in, c, static_cast<std::size_t>(kLanes));
  if (c < in.channels) input_vector<M, false>(in, c, static_cast<std::size_t>(in.channels - c));
}

template <int M>
void output_transform(const WinogradOutput& out) {
  constexpr int kT = Axis<M>::kT;
  for (std::int64_t tile = 0; tile < out.tiles; ++tile) {
    const std::int64_t pixels = out.pixels - tile * M;
    const bool whole_tile = out.rows >= M && pixels >= M;
    for (std::int64_t k = 0; k < out.channels; k += kLanes) {
      const float* from = out.from + tile * out.tile_step + k;
      Vec32 columns[M][kT];
      unroll<kT>([&](auto j) BRAZE_INLINE {
        Vec32 x[kT], y[M];
        unroll<kT>([&](auto i) BRAZE_INLINE {
          x[i] = hn::LoadU(kF32, from + (i * kT + j) * out.point_step);
        });
        Axis<M>::output(x, y);
        unroll<M>([&](auto i) BRAZE_INLINE { columns[i][j] = y[i]; });
      });
      const Vec32 bias = hn::LoadU(kF32, out.bias + k);
      Vec32 y[M][M];
      unroll<M>([&](auto i) BRAZE_INLINE {
        Axis<M>::output(columns[i], y[i]);
        unroll<M>([&](auto j) BRAZE_INLINE { y[i][j] = hn::Add(y[i][j], bias); });
      });
      clamp_keep_nan(y, out.clamp.lo, out.clamp.hi);
      float* to = out.to + tile * M * out.pixel_step + k;
      const std::int64_t lanes = out.channels - k;
      if (whole_tile && lanes >= kLanes) {
        unroll<M>([&](auto i) BRAZE_INLINE {
          unroll<M>([&](auto j) BRAZE_INLINE {
            hn::StoreU(y[i][j], kF32, to + i * out.row_step + j * out.pixel_step);
          });
        });
      } else {
        const auto count = static_cast<std::size_t>(lanes < kLanes ? lanes : kLanes);
        unroll<M>([&](auto i) BRAZE_INLINE {
          unroll<M>([&](auto j) BRAZE_INLINE {
            if (i < out.rows && j < pixels)
              store_n(y[i][j], kF32, to + i * out.row_step + j * out.pixel_step, count);
          });
        });
      }
    }
  }
}

WinogradTransforms transforms(int m) {
  return m == 2 ? WinogradTransforms{input_transform<2>, output_transform<2>}
                : WinogradTransforms{input_transform<4>, output_transform<4>};
}

}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {
HWY_EXPORT(transforms);
WinogradTransforms winograd_transforms(int m) { return BRAZE_DISPATCH(transforms)(m); }
}  // namespace braze::cpu
#endif
