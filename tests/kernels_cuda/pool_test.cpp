#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {
namespace {

Window window(Ints kernel, Ints strides, Ints dilations, Ints begin, Ints end) {
  return {std::move(kernel), std::move(strides), std::move(dilations),
          std::move(begin),  std::move(end),     AutoPad::kNotSet};
}

TEST(CudaPool, MaximaAndAveragesOfEveryRank) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const PoolFn fn : {PoolFn::kMax, PoolFn::kAverage}) {
      for (const bool count : {false, true}) {
        if (fn == PoolFn::kMax && count) continue;
        const auto check = [&](Shape shape, Window w, bool ceil) {
          Tensor x = random_floats(dtype, std::move(shape), seed++, -2, 1);
          check_node(pool(), OneNode(Pool{fn, std::move(w), ceil, count, false}, {x}),
                     rounded(dtype), 3, seed);
        };
        check({2, 16, 9, 10}, window({3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}), false);
        check({1, 24, 8, 7}, window({3, 2}, {2, 3}, {1, 2}, {1, 0}, {0, 1}), true);
        check({2, 5, 11}, window({3}, {2}, {1}, {1}, {1}), true);
        check({1, 8, 4, 5, 6}, window({2, 3, 3}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}),
              false);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(CudaPool, NotANumberWins) {
  BRAZE_NEEDS_EMULATOR();
  Tensor x = random_floats(DType::kFloat32, {1, 4, 6, 6}, 1);
  x.as<float>()[8] = std::numeric_limits<float>::quiet_NaN();
  check_node(pool(),
             OneNode(Pool{PoolFn::kMax, window({3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}), false,
                          false, false},
                     {x}),
             within(0, 0));
}

TEST(CudaPool, WithAnEpilogue) {
  BRAZE_NEEDS_EMULATOR();
  OneNode node(
      Pool{PoolFn::kAverage, window({2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}), false, false, false},
      {random_floats(DType::kFloat32, {2, 12, 6, 8}, 1)});
  node.then(Binary{BinaryFn::kAdd}, random_floats(DType::kFloat32, {2, 12, 3, 4}, 2), false);
  node.then(Unary{UnaryFn::kRelu});
  node.then(Binary{BinaryFn::kMul}, random_floats(DType::kFloat32, {12, 1, 1}, 3));
  check_node(pool(), node, rounded(DType::kFloat32), 8);
}

}  // namespace
}  // namespace braze::cuda::testing
