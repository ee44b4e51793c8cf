#include "base/float16.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace braze {
namespace {

/// By way of the bits of binary64, whose exponent has 11 bits and whose mantissa has 52.
template <int kExponentBits, int kMantissaBits>
struct Format {
  static constexpr int kShift = 52 - kMantissaBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint64_t kInfinity = ((1ULL << kExponentBits) - 1) << kMantissaBits;
  static constexpr std::uint64_t kSign = 1ULL << (kExponentBits + kMantissaBits);
  static constexpr std::uint64_t kRebias = static_cast<std::uint64_t>(1023 - kBias) << 52;
  static constexpr std::uint64_t kSmallestNormal = kRebias + (1ULL << 52);
  // What is added to it loses all below the smallest subnormal number, rounded to even.
  static constexpr double kUnitOfSubnormals =
      std::bit_cast<double>(static_cast<std::uint64_t>(1023 - kBias + 1 + kShift) << 52);

  static std::uint16_t encode(double value) {
    const auto all = std::bit_cast<std::uint64_t>(value);
    const std::uint64_t magnitude = all & ~(1ULL << 63), sign = all >> 63 != 0 ? kSign : 0;
    std::uint64_t bits = 0;
    if (magnitude > kBinary64Infinity) {
      bits = kInfinity | (1ULL << (kMantissaBits - 1));
    } else if (magnitude >= kSmallestNormal) {
      const std::uint64_t below_half = (1ULL << (kShift - 1)) - 1;
      const std::uint64_t odd = magnitude >> kShift & 1;
      bits = std::min((magnitude - kRebias + below_half + odd) >> kShift, kInfinity);
    } else {
      bits = std::bit_cast<std::uint64_t>(std::fabs(value) + kUnitOfSubnormals) -
             std::bit_cast<std::uint64_t>(kUnitOfSubnormals);
    }
    return static_cast<std::uint16_t>(sign | bits);
  }

  static double decode(std::uint16_t bits) {
    const std::uint64_t magnitude = bits & (kSign - 1);
    const std::uint64_t sign = (bits & kSign) != 0 ? 1ULL << 63 : 0;
    if (magnitude > kInfinity) return NAN;
    if (magnitude == kInfinity) return std::bit_cast<double>(sign | kBinary64Infinity);
    if (magnitude < 1ULL << kMantissaBits) {
      constexpr double kSmallest =
          std::bit_cast<double>(static_cast<std::uint64_t>(1023 - kBias + 1 - kMantissaBits) << 52);
      return std::copysign(static_cast<double>(magnitude) * kSmallest, sign != 0 ? -1.0 : 1.0);
    }
    return std::bit_cast<double>(sign | ((magnitude << kShift) + kRebias));
  }

 private:
  static constexpr std::uint64_t kBinary64Infinity = 2047ULL << 52;
};

using Binary16 = Format<5, 10>;
using Brain16 = Format<8, 7>;

}  // namespace

Float16::Float16(double value) : bits(Binary16::encode(value)) {}
Float16::operator double() const { return Binary16::decode(bits); }
BFloat16::BFloat16(double value) : bits(Brain16::encode(value)) {}
BFloat16::operator double() const { return Brain16::decode(bits); }

}  // namespace braze
