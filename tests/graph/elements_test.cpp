#include "graph/elements.hpp"

#include <gtest/gtest.h>

namespace braze {
namespace {

TEST(Float16, RoundsToNearestEvenOnce) {
  EXPECT_EQ(Float16(1.0).bits, 0x3c00);
  EXPECT_EQ(Float16(-2.0).bits, 0xc000);
  EXPECT_EQ(Float16(65504.0).bits, 0x7bff);
  EXPECT_EQ(Float16(65519.99).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0).bits, 0x7c00);  // halfway to 2^16: infinite
  EXPECT_EQ(Float16(1e300).bits, 0x7c00);
  EXPECT_EQ(Float16(2049.0).bits, Float16(2048.0).bits);  // ties to even
  EXPECT_EQ(Float16(2051.0).bits, Float16(2052.0).bits);
  // Rounding to float first would make this a tie that goes down.
  EXPECT_EQ(Float16(2049.0 + 0x1p-30).bits, Float16(2050.0).bits);
}

TEST(Float16, Subnormals) {
  EXPECT_EQ(Float16(0x1p-24).bits, 1);
  EXPECT_EQ(Float16(0x1p-25).bits, 0);  // tie to even
  EXPECT_EQ(Float16(0x1.8p-25).bits, 1);
  EXPECT_EQ(Float16(-0.0).bits, 0x8000);
  EXPECT_EQ(Float16(0x1p-14).bits, 0x0400);
}

TEST(Float16, EveryValueSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    BFloat16 brain;
    brain.bits = static_cast<std::uint16_t>(bits);
    const auto half_value = static_cast<double>(half);
    const auto brain_value = static_cast<double>(brain);
    if (std::isnan(half_value)) {
      EXPECT_TRUE(std::isnan(static_cast<double>(Float16(half_value))));
    } else {
      EXPECT_EQ(Float16(half_value).bits, bits);
    }
    if (!std::isnan(brain_value)) {
      EXPECT_EQ(BFloat16(brain_value).bits, bits);
      EXPECT_EQ(static_cast<float>(brain_value), std::bit_cast<float>(bits << 16));
    }
  }
}

TEST(Convert, FloatsToIntegersCutTheFraction) {
  EXPECT_EQ(convert<std::int32_t>(-1.9), -1);
  EXPECT_EQ(convert<std::uint8_t>(-1.0F), 255);
  EXPECT_EQ(convert<std::uint8_t>(300.0F), 44);
  EXPECT_EQ(convert<std::int32_t>(3e9), INT32_MIN);
  EXPECT_EQ(convert<std::int32_t>(-2147483648.5), INT32_MIN);
  EXPECT_EQ(convert<std::int64_t>(std::nan("")), INT64_MIN);
  EXPECT_EQ(convert<std::uint64_t>(0x1p63), std::uint64_t{1} << 63);
  EXPECT_EQ(convert<std::int8_t>(std::nan("")), 0);
}

TEST(Convert, BoolsAreZeroOrOne) {
  EXPECT_EQ(convert<Bool8>(-0.5).byte, 1);
  EXPECT_EQ(convert<Bool8>(0.0).byte, 0);
  EXPECT_EQ(convert<float>(Bool8{7}), 1.0F);
}

TEST(Cast, KeepsShapeAndWraps) {
  const Tensor wide =
      make_tensor(DType::kInt64, {2, 2}, std::vector<std::int64_t>{1, -1, 128, 1000});
  const Tensor narrow = cast(wide, DType::kInt8);
  EXPECT_EQ(narrow.shape(), (Shape{2, 2}));
  EXPECT_EQ(load<std::int64_t>(narrow), (std::vector<std::int64_t>{1, -1, -128, -24}));
}

}  // namespace
}  // namespace braze
