#include "base/float16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace braze::test {
namespace {

/// The value of a magnitude by its fields, as IEEE 754 defines them.
double value_of(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int field = static_cast<int>(bits >> mantissa_bits);
  const unsigned mantissa = bits & ((1U << mantissa_bits) - 1);
  const int lowest = 2 - (1 << (exponent_bits - 1)) - mantissa_bits;
  return field == 0 ? std::ldexp(mantissa, lowest)
                    : std::ldexp(mantissa + (1U << mantissa_bits), field - 1 + lowest);
}

/// Every number, and all that rounds to it or to the next: below, at and above the middle.
template <class T>
void check_all(int exponent_bits, int mantissa_bits) {
  const unsigned infinity = ((1U << exponent_bits) - 1) << mantissa_bits;
  const auto bits_of = [](double value) { return static_cast<unsigned>(T(value).bits); };
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const double value = value_of(bits, exponent_bits, mantissa_bits);
    T number;
    number.bits = static_cast<std::uint16_t>(bits);
    ASSERT_EQ(static_cast<double>(number), value) << bits;
    ASSERT_EQ(bits_of(value), bits);
    ASSERT_EQ(bits_of(-value), bits | 0x8000U);
    const double middle = (value + value_of(bits + 1, exponent_bits, mantissa_bits)) / 2;
    const double huge = std::numeric_limits<double>::infinity();
    ASSERT_EQ(bits_of(std::nextafter(middle, 0)), bits);
    ASSERT_EQ(bits_of(middle), bits + (bits & 1)) << "to even";
    ASSERT_EQ(bits_of(std::nextafter(middle, huge)), bits + 1);
  }
  EXPECT_EQ(bits_of(std::numeric_limits<double>::max()), infinity);
  EXPECT_EQ(bits_of(-INFINITY), infinity | 0x8000U);
  EXPECT_EQ(bits_of(std::numeric_limits<double>::denorm_min()), 0U);
  T number;
  for (unsigned bits = infinity + 1; bits < 0x8000; ++bits) {
    number.bits = static_cast<std::uint16_t>(bits);
    ASSERT_TRUE(std::isnan(static_cast<double>(number)));
  }
  EXPECT_TRUE(std::isnan(static_cast<double>(T(NAN))));
  number.bits = static_cast<std::uint16_t>(infinity | 0x8000U);
  EXPECT_EQ(static_cast<double>(number), -INFINITY);
  EXPECT_TRUE(std::signbit(static_cast<double>(T(-0.0))));
}

TEST(Float16, RoundsOnceToNearestEven) { check_all<Float16>(5, 10); }
TEST(BFloat16, RoundsOnceToNearestEven) { check_all<BFloat16>(8, 7); }

}  // namespace
}  // namespace braze::test
