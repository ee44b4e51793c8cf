// Convolution by TMA and wgmma, on the emulated sm_90, against the interpreter.
#include <algorithm>

#include "kernels_cuda/conv_cases.hpp"
#include "kernels_cuda/nvrtc_for.hpp"

namespace braze::cuda::testing {
namespace {

class ConvSm90 : public ::testing::Test {
 protected:
  void SetUp() override { BRAZE_NEEDS_EMULATOR(); }
  static Device device(DType dtype) {
    Device device = cuda_device(90);
    device.tf32 = dtype == DType::kFloat32;
    return device;
  }
  static ConvCase conv(const Shape& x, std::int64_t outputs, const Ints& kernel,
                       DType dtype = DType::kFloat16) {
    ConvCase c;
    c.compute = c.x_stored = c.y_stored = dtype;
    c.x = x;
    c.outputs = outputs;
    c.kernel = kernel;
    for (std::size_t i = 0; i < kernel.size(); ++i) c.begin[i] = c.end[i] = kernel[i] / 2;
    return c;
  }
  /// One of the candidates that read patches.
  static void check_patch(const ConvCase& c, unsigned which) {
    const Twin twin = conv_twin(c);
    const std::vector<Candidate> all =
        conv_sm90().family.candidates(twin.graph, twin.group, device(c.compute));
    std::vector<int> patches;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].get("rows", 0) > 0) patches.push_back(static_cast<int>(i));
    }
    ASSERT_FALSE(patches.empty()) << print(twin.graph);
    twin.check(conv_sm90(), device(c.compute), patches[which % patches.size()]);
  }
  static void check(const ConvCase& c, int only = -1) {
    conv_twin(c).check(conv_sm90(), device(c.compute), only);
  }
};

TEST_F(ConvSm90, EveryCandidate) {
  ConvCase c = conv({2, 64, 9, 8}, 136, {3, 3});
  c.after = 2;
  check(c);
}

TEST_F(ConvSm90, EveryCandidateOfPointwise) {
  ConvCase c = conv({1, 192, 12, 11}, 72, {1, 1});
  c.after = 1;
  check(c);
}

TEST_F(ConvSm90, EveryCandidateOfOneStepWithAResidual) {
  ConvCase c = conv({1, 64, 12, 11}, 136, {1, 1});
  c.after = 2;
  check(c);
  check(conv({1, 64, 7, 6}, 64, {3, 3}));
}

/// What is emitted, but for the numbers of the tile.
std::string form_of(const std::string& source) {
  std::string form = source.substr(source.rfind("conv_"));
  std::erase_if(form, [](unsigned char c) { return std::isdigit(c) != 0; });
  return form + (source.find("load_staged") != std::string::npos ? " staged" : "");
}

TEST(ConvSm90Sources, EveryFormCompiles) {
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(90, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::map<std::string, std::string> forms;
  for (const std::int64_t kernel : {1, 3}) {
    for (const int after : {1, 2}) {
      for (const std::int64_t images : {1, 64}) {
        ConvCase c;
        c.x = {images, 256, 14, 14}, c.outputs = 256;
        c.kernel = {kernel, kernel}, c.begin = c.end = {kernel / 2, kernel / 2};
        c.after = after;
        for (const Kernel& one : conv_twin(c).kernels(conv_sm90(), cuda_device(90)))
          forms.emplace(form_of(one.source), one.source);
      }
    }
  }
  EXPECT_GE(forms.size(), 8U);  // im2col and patches, whole and not, with and without a residual
  std::vector<std::string> sources;
  for (const auto& [form, source] : forms) sources.push_back(source);
  NvrtcCompiler compiler(nvrtc, 90, device_headers());
  EXPECT_EQ(compiler.compile(sources).size(), sources.size());
}

TEST_F(ConvSm90, NarrowChannels) {
  check(conv({1, 16, 7, 9}, 24, {3, 3}), 0);
  check(conv({1, 32, 7, 9}, 40, {3, 3}), 1);
  check(conv({1, 72, 7, 9}, 40, {3, 3}), 2);
}

TEST_F(ConvSm90, StridesDilationsUnevenPadding) {
  ConvCase c = conv({2, 40, 13, 11}, 48, {3, 2});
  c.strides = {2, 3};
  c.after = 4;
  check(c, 1);
  c.strides = {1, 2}, c.dilations = {2, 1}, c.begin = {2, 0}, c.end = {0, 3};
  check(c, 2);
  c = conv({3, 64, 9, 9}, 64, {1, 1});
  c.strides = {2, 2};
  check(c, 3);
}

TEST_F(ConvSm90, PatchesOfAnyWindow) {
  std::mt19937 random(11);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (unsigned i = 0; i < 24; ++i) {
    const bool bfloat16 = i % 5 == 4;
    ConvCase c = conv({pick(1, 3), 8 * pick(1, 20), 7, 7}, 8 * pick(1, 17),
                      {pick(1, 5), pick(2, 4)}, bfloat16 ? DType::kBFloat16 : DType::kFloat16);
    const std::int64_t stride = pick(1, 3);
    c.strides = {stride, stride};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      c.dilations[axis] = pick(1, 3);
      c.begin[axis] = pick(0, 3), c.end[axis] = pick(0, 3);
      const std::int64_t covered = (c.kernel[axis] - 1) * c.dilations[axis] + 1;
      c.x[axis + 2] = std::max(pick(3, 17), covered);
    }
    c.after = static_cast<int>(pick(0, kAfters - 1));
    if (c.after == 6) c.after = 2;  // an operand of 4 bytes is not staged
    c.seed = i + 1;
    SCOPED_TRACE(i);
    check_patch(c, static_cast<unsigned>(random() % 1000));
  }
}

TEST_F(ConvSm90, PatchesNeedATapMoreAnd16Bits) {
  const auto patches = [](const ConvCase& c) {
    const Twin twin = conv_twin(c);
    const std::vector<Candidate> all =
        conv_sm90().family.candidates(twin.graph, twin.group, device(c.compute));
    return std::count_if(all.begin(), all.end(),
                         [](const Candidate& one) { return one.get("rows", 0) > 0; });
  };
  EXPECT_GT(patches(conv({1, 64, 9, 9}, 64, {3, 3})), 0);
  EXPECT_GT(patches(conv({1, 64, 9, 9}, 64, {1, 2})), 0);
  EXPECT_EQ(patches(conv({1, 64, 9, 9}, 64, {1, 1})), 0);
  EXPECT_EQ(patches(conv({1, 64, 9, 9}, 64, {3, 3}, DType::kFloat32)), 0);
  ConvCase c = conv({1, 64, 12, 9}, 64, {3, 3});
  c.strides = {1, 2};
  EXPECT_EQ(patches(c), 0);
}

TEST_F(ConvSm90, EveryCandidateOfLargePatches) {
  ConvCase c = conv({1, 128, 27, 56}, 8, {3, 3});  // of one stage, too
  c.strides = {2, 2};
  for (unsigned i = 0; i < 12; ++i) check_patch(c, i);
}

TEST_F(ConvSm90, PatchesInTurn) {
  // More tiles than multiprocessors: blocks walk over several.
  Device few = device(DType::kFloat16);
  few.units = 3;
  for (const int after : {1, 2}) {
    ConvCase c = conv({2, 72, 13, 9}, 136, {3, 3});
    c.after = after;
    const Twin twin = conv_twin(c);
    const std::vector<Candidate> all = conv_sm90().family.candidates(twin.graph, twin.group, few);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].get("warpgroups", 1) == 2) twin.check(conv_sm90(), few, static_cast<int>(i));
    }
  }
}

TEST_F(ConvSm90, PatchesAcrossWideImagesAndOddOutputs) {
  ConvCase c = conv({1, 64, 3, 150}, 70, {3, 3});
  c.after = 2;
  check_patch(c, 0);
  check_patch(c, 6);
  c = conv({3, 72, 5, 6}, 21, {3, 3});
  c.out = {};
  c.y_stored = DType::kFloat32;
  check_patch(c, 1);
}

TEST_F(ConvSm90, OneAxis) {
  ConvCase c = conv({2, 64, 33}, 48, {5});
  c.strides = c.dilations = {1};
  c.begin = c.end = {2};
  check(c, 1);
}

TEST_F(ConvSm90, OddOutputsModelOrderOtherTypes) {
  ConvCase c = conv({1, 64, 9, 10}, 21, {1, 1});
  c.out = {};
  c.y_stored = DType::kFloat32;
  check(c, 0);
  c = conv({1, 64, 9, 10}, 44, {3, 3});
  c.after = 6;
  c.out = {Layout::kChannelsLast, 4};
  c.in = {Layout::kChannelsLast, 8};
  check(c, 1);
}

TEST_F(ConvSm90, OtherTypes) {
  ConvCase c = conv({2, 32, 8, 9}, 64, {3, 3}, DType::kFloat32);
  c.after = 2;
  check(c, 1);
  check(c, 4);
  c = conv({2, 64, 8, 9}, 64, {3, 3}, DType::kBFloat16);
  c.after = 2;
  check(c, 1);
  check(c, 5);
}

TEST_F(ConvSm90, UnreadableInputsGoToAnotherFamily) {
  ConvCase c = conv({1, 64, 6, 5}, 40, {3, 3});
  c.in = {};
  check(c, 0);
  c.in = {Layout::kChannelsLast, 3};
  check(c, 0);
  c.in = {Layout::kChannelsLast, 0};
  c.x_stored = DType::kFloat32;
  check(c, 0);
}

TEST_F(ConvSm90, MatrixProducts) {
  for (const bool transposed : {false, true}) {
    Twin twin(DType::kFloat16, 3);
    const ValueId a = twin.input(twin.values({70, 96}));
    const ValueId b = twin.constant(twin.values(transposed ? Shape{40, 96} : Shape{96, 40}));
    const ValueId c = twin.constant(twin.values({40}));
    Gemm gemm;
    gemm.trans_b = transposed;
    twin.magnitude = 400;
    twin.anchor(gemm, {a, b, c});
    twin.then(Unary{UnaryFn::kRelu});
    twin.check(conv_sm90(), device(DType::kFloat16), 1);
  }
  Twin twin(DType::kFloat16, 4);
  const ValueId a = twin.input(twin.values({1, 256}));
  const ValueId b = twin.constant(twin.values({256, 104}));
  twin.magnitude = 1000;
  twin.anchor(MatMul{}, {a, b});
  twin.check(conv_sm90(), device(DType::kFloat16));
}

TEST_F(ConvSm90, WhatItLeavesToOthers) {
  const auto reason = [](const ConvCase& c, const Device& device) {
    const Twin twin = conv_twin(c);
    return conv_sm90()
        .family.supports(twin.graph, twin.graph.node(twin.group.members[0].anchor), device)
        .rule;
  };
  const Device here = device(DType::kFloat16);
  EXPECT_EQ(reason(conv({1, 64, 6, 5}, 8, {3, 3}), cuda_device(80)), "device");
  EXPECT_EQ(reason(conv({1, 3, 6, 5}, 8, {3, 3}), here), "channels");
  EXPECT_EQ(reason(conv({1, 8, 6, 5}, 8, {3, 3}, DType::kFloat32), here), "dtype");
  ConvCase c = conv({1, 64, 6, 5}, 8, {3, 3});
  c.weights = Source::kInput;
  EXPECT_EQ(reason(c, here), "weights");
  c = conv({1, 64, 6, 5}, 8, {3, 3});
  c.group = 2;
  EXPECT_EQ(reason(c, here), "groups");
  c.group = 1;
  c.strides = {9, 1};
  EXPECT_EQ(reason(c, here), "stride");
}

}  // namespace
}  // namespace braze::cuda::testing
