#include "kernels/cpu/isa.hpp"

#include <gtest/gtest.h>

#include "kernels/cpu/conv_direct.hpp"

namespace braze::cpu {
namespace {

TEST(Isa, TheBestIsInForceUntilAnotherIsForced) {
  const std::vector<std::string> names = supported_isas();
  ASSERT_FALSE(names.empty());
  const int best_lanes = conv_channel_tiles().lanes;
  for (const std::string& name : names) {
    EXPECT_TRUE(force_isa(name));
    EXPECT_EQ(active_isa(), name);
    EXPECT_EQ(supported_isas(), names) << "forcing one does not hide the others";
    EXPECT_LE(conv_channel_tiles().lanes, best_lanes);
  }
  EXPECT_FALSE(force_isa("no such set"));
  EXPECT_EQ(active_isa(), names.back());
  EXPECT_TRUE(force_isa(names.front()));
  EXPECT_EQ(conv_channel_tiles().lanes, best_lanes);
}

TEST(Isa, LanesAreThoseOfTheSet) {
  for (const std::string& name : supported_isas()) {
    ASSERT_TRUE(force_isa(name));
    const int expected = name == "AVX3" ? 16 : name == "AVX2" ? 8 : name == "SCALAR" ? 1 : 4;
    EXPECT_EQ(conv_pixel_tiles().lanes, expected) << name;
  }
  force_isa(supported_isas().front());
}

}  // namespace
}  // namespace braze::cpu
