// Convolution as a product, on each kind of multiplier, against the interpreter.
#include "kernels_cuda/conv_cases.hpp"
#include "kernels_cuda/nvrtc_for.hpp"

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

/// Tiles that end within a row, and tiles of several images.
TEST_P(ConvProduct, ImagesOfFewChannels) {
  ConvCase c = one();
  c.x = {3, 3, 15, 18};
  c.outputs = 40;
  c.strides = {2, 2};
  c.in = {};
  c.after = 1;
  check(c);
  c.x = {2, 4, 9, 70};
  c.kernel = {5, 4}, c.begin = {1, 2}, c.end = {0, 3};
  c.strides = {1, 2};
  c.outputs = 72;
  c.in = {Layout::kChannelsLast, 4};
  c.out = {};
  check(c, 0);
}

TEST_P(ConvProduct, InfinityStaysInItsWindows) {
  Twin twin(GetParam().dtype);
  Tensor x = twin.values({1, 3, 12, 12});
  for (const int i : {40, 150, 300}) x.as<float>()[i] = std::numeric_limits<float>::infinity();
  const ValueId in = twin.input(x, DType::kFloat32, {});
  const ValueId w = twin.constant(twin.values({16, 3, 3, 3}));
  Conv conv;
  conv.window = {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, AutoPad::kNotSet};
  twin.anchor(conv, {in, w});
  twin.store_as(GetParam().dtype, {Layout::kChannelsLast, 0});
  twin.magnitude = 4 * 27;
  twin.check(GetParam().row(), device(), 0);
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

/// Two launches on the same memory: the second finds the counters of the splits at zero.
TEST_P(ConvProduct, SplitsCanBeLaunchedAgain) {
  ConvCase c = one();
  c.x = {1, 128, 4, 4};
  c.outputs = 32;
  const Twin twin = conv_twin(c);
  std::vector<Kernel> kernels = twin.kernels(GetParam().row(), device());
  const auto split = std::find_if(kernels.begin(), kernels.end(),
                                  [](const Kernel& kernel) { return kernel.workspace_bytes != 0; });
  ASSERT_NE(split, kernels.end());
  test::EmulatedGpu gpu(GetParam().sm);
  test::EmulatedCompiler compiler(GetParam().sm);
  const auto module =
      gpu.load(compiler.compile(std::span(&split->source, 1)).front(), split->entry);
  std::vector<Memory> memory;
  const auto place = [&](const std::byte* data, std::size_t bytes) {
    memory.push_back(gpu.allocate(bytes, "test"));
    if (data != nullptr) gpu.copy_in(memory.back().get(), data, bytes);
    return memory.back().get();
  };
  const std::size_t bytes = 32 * 16 * size_of(GetParam().dtype);
  std::byte* const output = place(nullptr, bytes);
  std::byte* const workspace = place(nullptr, split->workspace_bytes);
  std::byte* const input =
      place(twin.inputs[0].as<std::byte>(),
            static_cast<std::size_t>(twin.inputs[0].count()) * size_of(GetParam().dtype));
  std::vector<std::byte*> constants;
  for (const auto& constant : split->constants)
    constants.push_back(place(constant.data(), constant.size()));
  Launch launch{&*split, module, split->parameters};
  for (const Pointer& pointer : split->pointers) {
    std::byte* to = nullptr;
    if (pointer.address.of == Address::Of::kInput) to = input;
    if (pointer.address.of == Address::Of::kOutput) to = output;
    if (pointer.address.of == Address::Of::kWorkspace) to = workspace;
    if (pointer.address.of == Address::Of::kConstant)
      to = constants[static_cast<std::size_t>(pointer.address.index)];
    std::memcpy(launch.parameters.data() + pointer.at, &to, sizeof to);
  }
  std::vector<std::vector<std::byte>> results;
  for (int run = 0; run < 2; ++run) {
    const std::vector<std::byte> nothing(bytes);
    gpu.copy_in(output, nothing.data(), bytes);
    std::vector<Step> steps(1);
    steps[0].launch = launch;
    const auto recording = gpu.record(std::move(steps));
    recording->run();
    results.emplace_back(bytes);
    gpu.copy_out(results.back().data(), output, bytes);
    gpu.wait();
    EXPECT_NE(results.back(), nothing);
  }
  EXPECT_EQ(results[0], results[1]);
}

/// Every tile, and every way in which a gather loads.
TEST_P(ConvProduct, CompilesForItsDevice) {
  const int sm = GetParam().sm;
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(sm, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::vector<std::string> sources;
  const auto add = [&](const ConvCase& c, std::size_t most) {
    std::set<std::string> distinct;
    for (const Kernel& kernel : conv_twin(c).kernels(GetParam().row(), device()))
      distinct.insert(kernel.source);
    for (const std::string& source : distinct) {
      if (most-- == 0) break;
      sources.push_back(source);
    }
  };
  ConvCase c = one();
  c.x = {1, 128, 16, 16};
  c.outputs = 128;
  c.after = 2;
  add(c, 8);
  c.x_stored = DType::kFloat32;
  add(c, 1);
  c.in = c.out = {};
  add(c, 1);
  c.kernel = {1, 1}, c.begin = c.end = {0, 0};
  add(c, 1);
  c.x = {1, 3, 32, 32};
  c.kernel = {7, 7}, c.strides = {2, 2}, c.begin = c.end = {3, 3};
  add(c, 2);
  NvrtcCompiler compiler(nvrtc, sm, device_headers());
  EXPECT_EQ(compiler.compile(sources).size(), sources.size());
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ConvProduct,
    ::testing::Values(Kind{"sm80_float16", conv_sm80, DType::kFloat16, 80, false},
                      Kind{"sm80_bfloat16", conv_sm80, DType::kBFloat16, 86, false},
                      Kind{"sm80_tf32", conv_sm80, DType::kFloat32, 90, true},
                      Kind{"portable_float16", conv_portable, DType::kFloat16, 75, false},
                      Kind{"portable_bfloat16", conv_portable, DType::kBFloat16, 80, false},
                      Kind{"simt_float", conv_simt, DType::kFloat32, 90, false},
                      Kind{"simt_float_sm70", conv_simt, DType::kFloat32, 70, false},
                      Kind{"simt_bfloat16", conv_simt, DType::kBFloat16, 75, false}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace braze::cuda::testing
