// Convolution of few channels on the emulated GPU, against the interpreter.
#include "kernels_cuda/conv_cases.hpp"
#include "kernels_cuda/nvrtc_for.hpp"

namespace braze::cuda::testing {
namespace {

struct Kind {
  const char* name;
  DType dtype;
  int sm;
};

class ConvStem : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { BRAZE_NEEDS_EMULATOR(); }
  static Device device() {
    Device device = cuda_device(GetParam().sm);
    device.tf32 = GetParam().dtype == DType::kFloat32;
    return device;
  }
  static ConvCase conv(const Shape& x, std::int64_t outputs, const Ints& kernel,
                       std::int64_t stride = 1) {
    ConvCase c;
    c.compute = c.x_stored = c.y_stored = GetParam().dtype;
    c.x = x;
    c.outputs = outputs;
    c.kernel = kernel;
    c.strides = {stride, stride};
    for (std::size_t i = 0; i < kernel.size(); ++i) c.begin[i] = c.end[i] = kernel[i] / 2;
    return c;
  }
  static void check(const ConvCase& c, int only = -1) {
    conv_twin(c).check(conv_stem(), device(), only);
  }
  /// A source of the kernel that was built for the first candidate.
  static std::string source(const ConvCase& c) {
    return conv_twin(c).kernels(conv_stem(), device()).front().source;
  }
};

TEST_P(ConvStem, FirstLayersOfNetworks) {
  ConvCase c = conv({1, 3, 36, 40}, 64, {7, 7}, 2);
  c.after = 1;
  check(c);
  EXPECT_NE(source(c).find("StemInput::kDense, 4"), std::string::npos) << source(c);
  c = conv({2, 3, 32, 48}, 32, {3, 3}, 2);
  c.after = 8;
  check(c);
  EXPECT_EQ(source(c).find("StemInput::kDense, 1,"), std::string::npos) << source(c);
  c.begin = {0, 0};
  check(c, 0);
  c = conv({1, 3, 20, 33}, 64, {3, 3});
  c.after = 2;
  check(c, 0);
  c = conv({1, 1, 28, 28}, 6, {5, 5});
  check(c, 1);
  c = conv({1, 3, 60, 64}, 96, {11, 11}, 4);
  check(c, 0);
  c = conv({1, 4, 24, 26}, 40, {6, 6}, 2);
  check(c, 1);
}

TEST_P(ConvStem, ModelOrderAndOtherTypesAtTheBorders) {
  ConvCase c = conv({2, 3, 19, 35}, 40, {3, 3}, 2);
  c.x_stored = DType::kFloat32;
  c.in = {};
  check(c, 0);
  c.out = {};
  c.y_stored = DType::kFloat32;
  check(c, 1);
  c.in = {Layout::kChannelsLast, 0};
  check(c, 0);
  c.in = {Layout::kChannelsLast, 5};
  c.out = {Layout::kChannelsLast, 3};
  c.after = 6;
  check(c, 1);
}

TEST_P(ConvStem, AnyWindow) {
  ConvCase c = conv({1, 3, 21, 39}, 17, {4, 5});
  c.strides = {3, 1}, c.dilations = {2, 3}, c.begin = {0, 7}, c.end = {5, 1};
  c.after = 4;
  check(c, 0);
  c = conv({1, 5, 17, 23}, 33, {1, 1});
  check(c, 2);
  c = conv({1, 21, 9, 18}, 24, {3, 3});
  check(c, 0);
  c = conv({3, 2, 11, 60}, 8, {2, 3}, 3);
  check(c, 0);
}

/// More tiles than blocks: they stay.
TEST_P(ConvStem, BlocksTakeTileAfterTile) {
  ConvCase c = conv({2, 3, 40, 70}, 40, {3, 3}, 1);
  Device small = device();
  small.units = 1;
  conv_twin(c).check(conv_stem(), small);
}

/// What lies beside a window and within its chunks is not multiplied.
TEST_P(ConvStem, NotANumberStaysWhereItIs) {
  for (const std::int64_t channels : {3, 1}) {
    Twin twin(GetParam().dtype);
    Tensor x = twin.values({1, channels, 24, 32});
    const std::int64_t plane = 24 * 32;
    x.as<float>()[(channels - 1) * plane + 10 * 32 + 13] = std::numeric_limits<float>::quiet_NaN();
    x.as<float>()[4 * 32 + 20] = std::numeric_limits<float>::infinity();
    const ValueId in = twin.input(x, GetParam().dtype, {Layout::kChannelsLast, 0});
    const ValueId w = twin.constant(twin.values({16, channels, 3, 3}));
    Conv conv;
    conv.window = {{3, 3}, {2, 2}, {1, channels == 3 ? 1 : 2}, {1, 1}, {1, 1}, AutoPad::kNotSet};
    twin.anchor(conv, {in, w});
    twin.then(Unary{UnaryFn::kRelu});
    twin.store_as(GetParam().dtype, {Layout::kChannelsLast, 0});
    twin.magnitude = 4 * 27;
    twin.check(conv_stem(), device(), 0);
  }
}

TEST_P(ConvStem, RandomConvolutions) {
  std::mt19937 random(17);
  int done = 0;
  for (int i = 0; done < 12; ++i) {
    ConvCase c = random_conv(random, GetParam().dtype);
    if (c.x.size() != 4) continue;
    constexpr std::int64_t kChannels[] = {1, 2, 3, 3, 4, 6, 9};
    c.x[1] = kChannels[random() % 7];
    c.x[2] += static_cast<std::int64_t>(random() % 9);
    c.x[3] += static_cast<std::int64_t>(random() % 40);
    c.outputs = 1 + static_cast<std::int64_t>(random() % 70);
    c.group = 1;
    const Twin twin = conv_twin(c);
    const Node& node = twin.graph.node(twin.group.members[0].anchor);
    if (!conv_stem().family.supports(twin.graph, node, device()).ok) continue;
    twin.check(conv_stem(), device(), static_cast<int>(random() % 16));
    if (HasFailure()) FAIL() << "convolution " << i;
    ++done;
  }
}

TEST_P(ConvStem, WhatItLeavesToOthers) {
  const auto reason = [](const ConvCase& c, const Device& device) {
    const Twin twin = conv_twin(c);
    return conv_stem()
        .family.supports(twin.graph, twin.graph.node(twin.group.members[0].anchor), device)
        .rule;
  };
  EXPECT_EQ(reason(conv({1, 3, 32, 32}, 8, {3, 3}), cuda_device(75)), "device");
  EXPECT_EQ(reason(conv({1, 16, 32, 32}, 8, {3, 3}), device()), "channels");
  EXPECT_EQ(reason(conv({1, 3, 32, 8}, 8, {3, 3}), device()), "image");
  EXPECT_EQ(reason(conv({1, 3, 99, 99}, 8, {41, 41}), device()), "window");
  EXPECT_EQ(reason(conv({1, 3, 999, 999}, 8, {3, 3}, 60), device()), "patch");
  EXPECT_EQ(reason(conv({1, 109, 32, 32}, 8, {3, 7}), device()), "window");
  ConvCase c = conv({1, 6, 32, 32}, 16, {3, 3});
  c.group = 2;
  EXPECT_EQ(reason(c, device()), "groups");
  c = conv({1, 3, 32, 32}, 16, {3, 3});
  c.weights = Source::kInput;
  EXPECT_EQ(reason(c, device()), "weights");
}

TEST_P(ConvStem, CompilesForItsDevice) {
  const int sm = GetParam().sm;
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(sm, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::vector<std::string> sources;
  const auto add = [&](const ConvCase& c) {
    std::set<std::string> distinct;
    for (const Kernel& kernel : conv_twin(c).kernels(conv_stem(), device()))
      distinct.insert(kernel.source);
    sources.insert(sources.end(), distinct.begin(), distinct.end());
  };
  add(conv({1, 3, 64, 64}, 64, {7, 7}, 2));
  ConvCase c = conv({1, 3, 64, 64}, 32, {3, 3}, 2);
  c.x_stored = DType::kFloat32;
  c.in = {};
  c.after = 2;
  add(c);
  NvrtcCompiler compiler(nvrtc, sm, device_headers());
  EXPECT_EQ(compiler.compile(sources).size(), sources.size());
}

INSTANTIATE_TEST_SUITE_P(Kinds, ConvStem,
                         ::testing::Values(Kind{"float16", DType::kFloat16, 90},
                                           Kind{"bfloat16", DType::kBFloat16, 80},
                                           Kind{"tf32", DType::kFloat32, 86}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace braze::cuda::testing
