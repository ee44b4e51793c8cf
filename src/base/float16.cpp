#include "base/float16.hpp"

#include <algorithm>
#include <cmath>

namespace braze {
namespace {

template <int kExponentBits, int kMantissaBits>
struct Format {
  static constexpr int kMinExponent = 2 - (1 << (kExponentBits - 1));  // of normal numbers
  static constexpr std::uint32_t kInfinity = ((1U << kExponentBits) - 1) << kMantissaBits;
  static constexpr std::uint32_t kSign = 1U << (kExponentBits + kMantissaBits);

  static std::uint16_t encode(double value) {
    const std::uint32_t sign = std::signbit(value) ? kSign : 0;
    const double magnitude = std::fabs(value);
    std::uint32_t bits = 0;
    if (std::isnan(value)) {
      bits = kInfinity | (1U << (kMantissaBits - 1));
    } else if (std::isinf(value)) {
      bits = kInfinity;
    } else if (magnitude > 0) {
      const int exponent = std::max(std::ilogb(magnitude), kMinExponent);
      // The hidden bit of a normal number adds one to the exponent field.
      const double scaled = std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent));
      if (exponent > -kMinExponent + 1) {
        bits = kInfinity;
      } else {
        bits = (static_cast<std::uint32_t>(exponent - kMinExponent) << kMantissaBits) +
               static_cast<std::uint32_t>(scaled);
        bits = std::min(bits, kInfinity);
      }
    }
    return static_cast<std::uint16_t>(sign | bits);
  }

  static double decode(std::uint16_t bits) {
    const std::uint32_t magnitude = bits & (kSign - 1);
    const std::uint32_t mantissa = magnitude & ((1U << kMantissaBits) - 1);
    const int field = static_cast<int>(magnitude >> kMantissaBits);
    double value = 0;
    if (magnitude > kInfinity) {
      value = NAN;
    } else if (magnitude == kInfinity) {
      value = INFINITY;
    } else if (field == 0) {
      value = std::ldexp(mantissa, kMinExponent - kMantissaBits);
    } else {
      value =
          std::ldexp(mantissa + (1U << kMantissaBits), field - 1 + kMinExponent - kMantissaBits);
    }
    return (bits & kSign) != 0 ? -value : value;
  }
};

using Binary16 = Format<5, 10>;
using Brain16 = Format<8, 7>;

}  // namespace

Float16::Float16(double value) : bits(Binary16::encode(value)) {}
Float16::operator double() const { return Binary16::decode(bits); }
BFloat16::BFloat16(double value) : bits(Brain16::encode(value)) {}
BFloat16::operator double() const { return Brain16::decode(bits); }

}  // namespace braze
