// Softmax, InstanceNorm, Lrn.
#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {
namespace {

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

TEST(CudaSoftmax, AlongEveryAxis) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const std::int64_t axis : {0, 1, 2, 3}) {
    for (const bool log : {false, true}) {
      const DType dtype = kFloats[seed % 3];
      Tensor x = random_floats(dtype, {3, 21, 5, 6}, seed++, -5, 5);
      check_node(softmax(), OneNode(Softmax{axis, log, false}, {x}), rounded(dtype, 2e-6), 3, seed);
      if (HasFailure()) return;
    }
  }
  check_node(
      softmax(),
      OneNode(Softmax{1, false, false}, {random_floats(DType::kFloat32, {2, 3000}, 1, -9, 90)}),
      rounded(DType::kFloat32));
}

TEST(CudaSoftmax, InfinitiesAndNaN) {
  BRAZE_NEEDS_EMULATOR();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = make_tensor<float>(DType::kFloat32, {3, 4},
                                      {1, -kInf, 2, 3, 1, nan, 2, 3, -kInf, 0, -kInf, -kInf});
  check_node(softmax(), OneNode(Softmax{1, false, false}, {x}), rounded(DType::kFloat32));
}

TEST(CudaInstanceNorm, ImagesOfEveryRank) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const Shape& shape :
       {Shape{2, 24, 9, 7}, Shape{1, 5, 40}, Shape{2, 16, 3, 4, 5}, Shape{1, 8, 50, 60}}) {
    const DType dtype = kFloats[seed % 3];
    const OneNode node(InstanceNorm{},
                       {random_floats(dtype, shape, seed, 1, 3),
                        random_floats(dtype, {shape[1]}, 7), random_floats(dtype, {shape[1]}, 8)},
                       {1, 2});
    check_node(instance_norm(), node, rounded(dtype, 1e-5), 4, seed++);
    if (HasFailure()) return;
  }
}

TEST(CudaLrn, AnySize) {
  BRAZE_NEEDS_EMULATOR();
  for (const std::int64_t size : {1, 4, 5}) {
    const DType dtype = kFloats[size % 3];
    check_node(lrn(),
               OneNode(Lrn{size, 0.5, size == 4 ? 0.6 : 0.75, 2},
                       {random_floats(dtype, {2, 10, 3, 4}, 1, -3, 3)}),
               rounded(dtype, 1e-6), 3);
  }
}

}  // namespace
}  // namespace braze::cuda::testing
