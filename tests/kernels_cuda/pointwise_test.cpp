#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {
namespace {

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
constexpr DType kAll[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64,
                          DType::kInt8,    DType::kUInt8,   DType::kInt16,    DType::kUInt16,
                          DType::kInt32,   DType::kUInt32,  DType::kInt64,    DType::kUInt64,
                          DType::kBool};

TEST(CudaPointwise, UnaryFunctionsOfFloats) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (int fn = 0; fn <= static_cast<int>(UnaryFn::kIsNaN); ++fn) {
    if (static_cast<UnaryFn>(fn) == UnaryFn::kNot) continue;
    Unary op{static_cast<UnaryFn>(fn), 0.4, 0.9};
    const DType dtype = kFloats[seed % 3];
    const bool positive = op.fn == UnaryFn::kLog || op.fn == UnaryFn::kSqrt;
    Tensor x = random_floats(dtype, {2, 8, 3, 5}, seed++, positive ? 0.1F : -4.0F, 4);
    std::vector<double> values = load<double>(x);
    values[3] = std::numeric_limits<double>::quiet_NaN();
    values[4] = std::numeric_limits<double>::infinity();
    if (!positive && op.fn != UnaryFn::kSin && op.fn != UnaryFn::kCos) values[5] = -values[4];
    x = make_tensor<double>(dtype, x.shape(), values);
    check_node(pointwise(), OneNode(op, {x}), rounded(dtype), 2);
    if (HasFailure()) FAIL() << to_string(op.fn);
  }
}

TEST(CudaPointwise, BinaryFunctionsOfFloats) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (int fn = 0; fn <= static_cast<int>(BinaryFn::kGreaterOrEqual); ++fn) {
    const Binary op{static_cast<BinaryFn>(fn)};
    const DType dtype = kFloats[seed % 3];
    const Tensor a = random_floats(dtype, {2, 8, 3, 5}, seed++, 0.25F, 4),
                 b = random_floats(dtype, {2, 8, 3, 5}, seed++, 0.25F, 4);
    check_node(pointwise(), OneNode(op, {a, b}), rounded(dtype), 3, seed);
    if (HasFailure()) FAIL() << to_string(op.fn);
  }
}

TEST(CudaPointwise, BroadcastsAlongAnyAxes) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  const Shape shapes[] = {{2, 16, 3, 5}, {1, 16, 1, 1}, {5},          {},         {2, 16, 1, 1},
                          {2, 1, 3, 5},  {3, 1},        {1, 1, 3, 1}, {16, 3, 5}, {1, 16, 1, 5}};
  for (const Shape& a : shapes) {
    const Shape& b = shapes[seed % std::size(shapes)];
    const Shape full = {2, 16, 3, 5};
    check_node(pointwise(),
               OneNode(Binary{BinaryFn::kSub}, {random_floats(DType::kFloat32, a, seed),
                                                random_floats(DType::kFloat32, full, 7)}),
               expect_same, 3, seed);
    check_node(pointwise(),
               OneNode(Binary{BinaryFn::kSub}, {random_floats(DType::kFloat16, full, seed),
                                                random_floats(DType::kFloat16, b, 7)}),
               rounded(DType::kFloat16), 3, seed);
    ++seed;
  }
}

TEST(CudaPointwise, IntegersAndDoubles) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const DType dtype : kAll) {
    if (dtype == DType::kBool || (is_float(dtype) && dtype != DType::kFloat64)) continue;
    for (int fn = 0; fn <= static_cast<int>(BinaryFn::kGreaterOrEqual); ++fn) {
      if ((static_cast<unsigned>(fn) + seed) % 4 != 0) continue;
      const Binary op{static_cast<BinaryFn>(fn)};
      Tensor a = counting_tensor(dtype, {3, 17}, seed++), b = counting_tensor(dtype, {17}, seed++);
      if (dtype == DType::kInt64) a.as<std::int64_t>()[3] = INT64_MIN, b.as<std::int64_t>()[3] = -1;
      check_node(pointwise(), OneNode(op, {a, b}));
      if (HasFailure()) FAIL() << to_string(op.fn) << to_string(dtype);
    }
    ++seed;
    for (const UnaryFn fn :
         {UnaryFn::kRelu, UnaryFn::kClip, UnaryFn::kAbs, UnaryFn::kNeg, UnaryFn::kSign}) {
      if ((static_cast<unsigned>(fn) + seed) % 3 != 0) continue;
      check_node(pointwise(), OneNode(Unary{fn, 3, 60}, {counting_tensor(dtype, {3, 17}, seed)}));
    }
  }
  check_node(pointwise(), OneNode(Unary{UnaryFn::kNot}, {counting_tensor(DType::kBool, {33}, 1)}));
  for (const BinaryFn fn : {BinaryFn::kAnd, BinaryFn::kOr, BinaryFn::kXor, BinaryFn::kEqual}) {
    check_node(pointwise(), OneNode(Binary{fn}, {counting_tensor(DType::kBool, {32}, 1),
                                                 counting_tensor(DType::kBool, {32}, 2)}));
  }
}

TEST(CudaPointwise, Casts) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 0;
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      ++seed;
      // A sixth of the pairs, but all of those between floats.
      if (seed % 6 != 0 && !(is_float(from) && is_float(to))) continue;
      Tensor x = counting_tensor(from, {2, 8, 3, 2}, seed);
      if (is_float(from)) {
        std::vector<double> values = load<double>(x);
        for (double& value : values) value = value * 1.2345678 - 60;
        values[1] = std::numeric_limits<double>::quiet_NaN();
        values[2] = 1e30;
        values[3] = 1.0009765625 + 0x1p-40;  // just over half way between two halves
        values[4] = -values[2];
        x = make_tensor<double>(from, x.shape(), values);
      }
      check_node(pointwise(), OneNode(Cast{to}, {x}),
                 is_float(to) ? within(0, 0) : Compare(expect_same), 2, seed);
      if (HasFailure()) FAIL() << to_string(from) << " to " << to_string(to);
    }
  }
}

TEST(CudaPointwise, CastsThatChangeTheLayout) {
  BRAZE_NEEDS_EMULATOR();
  const OneNode node(Cast{DType::kFloat16}, {random_floats(DType::kFloat32, {2, 40, 9, 11}, 1)});
  check_node(pointwise(), node, within(0, 0), 4);
  const Plan plan = one_kernel_plan(node.graph, pointwise(), node.group,
                                    {{node.group.outputs[0], {Layout::kChannelsLast, 0}}});
  EXPECT_NE(pointwise().build(plan, plan.kernels[0]).source.find("copy<float, half"),
            std::string::npos);
}

TEST(CudaPointwise, Where) {
  BRAZE_NEEDS_EMULATOR();
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt64, DType::kUInt8}) {
    check_node(pointwise(), OneNode(Where{}, {counting_tensor(DType::kBool, {2, 1, 3, 5}, 1),
                                              counting_tensor(dtype, {2, 8, 3, 5}, 2),
                                              counting_tensor(dtype, {8, 1, 1}, 3)}));
  }
}

TEST(CudaPointwise, BatchNorm) {
  BRAZE_NEEDS_EMULATOR();
  for (const bool constant : {true, false}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      std::vector<Tensor> inputs = {random_floats(dtype, {2, 24, 3, 5}, 1)};
      for (unsigned i = 1; i < 5; ++i) inputs.push_back(random_floats(dtype, {24}, i, 0.5F, 2));
      const std::vector<std::size_t> constants =
          constant ? std::vector<std::size_t>{1, 2, 3, 4} : std::vector<std::size_t>{};
      check_node(pointwise(), OneNode(BatchNorm{}, inputs, constants), rounded(dtype, 1e-5));
    }
  }
}

TEST(CudaPointwise, Quantisation) {
  BRAZE_NEEDS_EMULATOR();
  const Tensor x = random_floats(DType::kFloat32, {2, 8, 3, 5}, 1, -9, 9);
  for (const bool per_axis : {false, true}) {
    const Shape shape = per_axis ? Shape{8} : Shape{};
    const Tensor scale = random_floats(DType::kFloat32, shape, 2, 0.03F, 0.1F);
    const Tensor zero = counting_tensor(DType::kUInt8, shape, 3);
    check_node(pointwise(), OneNode(Quantize{}, {x, scale, zero}, {1, 2}));
    check_node(pointwise(), OneNode(Quantize{1, DType::kInt8}, {x, scale}));
    check_node(pointwise(),
               OneNode(Dequantize{}, {counting_tensor(DType::kUInt8, x.shape(), 4), scale, zero}));
    check_node(pointwise(),
               OneNode(Dequantize{}, {counting_tensor(DType::kInt32, x.shape(), 4), scale}));
  }
}

TEST(CudaPointwise, ChainsOfSteps) {
  BRAZE_NEEDS_EMULATOR();
  for (const DType dtype : {DType::kFloat32}) {
    OneNode node(Binary{BinaryFn::kAdd},
                 {random_floats(dtype, {2, 20, 3, 5}, 1), random_floats(dtype, {1, 20, 1, 1}, 2)});
    node.then(Unary{UnaryFn::kHardSwish});
    node.then(Binary{BinaryFn::kMul}, random_floats(dtype, {2, 20, 1, 1}, 3), false);
    node.then(Binary{BinaryFn::kSub}, random_floats(dtype, {2, 20, 3, 5}, 4), false, true);
    node.then(Binary{BinaryFn::kAdd}, random_floats(dtype, {20, 1, 1}, 5), true);
    node.then(Unary{UnaryFn::kClip, -0.5, 0.75});
    check_node(pointwise(), node, rounded(dtype), 8);
  }
}

TEST(CudaPointwise, NothingToDo) {
  const OneNode node(Unary{UnaryFn::kRelu}, {Tensor::make(DType::kFloat32, {0, 3})});
  const Plan plan = one_kernel_plan(node.graph, pointwise(), node.group, {});
  EXPECT_EQ(pointwise().build(plan, plan.kernels[0]).grid.x, 0U);
}

}  // namespace
}  // namespace braze::cuda::testing
