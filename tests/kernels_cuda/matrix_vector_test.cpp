// Products of a few rows on the emulated GPU, against the interpreter.
#include "kernels_cuda/conv_cases.hpp"
#include "kernels_cuda/nvrtc_for.hpp"

namespace braze::cuda::testing {
namespace {

struct Kind {
  const char* name;
  DType dtype;
  int sm;
  bool tf32;
};

class MatrixVector : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { BRAZE_NEEDS_EMULATOR(); }
  static Device device() {
    Device device = cuda_device(GetParam().sm);
    device.tf32 = GetParam().tf32;
    return device;
  }
  static bool on_tensor_cores() {
    return GetParam().sm >= 80 && (GetParam().tf32 || GetParam().dtype != DType::kFloat32);
  }
  /// A 1x1 convolution of images of one pixel.
  static ConvCase conv(std::int64_t batch, std::int64_t channels, std::int64_t outputs) {
    ConvCase c;
    c.compute = c.x_stored = c.y_stored = GetParam().dtype;
    c.x = {batch, channels, 1, 1};
    c.outputs = outputs;
    c.kernel = {1, 1};
    c.begin = c.end = {0, 0};
    return c;
  }
  static void check(const ConvCase& c, int only = -1) {
    conv_twin(c).check(matrix_vector(), device(), only);
  }
  static Twin gemm(const Gemm& op, std::int64_t rows, std::int64_t depth, std::int64_t outputs,
                   const Shape& addend) {
    Twin twin(GetParam().dtype, 5);
    const ValueId a = twin.input(twin.values({rows, depth}));
    const ValueId b =
        twin.constant(twin.values(op.trans_b ? Shape{outputs, depth} : Shape{depth, outputs}));
    std::vector<ValueId> inputs{a, b};
    if (!addend.empty()) inputs.push_back(twin.constant(twin.values(addend)));
    twin.magnitude = 4.0 * static_cast<double>(depth);
    twin.anchor(op, inputs);
    return twin;
  }
};

TEST_P(MatrixVector, EveryCandidate) {
  ConvCase c = conv(2, 550, 75);
  c.after = 1;
  check(c);
}

TEST_P(MatrixVector, Rows) {
  for (const std::int64_t rows : {1, 2, 3, 5, 8, 13, 32}) {
    if (rows > 8 && !on_tensor_cores()) continue;
    ConvCase c = conv(rows, 96, 40);
    c.after = 8;
    check(c, static_cast<int>(rows));
  }
}

TEST_P(MatrixVector, DepthsThatAreNoWholeVectors) {
  for (const std::int64_t channels : {1, 3, 21, 67, 100}) check(conv(3, channels, 18), 1);
  ConvCase c = conv(3, 64, 18);
  c.in = {Layout::kChannelsLast, 3};
  c.out = {Layout::kChannelsLast, 5};
  c.after = 6;
  check(c, 2);
}

TEST_P(MatrixVector, OtherTypesAtTheBorders) {
  ConvCase c = conv(4, 128, 24);
  c.x_stored = c.y_stored = DType::kFloat32;
  c.after = 4;
  check(c, 0);
  c.x[1] = 130;
  c.bias = Source::kInput;
  check(c, 3);
}

TEST_P(MatrixVector, FullyConnectedLayers) {
  Gemm op;
  op.trans_b = true;
  gemm(op, 1, 300, 50, {50}).check(matrix_vector(), device(), 0);
  op.trans_b = false;
  op.alpha = 0.5, op.beta = 2;
  Twin twin = gemm(op, 6, 192, 33, {6, 33});
  twin.then(Unary{UnaryFn::kRelu});
  twin.check(matrix_vector(), device(), 5);
  Twin product(GetParam().dtype, 4);
  const ValueId a = product.input(product.values({1, 256}));
  const ValueId b = product.constant(product.values({256, 104}));
  product.magnitude = 1000;
  product.anchor(MatMul{}, {a, b});
  product.then(BinaryFn::kAdd, product.constant(product.values({104})));
  product.check(matrix_vector(), device(), 7);
}

TEST_P(MatrixVector, NotANumberStaysInItsRow) {
  Twin twin(GetParam().dtype);
  Tensor x = twin.values({4, 70, 1, 1});
  x.as<float>()[70 + 69] = std::numeric_limits<float>::quiet_NaN();
  const ValueId in = twin.input(x, GetParam().dtype, {Layout::kChannelsLast, 0});
  const ValueId w = twin.constant(twin.values({16, 70, 1, 1}));
  Conv op;
  op.window = {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, AutoPad::kNotSet};
  twin.anchor(op, {in, w});
  twin.then(Unary{UnaryFn::kRelu});
  twin.store_as(GetParam().dtype, {});
  twin.magnitude = 4 * 70;
  twin.check(matrix_vector(), device(), 0);
}

TEST_P(MatrixVector, WhatItLeavesToOthers) {
  const auto rule = [](const Twin& twin) {
    return matrix_vector()
        .family.supports(twin.graph, twin.graph.node(twin.group.members[0].anchor), device())
        .rule;
  };
  EXPECT_EQ(rule(conv_twin(conv(33, 64, 64))), "rows");
  EXPECT_EQ(rule(conv_twin(conv(9, 64, 64))), on_tensor_cores() ? "" : "rows");
  ConvCase c = conv(1, 64, 64);
  c.x = {1, 64, 2, 1};
  EXPECT_EQ(rule(conv_twin(c)), "image");
  c = conv(1, 64, 64);
  c.group = 2;
  EXPECT_EQ(rule(conv_twin(c)), "image");
  c = conv(1, 64, 64);
  c.weights = Source::kInput;
  EXPECT_EQ(rule(conv_twin(c)), "weights");
  Gemm op;
  EXPECT_EQ(rule(gemm(op, 40, 16, 16, {})), "rows");
}

TEST_P(MatrixVector, CompilesForItsDevice) {
  const int sm = GetParam().sm;
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(sm, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::vector<std::string> sources;
  for (const std::int64_t rows : {1, 2, 8, 16, 32}) {
    if (rows > 8 && !on_tensor_cores()) continue;
    const std::vector<Kernel> kernels =
        conv_twin(conv(rows, 1024, 128)).kernels(matrix_vector(), device());
    std::set<std::string> distinct;
    for (const Kernel& kernel : kernels) distinct.insert(kernel.source);
    int most = rows == 1 ? 12 : 2;
    for (const std::string& source : distinct) {
      if (most-- == 0) break;
      sources.push_back(source);
    }
  }
  NvrtcCompiler compiler(nvrtc, sm, device_headers());
  EXPECT_EQ(compiler.compile(sources).size(), sources.size());
}

INSTANTIATE_TEST_SUITE_P(Kinds, MatrixVector,
                         ::testing::Values(Kind{"float16", DType::kFloat16, 90, false},
                                           Kind{"bfloat16", DType::kBFloat16, 80, false},
                                           Kind{"tf32", DType::kFloat32, 90, true},
                                           Kind{"float", DType::kFloat32, 90, false},
                                           Kind{"float16_sm70", DType::kFloat16, 70, false},
                                           Kind{"bfloat16_sm75", DType::kBFloat16, 75, false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace braze::cuda::testing
