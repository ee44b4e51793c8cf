#include "exec/numbers.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/float16.hpp"

namespace braze {
namespace {

/// Repeated, so that large memory is filled fast.
constexpr std::size_t kPeriod = 65536;

template <class T>
void fill(std::span<std::byte> bytes) {
  std::mt19937 generator(0);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const std::size_t own = std::min(bytes.size(), kPeriod * sizeof(T)) / sizeof(T) * sizeof(T);
  for (std::size_t at = 0; at < own; at += sizeof(T)) {
    const T number(uniform(generator));
    std::memcpy(&bytes[at], &number, sizeof(T));
  }
  if (own == 0) return;
  for (std::size_t at = own; at < bytes.size(); at += own)
    std::memcpy(&bytes[at], bytes.data(), std::min(own, bytes.size() - at));
}

}  // namespace

void fill_with_numbers(std::span<std::byte> bytes, DType dtype) {
  std::ranges::fill(bytes, std::byte{0});
  if (dtype == DType::kFloat32) fill<float>(bytes);
  if (dtype == DType::kFloat64) fill<double>(bytes);
  if (dtype == DType::kFloat16) fill<Float16>(bytes);
  if (dtype == DType::kBFloat16) fill<BFloat16>(bytes);
}

}  // namespace braze
