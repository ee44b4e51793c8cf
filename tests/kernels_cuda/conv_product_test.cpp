// Convolution as a product, on each kind of multiplier, against the interpreter.
#include "kernels_cuda/conv_cases.hpp"

namespace braze::cuda::testing {
namespace {

struct Kind {
  const char* name;
  Row (*row)();
  DType dtype;
  int sm;
  bool tf32;
};

class ConvProduct : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { BRAZE_NEEDS_EMULATOR(); }
  static Device device() {
    Device device = cuda_device(GetParam().sm);
    device.tf32 = GetParam().tf32;
    return device;
  }
  static ConvCase one() {
    ConvCase c;
    c.compute = c.x_stored = c.y_stored = GetParam().dtype;
    return c;
  }
  static void check(const ConvCase& c, int only = -1) {
    conv_twin(c).check(GetParam().row(), device(), only);
  }
};

TEST_P(ConvProduct, EveryCandidate) {
  ConvCase c = one();
  c.x = {2, 40, 9, 8};
  c.outputs = 72;
  c.after = 2;
  check(c);
}

TEST_P(ConvProduct, SplitDepthOfSmallImages) {
  ConvCase c = one();
  c.x = {1, 256, 5, 5};
  c.outputs = 40;
  c.after = 1;
  check(c);
}

TEST_P(ConvProduct, FirstLayerOfThreeChannels) {
  ConvCase c = one();
  c.x = {1, 3, 23, 21};
  c.x_stored = DType::kFloat32;
  c.in = {};
  c.outputs = 64;
  c.kernel = {7, 7}, c.strides = {2, 2}, c.begin = c.end = {3, 3};
  c.after = 1;
  check(c, 1);
  c.in = {Layout::kChannelsLast, 0};
  check(c, 0);
}

TEST_P(ConvProduct, Pointwise) {
  ConvCase c = one();
  c.x = {2, 64, 6, 7};
  c.outputs = 96;
  c.kernel = {1, 1}, c.begin = c.end = {0, 0};
  c.after = 2;
  check(c, 2);
  c.strides = {2, 2};
  c.out = {};
  check(c, 3);
  c.begin = {1, 0}, c.end = {0, 1};
  check(c, 4);
}

TEST_P(ConvProduct, Groups) {
  ConvCase c = one();
  c.x = {1, 48, 6, 7};
  c.group = 3;
  c.outputs = 24 * 3;
  c.after = 3;
  check(c, 0);
  c.outputs = 11 * 3;
  check(c, 1);
}

TEST_P(ConvProduct, NotANumberStaysOne) {
  Twin twin(GetParam().dtype);
  Tensor x = twin.values({1, 16, 6, 6});
  x.as<float>()[40] = std::numeric_limits<float>::quiet_NaN();
  x.as<float>()[300] = std::numeric_limits<float>::infinity();
  const ValueId in = twin.input(x, GetParam().dtype, {Layout::kChannelsLast, 0});
  const ValueId w = twin.constant(twin.values({16, 16, 3, 3}));
  Conv conv;
  conv.window = {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, AutoPad::kNotSet};
  twin.anchor(conv, {in, w});
  twin.then(Unary{UnaryFn::kRelu});
  twin.store_as(GetParam().dtype, {Layout::kChannelsLast, 0});
  twin.magnitude = 4 * 144;
  twin.check(GetParam().row(), device(), 0);
}

TEST_P(ConvProduct, RandomConvolutions) {
  std::mt19937 random(11);
  int done = 0;
  for (int i = 0; done < 24; ++i) {
    const ConvCase c = random_conv(random, GetParam().dtype);
    const Twin twin = conv_twin(c);
    const Node& node = twin.graph.node(twin.group.members[0].anchor);
    const Row row = GetParam().row();
    if (!row.family.supports(twin.graph, node, device()).ok) continue;
    twin.check(row, device(), static_cast<int>(random() % 16));
    if (HasFailure()) FAIL() << "convolution " << i;
    ++done;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ConvProduct,
    ::testing::Values(Kind{"sm80_float16", conv_sm80, DType::kFloat16, 80, false},
                      Kind{"sm80_bfloat16", conv_sm80, DType::kBFloat16, 86, false},
                      Kind{"sm80_tf32", conv_sm80, DType::kFloat32, 90, true},
                      Kind{"portable_float16", conv_portable, DType::kFloat16, 70, false},
                      Kind{"portable_bfloat16", conv_portable, DType::kBFloat16, 80, false},
                      Kind{"simt_float", conv_simt, DType::kFloat32, 90, false},
                      Kind{"simt_float_sm70", conv_simt, DType::kFloat32, 70, false},
                      Kind{"simt_bfloat16", conv_simt, DType::kBFloat16, 75, false}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace braze::cuda::testing
