// Normalisation of planes: what its inner loops share.
#pragma once

#include <cstdint>

namespace braze::cpu {

/// Channels of one image. Steps in elements; one channel: its pixels lie together.
struct NormTile {
  const float* x = nullptr;
  float* y = nullptr;  // not x
  std::int64_t pixels = 0, x_pixel = 1, y_pixel = 1;
  std::int64_t channels = 1;
  const float* scale = nullptr;
  const float* bias = nullptr;
  double epsilon = 0;
};
inline constexpr std::int64_t kNormChannels = 64;

/// y = (x - m) * scale + bias, where `rest` and `square` are the means of x - m and of its square.
struct NormFactors {
  float scale = 1, bias = 0;
};
NormFactors norm_factors(double rest, double square, double epsilon, float scale, float bias);

}  // namespace braze::cpu
