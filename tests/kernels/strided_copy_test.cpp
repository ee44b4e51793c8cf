// Box-to-box copies against a loop over all elements, on every instruction set.
#include "kernels/cpu/strided_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "kernels/cpu/isa.hpp"

namespace braze::cpu {
namespace {

struct Box {
  std::int64_t element = 4;
  std::vector<CopyAxis> axes;
  std::int64_t from_offset = 0, to_offset = 0;
  std::int64_t from_bytes = 0, to_bytes = 0;
};

/// Strides of a dense array with gaps, its axes in random order; the extent in bytes comes back in
/// `bytes`.
std::vector<std::int64_t> random_strides(std::mt19937& random,
                                         const std::vector<std::int64_t>& extents,
                                         std::int64_t element, std::int64_t& bytes) {
  std::vector<std::size_t> order(extents.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = element;
  for (const std::size_t axis : order) {
    strides[axis] = stride;
    stride *= extents[axis];
    if (random() % 3 == 0) stride += element * static_cast<std::int64_t>(random() % 5);
  }
  bytes = stride;
  return strides;
}

Box random_box(std::mt19937& random) {
  Box box;
  box.element = std::int64_t{1} << (random() % 4);
  const std::size_t rank = random() % 6;
  std::vector<std::int64_t> extents(rank);
  for (auto& extent : extents) {
    const unsigned kind = random() % 4;
    extent = kind == 0   ? 1 + static_cast<std::int64_t>(random() % 4)
             : kind == 1 ? 16
                         : 1 + static_cast<std::int64_t>(random() % 40);
  }
  while (!extents.empty()) {  // at most 2^18 elements
    std::int64_t count = 1;
    for (const auto extent : extents) count *= extent;
    if (count <= 1 << 18) break;
    *std::max_element(extents.begin(), extents.end()) /= 2;
  }
  const auto from = random_strides(random, extents, box.element, box.from_bytes);
  const auto to = random_strides(random, extents, box.element, box.to_bytes);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    CopyAxis axis{extents[i], from[i], to[i]};
    if (random() % 8 == 0) axis.from = 0;
    if (random() % 8 == 0) {
      box.from_offset += (axis.extent - 1) * axis.from;
      axis.from = -axis.from;
    }
    box.axes.push_back(axis);
  }
  return box;
}

void copy_naively(const Box& box, const std::uint8_t* from, std::uint8_t* to) {
  std::int64_t count = 1;
  for (const CopyAxis& axis : box.axes) count *= axis.extent;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, f = box.from_offset, t = box.to_offset;
    for (const CopyAxis& axis : box.axes) {
      f += rest % axis.extent * axis.from;
      t += rest % axis.extent * axis.to;
      rest /= axis.extent;
    }
    std::memcpy(to + t, from + f, static_cast<std::size_t>(box.element));
  }
}

void check(const Box& box, std::mt19937& random) {
  std::vector<std::uint8_t> from(static_cast<std::size_t>(box.from_bytes));
  for (auto& byte : from) byte = static_cast<std::uint8_t>(random());
  std::vector<std::uint8_t> want(static_cast<std::size_t>(box.to_bytes), 0x7f), got = want;
  copy_naively(box, from.data(), want.data());
  const StridedCopy copy(box.element, box.axes, box.from_offset, box.to_offset);
  for (std::int64_t task = copy.tasks(); task-- > 0;) copy.run_task(task, from.data(), got.data());
  if (got == want) return;
  std::string axes;
  for (const CopyAxis& axis : box.axes) {
    axes += " " + std::to_string(axis.extent) + ":" + std::to_string(axis.from) + ":" +
            std::to_string(axis.to);
  }
  FAIL() << "element " << box.element << ", axes (extent:from:to)" << axes << ", isa "
         << active_isa();
}

class StridedCopyTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_isa(GetParam())); }
  void TearDown() override { force_isa(supported_isas().front()); }
};

TEST_P(StridedCopyTest, RandomBoxes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 400 && !HasFatalFailure(); ++i) check(random_box(random), random);
}

TEST_P(StridedCopyTest, TransposesOfEverySize) {
  std::mt19937 random(7);
  for (const std::int64_t element : {1, 2, 4, 8}) {
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 100}) {
      for (const std::int64_t columns : {1, 2, 3, 4, 6, 8, 9, 16, 31, 64, 130}) {
        for (const std::int64_t gap : {0, 3}) {
          Box box;
          box.element = element;
          box.axes = {{rows, element, (columns + gap) * element},
                      {columns, (rows + gap) * element, element}};
          box.from_bytes = columns * (rows + gap) * element;
          box.to_bytes = rows * (columns + gap) * element;
          check(box, random);
        }
      }
    }
  }
}

TEST_P(StridedCopyTest, LongRunsAreCutIntoTasks) {
  std::mt19937 random(3);
  Box box;
  box.axes = {{2, 400004, 400008}, {100001, 4, 4}};
  box.from_bytes = 2 * 400004;
  box.to_bytes = 2 * 400008;
  check(box, random);
  EXPECT_GT(StridedCopy(4, box.axes).tasks(), 16);
}

TEST_P(StridedCopyTest, NothingToCopy) {
  EXPECT_EQ(StridedCopy(4, {{3, 4, 4}, {0, 12, 12}}).tasks(), 0);
}

INSTANTIATE_TEST_SUITE_P(Isas, StridedCopyTest, ::testing::ValuesIn(supported_isas()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace braze::cpu
