#include "kernels/cuda/pack.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/float16.hpp"

namespace braze::cuda {

float rounded_to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000U) & ~0x1fffU);
}

void write_element(std::byte* to, float x, DType dtype, bool tf32) {
  if (dtype == DType::kFloat16) {
    const Float16 y(static_cast<double>(x));
    std::memcpy(to, &y, sizeof y);
  } else if (dtype == DType::kBFloat16) {
    const BFloat16 y(static_cast<double>(x));
    std::memcpy(to, &y, sizeof y);
  } else {
    const float y = tf32 ? rounded_to_tf32(x) : x;
    std::memcpy(to, &y, sizeof y);
  }
}

}  // namespace braze::cuda
