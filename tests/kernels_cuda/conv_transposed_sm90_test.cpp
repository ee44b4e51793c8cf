// Transposed convolution by TMA and wgmma, on the emulated sm_90, against the interpreter.
#include <algorithm>
#include <functional>
#include <limits>

#include "graph/window.hpp"
#include "kernels_cuda/nvrtc_for.hpp"
#include "kernels_cuda/twin.hpp"

namespace braze::cuda::testing {
namespace {

/// On one or two spatial axes.
struct Case {
  Shape x;
  std::int64_t outputs = 8, group = 1;
  Ints kernel, strides, begin, end, padding, dilations;
  DType compute = DType::kFloat16, y_stored = compute;
  LayoutChoice in{Layout::kChannelsLast, 0}, out{Layout::kChannelsLast, 0};
  bool bias_is_an_input = false, residual = false;
  unsigned seed = 1;
};

/// Kernel and stride alike on all axes, without padding.
Case up(const Shape& x, std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
        std::int64_t pad = 0, std::int64_t output_padding = 0) {
  const std::size_t axes = x.size() - 2;
  Case c;
  c.x = x, c.outputs = outputs;
  c.kernel = Ints(axes, kernel), c.strides = Ints(axes, stride);
  c.begin = c.end = Ints(axes, pad);
  c.padding = Ints(axes, output_padding);
  c.dilations = Ints(axes, 1);
  return c;
}

Case with(Case c, const std::function<void(Case&)>& change) {
  change(c);
  return c;
}

Twin twin_of(const Case& c) {
  Twin twin(c.compute, c.seed);
  const ValueId x = twin.input(twin.values(c.x), c.compute, c.in);
  Shape w{c.x[1], c.outputs / c.group};
  w.insert(w.end(), c.kernel.begin(), c.kernel.end());
  const ValueId weights = twin.constant(twin.values(w));
  const Tensor bias = twin.values({c.outputs});
  ConvTranspose op;
  op.group = c.group;
  op.window = {c.kernel, c.strides, c.dilations, c.begin, c.end, AutoPad::kNotSet};
  op.output_padding = c.padding;
  twin.anchor(op, {x, weights, c.bias_is_an_input ? twin.input(bias) : twin.constant(bias)});
  twin.magnitude = 4.0 * static_cast<double>(element_count(w) / w[1]);
  if (c.residual)
    twin.then(BinaryFn::kAdd, twin.input(twin.values(twin.shape()), c.compute, c.out));
  twin.then(Unary{UnaryFn::kRelu});
  twin.store_as(c.y_stored, c.out);
  return twin;
}

Device device_for(DType dtype) {
  Device device = cuda_device(90);
  device.tf32 = dtype == DType::kFloat32;
  return device;
}

class ConvTransposedSm90 : public ::testing::Test {
 protected:
  void SetUp() override { BRAZE_NEEDS_EMULATOR(); }
  static void check(const Case& c, int only = -1) {
    twin_of(c).check(conv_sm90(), device_for(c.compute), only);
  }
};

TEST_F(ConvTransposedSm90, EveryCandidate) { check(up({1, 192, 7, 9}, 72, 2, 2)); }

TEST_F(ConvTransposedSm90, EveryCandidateOfTwoTaps) {
  check(with(up({2, 64, 5, 6}, 40, 4, 2, 1), [](Case& c) { c.residual = true; }));
}

TEST_F(ConvTransposedSm90, EveryCandidateOfUnequalPhases) {
  check(with(up({2, 64, 5, 6}, 72, 3, 2, 1, 1), [](Case& c) { c.residual = true; }));
  check(up({1, 256, 4, 5}, 40, 5, 2, 2, 1));
}

TEST_F(ConvTransposedSm90, WindowsAndPadding) {
  for (const auto& [c, only] : std::vector<std::pair<Case, int>>{
           {up({2, 64, 5, 7}, 64, 3, 3), 0},
           {up({1, 40, 9, 5}, 24, 2, 2, 1), 1},     // crops
           {up({1, 64, 5, 6}, 16, 2, 2, 0, 1), 2},  // adds
           {up({1, 64, 5, 6}, 16, 8, 4, 2), 3},     // 16 phases
           {up({1, 64, 5, 6}, 16, 6, 2, 3), 4},     // three taps
           {up({3, 64, 6, 7}, 16, 3, 1, 1), 5},     // one phase
           {with(up({1, 64, 9, 8}, 16, 3, 1, 2), [](Case& c) { c.dilations = {2, 3}; }), 6},
           {with(up({1, 64, 5, 6}, 16, 4, 2),
                 [](Case& c) {
                   c.kernel = {4, 3}, c.strides = {2, 3}, c.begin = {3, 0}, c.end = {0, 4};
                   c.padding = {1, 2};
                 }),
            7},
           {up({1, 64, 5, 6}, 16, 4, 3, 1, 2), 3},
           {up({1, 64, 6, 5}, 48, 9, 4, 3), 4},
           {up({2, 64, 19}, 40, 3, 2, 1, 1), 5},
           {up({2, 64, 33}, 48, 2, 2), 1},
           {up({2, 64, 21}, 24, 4, 2, 1), 2}}) {
    SCOPED_TRACE(only);
    check(c, only);
  }
}

TEST_F(ConvTransposedSm90, OutputsThatFillNoVectorOrTile) {
  const auto in_model_order = [](Case& c) { c.out = {}; };
  check(with(up({1, 64, 5, 6}, 1, 2, 2), in_model_order), 0);
  check(with(up({1, 64, 5, 6}, 21, 2, 2), in_model_order), 1);
  check(with(up({1, 72, 5, 6}, 44, 4, 2, 1), [](Case& c) { c.out.extra_pitch = 4; }), 2);
  check(with(up({2, 64, 5, 6}, 21, 2, 2), [](Case& c) { c.y_stored = DType::kFloat32; }), 3);
}

TEST_F(ConvTransposedSm90, ViewsOfAConcatAndOtherOperands) {
  check(with(up({1, 128, 6, 5}, 64, 2, 2), [](Case& c) {
    c.in.extra_pitch = 8, c.out.extra_pitch = 64;
    c.residual = c.bias_is_an_input = true;
  }));
}

TEST_F(ConvTransposedSm90, OtherTypes) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto of_type = [&](Case& c) { c.compute = c.y_stored = dtype, c.residual = true; };
    check(with(up({1, 64, 7, 9}, 40, 2, 2), of_type), 1);
    check(with(up({2, 64, 5, 6}, 40, 4, 2, 1), of_type), 4);
  }
}

TEST_F(ConvTransposedSm90, RandomWindows) {
  std::mt19937 random(5);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (unsigned i = 0; i < 40; ++i) {
    Case c = up({pick(1, 3), 8 * pick(1, 30), pick(2, 12), pick(2, 12)}, 8 * pick(1, 17), 1, 1);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      c.strides[axis] = pick(1, 3);
      c.kernel[axis] = c.strides[axis] * pick(1, 2) + pick(0, c.strides[axis] - 1);
      if (c.strides[axis] == 1) c.dilations[axis] = pick(1, 2);
      // An output at least is left.
      const std::int64_t all =
          c.strides[axis] * (c.x[axis + 2] - 1) + window_extent(c.kernel[axis], c.dilations[axis]);
      c.begin[axis] = pick(0, std::min<std::int64_t>(3, (all - 1) / 2));
      c.end[axis] = pick(0, std::min<std::int64_t>(3, (all - 1) / 2));
      c.padding[axis] = pick(0, c.strides[axis] - 1);
    }
    c.out.extra_pitch = 8 * pick(0, 1);
    c.residual = pick(0, 1) == 1;
    c.seed = i + 1;
    SCOPED_TRACE(i);
    check(c, static_cast<int>(random() % 1000));
    if (HasFailure()) return;
  }
}

/// No phase multiplies what is not under its taps, not even by zero.
TEST_F(ConvTransposedSm90, AnInfinityIsSeenByItsTapsOnly) {
  for (const std::int64_t kernel : {2, 3, 4}) {
    const Case c = up({1, 64, 5, 6}, 16, kernel, 2, kernel / 2 - 1);
    Twin twin = twin_of(c);
    std::vector<float> x = load<float>(twin.reference_inputs[0]);
    x[2 * 6 + 3] = std::numeric_limits<float>::infinity();
    twin.reference_inputs[0] = make_tensor(DType::kFloat32, c.x, x);
    twin.inputs[0] = cast(twin.reference_inputs[0], c.compute);
    twin.check(conv_sm90(), device_for(c.compute));
  }
}

TEST_F(ConvTransposedSm90, BlocksWalkOverTiles) {
  Device few = device_for(DType::kFloat16);
  few.units = 3;
  twin_of(up({2, 72, 13, 9}, 136, 2, 2)).check(conv_sm90(), few);
  twin_of(up({2, 72, 13, 9}, 40, 3, 2)).check(conv_sm90(), few);
}

TEST_F(ConvTransposedSm90, UnreadableInputsGoToAnotherFamily) {
  check(with(up({1, 64, 6, 5}, 40, 2, 2), [](Case& c) { c.in = {}; }), 0);
  check(with(up({1, 64, 6, 5}, 40, 2, 2), [](Case& c) { c.in.extra_pitch = 3; }), 0);
}

TEST_F(ConvTransposedSm90, WhatItLeavesToOthers) {
  const auto reason = [](const Case& c, const Device& device) {
    const Twin twin = twin_of(c);
    return conv_sm90()
        .family.supports(twin.graph, twin.graph.node(twin.group.members[0].anchor), device)
        .rule;
  };
  const Device here = device_for(DType::kFloat16);
  const Case taken = up({1, 64, 6, 5}, 8, 2, 2);
  EXPECT_EQ(reason(taken, here), "");
  EXPECT_EQ(reason(taken, cuda_device(80)), "device");
  EXPECT_EQ(reason(up({1, 3, 6, 5}, 8, 2, 2), here), "channels");
  EXPECT_EQ(reason(up({1, 64, 6, 5}, 8, 2, 3), here), "phases");
  EXPECT_EQ(reason(up({1, 64, 6, 5, 4}, 8, 2, 2), here), "rank");
  EXPECT_EQ(reason(with(taken, [](Case& c) { c.group = 2; }), here), "groups");
  EXPECT_EQ(reason(with(taken, [](Case& c) { c.dilations = {2, 1}; }), here), "dilation");
  EXPECT_EQ(reason(with(taken, [](Case& c) { c.compute = DType::kFloat32; }), here), "dtype");
}

TEST(ConvTransposedSm90Sources, Compile) {
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(90, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::map<std::string, std::string> sources;
  for (const Case& c : {up({1, 1024, 16, 16}, 512, 2, 2), up({1, 128, 128, 128}, 64, 2, 2),
                        up({1, 64, 20, 20}, 64, 4, 2, 1), up({1, 64, 40, 40}, 64, 3, 2, 1, 1)}) {
    const std::vector<Kernel> all = twin_of(c).kernels(conv_sm90(), cuda_device(90));
    for (std::size_t i = 0; i < all.size(); i += 4) sources.emplace(all[i].entry, all[i].source);
  }
  std::vector<std::string> list;
  for (const auto& [entry, source] : sources) list.push_back(source);
  NvrtcCompiler compiler(nvrtc, 90, device_headers());
  EXPECT_EQ(compiler.compile(list).size(), list.size());
}

}  // namespace
}  // namespace braze::cuda::testing
