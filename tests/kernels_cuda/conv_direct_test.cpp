// The direct convolution against the interpreter.
#include "kernels_cuda/conv_cases.hpp"

namespace braze::cuda::testing {
namespace {

TEST(ConvDirectCuda, RandomConvolutions) {
  BRAZE_NEEDS_EMULATOR();
  std::mt19937 random(7);
  constexpr DType kTypes[] = {DType::kFloat16, DType::kFloat32, DType::kBFloat16};
  for (int i = 0; i < 24; ++i) {
    const DType compute = kTypes[i % 3];
    ConvCase c = random_conv(random, compute);
    if (i % 5 == 4) c.weights = Source::kInput;
    conv_twin(c).check(conv_direct_cuda(), cuda_device(i % 2 == 0 ? 70 : 90));
    if (HasFailure()) FAIL() << "convolution " << i;
  }
}

TEST(ConvDirectCuda, DepthwiseConvolution) {
  BRAZE_NEEDS_EMULATOR();
  ConvCase c;
  c.x = {2, 24, 7, 9};
  c.group = 24;
  c.outputs = 48;
  c.after = 1;
  conv_twin(c).check(conv_direct_cuda(), cuda_device(75));
}

}  // namespace
}  // namespace braze::cuda::testing
