// Sums of two convolutions as one kernel on the emulated sm_90, against the interpreter; which are
// joined, and which are not.
#include "kernels_cuda/chain_check.hpp"
#include "kernels_cuda/nvrtc_for.hpp"

namespace braze::cuda::testing {
namespace {

Window window(std::int64_t kernel, std::int64_t stride = 1, std::int64_t dilation = 1) {
  const std::int64_t pad = kernel / 2 * dilation;
  return {{kernel, kernel}, {stride, stride}, {dilation, dilation},
          {pad, pad},       {pad, pad},       AutoPad::kNotSet};
}

struct SumCase {
  Shape main{1, 64, 7, 6}, shortcut{1, 128, 14, 12};
  std::int64_t outputs = 72;
  Window main_window = window(1), shortcut_window = window(1, 2);
  bool main_bias = true, shortcut_bias = true;
  Shape z{};
};

/// main(a) + shortcut(b), and perhaps another image z of shape `z`; relu.
ExactNet sum_net(const SumCase& c) {
  ExactNet net(5);
  const ValueId a = net.image("a", c.main), b = net.image("b", c.shortcut);
  const ValueId z = c.z.empty() ? kNoValue : net.image("z", c.z);
  const ValueId main = net.conv("main", a, c.outputs, c.main_window, 1, c.main_bias);
  const ValueId shortcut =
      net.conv("shortcut", b, c.outputs, c.shortcut_window, 1, c.shortcut_bias);
  ValueId y = net.add("sum", main, shortcut);
  if (z != kNoValue) y = net.add("again", y, z);
  net.output(net.unary("relu", UnaryFn::kRelu, y));
  return net;
}

void check(const SumCase& c, std::size_t most = 4, DType dtype = DType::kFloat16) {
  ExactNet net = sum_net(c);
  const ChainCase of{.dtype = dtype, .sm = 90, .most = most, .tf32 = dtype == DType::kFloat32};
  check_group(net, "main", "relu", of, conv_sum_sm90());
}

class ConvSumSm90 : public ::testing::Test {
 protected:
  void SetUp() override { BRAZE_NEEDS_EMULATOR(); }
};

TEST_F(ConvSumSm90, EveryCandidate) { check({}, 100); }

TEST_F(ConvSumSm90, EveryCandidateOfALongSum) {
  check({.main = {2, 128, 5, 7}, .shortcut = {2, 64, 9, 14}, .main_window = window(3)}, 100);
}

TEST_F(ConvSumSm90, ManyTiles) {
  check({.main = {3, 64, 31, 29},
         .shortcut = {3, 64, 31, 29},
         .outputs = 200,
         .shortcut_window = window(1)});
  check({.main = {3, 64, 61, 59},
         .shortcut = {3, 128, 61, 59},
         .outputs = 40,
         .main_window = window(3, 2, 2),
         .shortcut_window = window(3, 2)});
}

TEST_F(ConvSumSm90, BiasesAndResiduals) {
  check({.main_bias = false});
  check({.shortcut_bias = false});
  check({.main_bias = false, .shortcut_bias = false, .z = {1, 72, 7, 6}});
  check({.outputs = 136, .z = {1, 136, 7, 6}}, 100);
}

TEST_F(ConvSumSm90, OtherTypes) {
  check({}, 4, DType::kBFloat16);
  check({.main = {1, 32, 7, 6}}, 4, DType::kFloat32);
}

TEST(ConvSumSources, Compile) {
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(90, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::vector<std::string> sources;
  for (const SumCase& c : {SumCase{}, SumCase{.main_window = window(3)},
                           SumCase{.main = {8, 64, 56, 56},
                                   .shortcut = {8, 64, 56, 56},
                                   .outputs = 256,
                                   .shortcut_window = window(1)}}) {
    Plan plan = plan_of_parts(sum_net(c).graph, DType::kFloat16, 90);
    plan.kernels[0].group = chain_group(plan, "main", "relu");
    const Row row = conv_sum_sm90();
    const std::vector<Candidate> all =
        row.family.candidates(plan.graph, plan.kernels[0].group, plan.device);
    for (const std::size_t i : {std::size_t{0}, all.size() / 2, all.size() - 1}) {
      plan.kernels[0].candidate = all[i];
      sources.push_back(row.build(plan, plan.kernels[0]).source);
    }
  }
  NvrtcCompiler compiler(nvrtc, 90, device_headers());
  EXPECT_EQ(compiler.compile(sources).size(), sources.size());
}

/// Kernels of the network's plan that are sums of convolutions.
std::size_t sums(const ExactNet& net, int sm = 90) {
  Graph graph = net.graph;
  lower_precision(graph, DType::kFloat16, true);
  const Plan plan =
      make_plan(std::move(graph), cuda_device(sm), {FusionLevel::kFull, false}, cuda::registry());
  return static_cast<std::size_t>(
      std::ranges::count(plan.kernels, "conv_sum_sm90", &KernelPlan::family));
}

TEST(ConvSumPlan, BlocksWithAConvolutionForAShortcutAreJoined) {
  EXPECT_EQ(
      sums(sum_net({.main = {1, 256, 14, 14}, .shortcut = {1, 512, 28, 28}, .outputs = 1024})), 1U);
  EXPECT_EQ(
      sums(sum_net({.main = {1, 256, 14, 14}, .shortcut = {1, 512, 28, 28}, .outputs = 1024}), 80),
      0U);
  // Steps of one are shorter than those of the other.
  EXPECT_EQ(sums(sum_net({.main = {1, 24, 14, 14}, .shortcut = {1, 512, 28, 28}})), 0U);
}

TEST(ConvSumPlan, ResultsThatOthersReadAreNot) {
  ExactNet net(5);
  const ValueId a = net.image("a", {1, 256, 14, 14});
  const ValueId main = net.conv("main", a, 512, window(1));
  const ValueId shortcut = net.conv("shortcut", a, 512, window(1));
  net.output(net.unary("relu", UnaryFn::kRelu, net.add("sum", main, shortcut)));
  net.output(net.unary("tanh", UnaryFn::kTanh, main));
  net.output(net.unary("sigmoid", UnaryFn::kSigmoid, shortcut));
  EXPECT_EQ(sums(net), 0U);
}

TEST(ConvSumPlan, DifferencesAndRepeatedOperandsAreNot) {
  for (const bool subtract : {true, false}) {
    ExactNet net(5);
    const ValueId main = net.conv("main", net.image("a", {1, 256, 14, 14}), 512, window(1));
    const ValueId pixel = net.image("b", {1, 256, subtract ? 14 : 1, subtract ? 14 : 1});
    const ValueId shortcut = net.conv("shortcut", pixel, 512, window(1));
    net.output(net.binary("sum", subtract ? BinaryFn::kSub : BinaryFn::kAdd, main, shortcut));
    EXPECT_EQ(sums(net), 0U);
  }
}

}  // namespace
}  // namespace braze::cuda::testing
