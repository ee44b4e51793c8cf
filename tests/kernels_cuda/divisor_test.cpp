#include <gtest/gtest.h>

#include <random>

#include "kernels/cuda/box.hpp"

namespace braze::cuda::testing {
namespace {

std::uint32_t quotient(std::uint32_t n, const device::Divisor& d) {
  return static_cast<std::uint32_t>(std::uint64_t{n << 1} * d.magic >> 32) >> d.shift;
}

TEST(CudaDivisor, DividesAllNumbersBelow2To31) {
  constexpr std::uint32_t kEnd = 1U << 31;
  std::mt19937 engine(1);
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  std::vector<std::uint32_t> divisors = {1,     2,     3,     5,        7,       641,
                                         65535, 65536, 65537, kEnd - 1, kEnd / 2};
  for (int i = 0; i < 2000; ++i)
    divisors.push_back(1 + (random() >> (1 + random() % 31)) % (kEnd - 1));
  for (const std::uint32_t d : divisors) {
    const device::Divisor divisor = divisor_of(d);
    std::vector<std::uint32_t> numbers = {0, 1, kEnd - 1, kEnd - 2};
    for (int i = 0; i < 100; ++i) {
      const std::uint32_t multiple = random() % (kEnd / d) * d;
      numbers.insert(numbers.end(), {multiple, multiple + d - 1, random() >> 1});
    }
    for (const std::uint32_t n : numbers) ASSERT_EQ(quotient(n, divisor), n / d) << n << " / " << d;
  }
  EXPECT_EQ(divisor_of(0).divisor, 1);
}

}  // namespace
}  // namespace braze::cuda::testing
