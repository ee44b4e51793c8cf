// Element-by-element functions and the epilogues made of them, against the interpreter: every
// function, dtype, broadcast, layout, and instruction set.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class PointwiseOnIsa : public OnIsa {};
BRAZE_ON_EVERY_ISA(PointwiseOnIsa);

/// fp32 results: a few units in the last place of the result, or of 1 where arguments cancel.
void expect_near(const Tensor& got, const Tensor& want) {
  if (want.dtype() == DType::kFloat32) {
    expect_close(got, want, 4e-7, 6e-7);
  } else {
    expect_same(got, want);
  }
}

constexpr Unary kFloatFunctions[] = {
    {UnaryFn::kRelu},
    {UnaryFn::kLeakyRelu, 0.1},
    {UnaryFn::kClip, -0.5, 2},
    {UnaryFn::kSigmoid},
    {UnaryFn::kSilu},
    {UnaryFn::kHardSwish},
    {UnaryFn::kMish},
    {UnaryFn::kGelu},
    {UnaryFn::kGeluTanh},
    {UnaryFn::kTanh},
    {UnaryFn::kElu, 1.5},
    {UnaryFn::kSelu, 1.67, 1.05},
    {UnaryFn::kCelu, 2},
    {UnaryFn::kSoftplus},
    {UnaryFn::kSoftsign},
    {UnaryFn::kThresholdedRelu, 0.7},
    {UnaryFn::kErf},
    {UnaryFn::kExp},
    {UnaryFn::kLog},
    {UnaryFn::kSqrt},
    {UnaryFn::kAbs},
    {UnaryFn::kNeg},
    {UnaryFn::kReciprocal},
    {UnaryFn::kFloor},
    {UnaryFn::kCeil},
    {UnaryFn::kRound},
    {UnaryFn::kSign},
    {UnaryFn::kSin},
    {UnaryFn::kCos},
    {UnaryFn::kIsNaN},
    {UnaryFn::kHardSigmoid, 0.2, 0.5},
};
constexpr BinaryFn kArithmetic[] = {
    BinaryFn::kAdd, BinaryFn::kSub,  BinaryFn::kMul, BinaryFn::kDiv, BinaryFn::kPow,
    BinaryFn::kMod, BinaryFn::kFMod, BinaryFn::kMin, BinaryFn::kMax, BinaryFn::kPRelu};
constexpr BinaryFn kComparisons[] = {BinaryFn::kEqual, BinaryFn::kLess, BinaryFn::kLessOrEqual,
                                     BinaryFn::kGreater, BinaryFn::kGreaterOrEqual};
constexpr DType kIntegers[] = {DType::kInt8,  DType::kUInt8,  DType::kInt16, DType::kUInt16,
                               DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64};

Tensor with_specials(Tensor tensor) {
  const float specials[] = {kNaN,   kInf,    -kInf,  0.0f,    -0.0f, 88.0f, -88.0f,
                            120.0f, -120.0f, 1e-30f, -1e-30f, 0.5f,  1.5f,  -2.5f};
  for (std::int64_t i = 0; i < tensor.count() && i < 14; ++i)
    tensor.as<float>()[i * 7 % tensor.count()] = specials[i];
  return tensor;
}

TEST_P(PointwiseOnIsa, EveryUnaryFunctionOfFloats) {
  for (const Unary& op : kFloatFunctions) {
    // Sizes below, at and above whole vectors, in one image and in several.
    for (const Shape& shape :
         {Shape{1, 5, 3, 7}, Shape{2, 48, 2, 5}, Shape{1, 1, 9, 31}, Shape{7}, Shape{3, 129}}) {
      OneNode node(op, {with_specials(random_tensor(shape, 1, -6, 6))});
      check_node(pointwise(), node, [&](const Tensor& got, const Tensor& want) {
        const bool wide = op.fn == UnaryFn::kSin || op.fn == UnaryFn::kCos;
        if (want.dtype() == DType::kFloat32) {
          expect_close(got, want, wide ? 1e-6 : 5e-7, 6e-7);
        } else {
          expect_same(got, want);
        }
      });
      if (HasFailure()) FAIL() << to_string(op.fn);
    }
  }
}

TEST_P(PointwiseOnIsa, UnaryFunctionsOverTheWholeRange) {
  std::mt19937 random(7);
  Tensor x = Tensor::make(DType::kFloat32, {1 << 14});
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    std::memcpy(x.as<float>() + i, &bits, 4);
  }
  for (const Unary& op : kFloatFunctions) {
    OneNode node(op, {x});
    const Tensor want = interpret(node.graph, node.inputs).front();
    const Plan plan = one_kernel_plan(node.graph, pointwise(), node.group);
    const Tensor got = run_kernel(plan, pointwise(), node.inputs).front();
    for (std::int64_t i = 0; i < got.count() && want.dtype() == DType::kFloat32; ++i) {
      const double w = want.as<float>()[i], g = got.as<float>()[i], v = x.as<float>()[i];
      double allowed = 4 * 6e-8 * std::fabs(w) + 1e-36;
      if (op.fn == UnaryFn::kGelu || op.fn == UnaryFn::kGeluTanh)
        allowed = std::max(allowed, 4 * 6e-8 * std::fabs(v));
      if ((op.fn == UnaryFn::kSin || op.fn == UnaryFn::kCos) && std::fabs(v) < 40000)
        allowed = 4e-7;
      if (op.fn == UnaryFn::kHardSigmoid || op.fn == UnaryFn::kHardSwish)
        allowed += 2e-7 * std::fabs(v) + 6e-8;
      if (std::isnan(w) ? std::isnan(g) : (g == w || std::fabs(g - w) <= allowed)) continue;
      FAIL() << to_string(op.fn) << "(" << v << ") is " << g << ", expected " << w;
    }
  }
}

/// Pairs of shapes: full, channel, image, pixel, one axis only, scalar, lower rank, both broadcast,
/// matrices, rank 6.
const std::pair<Shape, Shape> kPairs[] = {
    {{2, 19, 4, 5}, {2, 19, 4, 5}},
    {{2, 19, 4, 5}, {19, 1, 1}},
    {{2, 19, 4, 5}, {2, 19, 1, 1}},
    {{2, 19, 4, 5}, {1, 1, 4, 5}},
    {{2, 19, 4, 5}, {2, 1, 4, 5}},
    {{2, 19, 4, 5}, {5}},
    {{2, 19, 4, 5}, {4, 1}},
    {{2, 19, 4, 5}, {1, 19, 4, 1}},
    {{2, 19, 4, 5}, {}},
    {{2, 19, 4, 5}, {1}},
    {{2, 19, 1, 1}, {1, 1, 4, 5}},
    {{19, 1, 5}, {2, 1, 4, 1}},
    {{1, 40, 3, 3}, {40, 1, 1}},
    {{1, 3, 33, 65}, {3, 1, 1}},
    {{3, 40}, {40}},
    {{3, 40}, {3, 1}},
    {{3, 1}, {1, 40}},
    {{37}, {1}},
    {{}, {}},
    {{2, 3, 4, 2, 3, 5}, {3, 1, 2, 1, 5}},
    {{2, 8, 21}, {21}},
    {{2, 8, 21}, {8, 1}},
    {{2, 6, 2, 3, 4}, {6, 1, 1, 1}},
    {{3, 1, 1, 1}, {3, 1, 1, 1}},
    {{0, 4}, {1, 4}},
    {{2, 5, 1, 1}, {2, 5, 1, 1}},
    {{1, 1, 6, 7}, {1, 1, 6, 7}},
};

TEST_P(PointwiseOnIsa, EveryBroadcastOfFloats) {
  for (const auto& [a, b] : kPairs) {
    for (const bool swap : {false, true}) {
      for (const BinaryFn fn : {BinaryFn::kSub, BinaryFn::kMul, BinaryFn::kGreater}) {
        const Tensor x = random_tensor(a, 1), y = random_tensor(b, 2);
        check_node(pointwise(), OneNode(Binary{fn}, {swap ? y : x, swap ? x : y}), expect_near);
        check_node(pointwise(), OneNode(Binary{fn}, {swap ? y : x, swap ? x : y}, {swap ? 0U : 1U}),
                   expect_near);
        if (HasFailure()) FAIL() << to_string(a) << " " << to_string(b) << " " << to_string(fn);
      }
    }
  }
}

TEST_P(PointwiseOnIsa, EveryBinaryFunctionOfFloats) {
  for (const BinaryFn fn : kArithmetic) {
    const float lowest = fn == BinaryFn::kPow ? 0.1f : -4;
    const Tensor x = random_tensor({2, 19, 4, 5}, 3, lowest, 4);
    for (const Shape& shape : {Shape{2, 19, 4, 5}, Shape{19, 1, 1}, Shape{4, 5}, Shape{}}) {
      const Tensor y = random_tensor(shape, 4, -3, 3);
      check_node(pointwise(), OneNode(Binary{fn}, {x, y}), expect_near);
      if (fn != BinaryFn::kPow && fn != BinaryFn::kPRelu)
        check_node(pointwise(), OneNode(Binary{fn}, {y, x}), expect_near);
      if (HasFailure()) FAIL() << to_string(fn) << to_string(shape);
    }
  }
  for (const float exponent : {2.0f, 3.0f, 0.5f, -1.0f, 0.0f}) {
    Tensor y = Tensor::from<float>(DType::kFloat32, {}, std::span(&exponent, 1));
    check_node(pointwise(),
               OneNode(Binary{BinaryFn::kPow},
                       {with_specials(random_tensor({1, 5, 6, 7}, 5, -4, 4)), y}, {1}),
               [](const Tensor& got, const Tensor& want) { expect_close(got, want, 1e-37, 6e-7); });
  }
}

TEST_P(PointwiseOnIsa, NaNWinsInMinAndMax) {
  const std::vector<float> a = {kNaN, 1, kNaN, kInf, -kInf, 2}, b = {1, kNaN, kNaN, kNaN, 3, -kInf};
  for (const BinaryFn fn : {BinaryFn::kMin, BinaryFn::kMax}) {
    check_node(pointwise(),
               OneNode(Binary{fn}, {Tensor::from<float>(DType::kFloat32, {6}, a),
                                    Tensor::from<float>(DType::kFloat32, {6}, b)}),
               expect_near);
  }
}

TEST_P(PointwiseOnIsa, BatchNormWithParametersAtRunTime) {
  for (const Shape& shape :
       {Shape{2, 19, 4, 5}, Shape{1, 64, 7}, Shape{3, 6}, Shape{2, 5, 2, 3, 4}}) {
    std::vector<Tensor> in = {random_tensor(shape, 1)};
    for (unsigned i = 0; i < 4; ++i) in.push_back(random_tensor({shape[1]}, 2 + i, 0.5f, 2));
    for (const bool constant : {false, true}) {
      OneNode node(BatchNorm{1e-3}, in,
                   constant ? std::vector<std::size_t>{1, 2, 3, 4} : std::vector<std::size_t>{});
      check_node(pointwise(), node,
                 [](const Tensor& g, const Tensor& w) { expect_close(g, w, 1e-6, 1e-6); });
      node.then(Unary{UnaryFn::kRelu});
      check_node(pointwise(), node,
                 [](const Tensor& g, const Tensor& w) { expect_close(g, w, 1e-6, 1e-6); });
    }
  }
}

TEST(Pointwise, IntegersAndBooleans) {
  for (const DType dtype : kIntegers) {
    for (const auto& [a, b] :
         {std::pair{Shape{2, 5, 3, 4}, Shape{2, 5, 3, 4}},
          std::pair{Shape{2, 5, 3, 4}, Shape{5, 1, 1}},
          std::pair{Shape{1, 5, 1, 4}, Shape{2, 1, 3, 1}}, std::pair{Shape{6}, Shape{}}}) {
      Tensor x = counting_tensor(dtype, a, 1), y = counting_tensor(dtype, b, 2);
      for (const BinaryFn fn : kArithmetic) {
        if (fn == BinaryFn::kPRelu && element_count(a) < element_count(b)) continue;
        if (fn == BinaryFn::kPRelu && a[0] == 1) continue;
        check_node(pointwise(), OneNode(Binary{fn}, {x, y}));
        if (HasFailure()) FAIL() << to_string(dtype) << to_string(fn);
      }
      for (const BinaryFn fn : kComparisons) check_node(pointwise(), OneNode(Binary{fn}, {x, y}));
    }
    for (const Unary& op :
         {Unary{UnaryFn::kRelu}, Unary{UnaryFn::kAbs}, Unary{UnaryFn::kNeg}, Unary{UnaryFn::kSign},
          Unary{UnaryFn::kClip, 10, 60.5}, Unary{UnaryFn::kClip, -kInf, kInf}}) {
      Tensor x = counting_tensor(dtype, {2, 5, 3, 4}, 1);
      std::memset(x.data(), 0xf3, 8);  // negative, where there are negative ones
      check_node(pointwise(), OneNode(op, {x}));
    }
  }
  const Tensor p = counting_tensor(DType::kBool, {2, 5, 3, 4}, 1),
               q = counting_tensor(DType::kBool, {3, 1}, 2);
  for (const BinaryFn fn : {BinaryFn::kAnd, BinaryFn::kOr, BinaryFn::kXor, BinaryFn::kEqual}) {
    check_node(pointwise(), OneNode(Binary{fn}, {p, q}));
  }
  check_node(pointwise(), OneNode(Unary{UnaryFn::kNot}, {p}));
}

TEST(Pointwise, IntegerDivisionNeverTraps) {
  const std::vector<std::int32_t> a = {INT32_MIN, 7, -7, 7, -7, 0, INT32_MIN},
                                  b = {-1, 0, 2, -2, -2, 0, 1};
  const std::vector<std::int64_t> c = {INT64_MIN, 7, -7, 7, -7, 0, INT64_MIN},
                                  d = {-1, 0, 2, -2, -2, 0, 1};
  for (const BinaryFn fn : {BinaryFn::kDiv, BinaryFn::kMod, BinaryFn::kFMod, BinaryFn::kPow}) {
    check_node(pointwise(),
               OneNode(Binary{fn}, {Tensor::from<std::int32_t>(DType::kInt32, {7}, a),
                                    Tensor::from<std::int32_t>(DType::kInt32, {7}, b)}));
    check_node(pointwise(),
               OneNode(Binary{fn}, {Tensor::from<std::int64_t>(DType::kInt64, {7}, c),
                                    Tensor::from<std::int64_t>(DType::kInt64, {7}, d)}));
  }
}

TEST(Pointwise, OtherFloats) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    const Tensor x =
        make_tensor(dtype, {2, 5, 3, 4}, load<double>(random_tensor({2, 5, 3, 4}, 1, -4, 4)));
    const Tensor y =
        make_tensor(dtype, {5, 1, 1}, load<double>(random_tensor({5, 1, 1}, 2, 0.5, 4)));
    for (const Unary& op : kFloatFunctions) check_node(pointwise(), OneNode(op, {x}));
    for (const BinaryFn fn : kArithmetic) check_node(pointwise(), OneNode(Binary{fn}, {x, y}));
    for (const BinaryFn fn : kComparisons) check_node(pointwise(), OneNode(Binary{fn}, {x, y}));
  }
}

TEST(Pointwise, CastsBetweenAllTypes) {
  for (int from = 0; from <= static_cast<int>(DType::kBool); ++from) {
    for (int to = 0; to <= static_cast<int>(DType::kBool); ++to) {
      check_node(pointwise(),
                 OneNode(Cast{static_cast<DType>(to)},
                         {counting_tensor(static_cast<DType>(from), {2, 5, 3, 4}, 1)}));
    }
  }
  const std::vector<float> x = {kNaN, kInf, -kInf, -0.5f, 300.7f, -3e9f, 3e9f, 1e-9f, -1};
  for (const DType to : kIntegers)
    check_node(pointwise(), OneNode(Cast{to}, {Tensor::from<float>(DType::kFloat32, {9}, x)}));
}

TEST(Pointwise, WhereOfAnySize) {
  for (const DType dtype :
       {DType::kFloat32, DType::kInt64, DType::kUInt8, DType::kFloat16, DType::kBool}) {
    for (const auto& [c, a, b] :
         {std::tuple{Shape{2, 5, 3, 4}, Shape{2, 5, 3, 4}, Shape{2, 5, 3, 4}},
          std::tuple{Shape{2, 1, 3, 4}, Shape{2, 5, 3, 4}, Shape{}},
          std::tuple{Shape{4}, Shape{2, 5, 1, 1}, Shape{3, 1}},
          std::tuple{Shape{2, 5, 3, 4}, Shape{}, Shape{2, 5, 3, 4}}}) {
      check_node(pointwise(),
                 OneNode(Where{}, {counting_tensor(DType::kBool, c, 1),
                                   counting_tensor(dtype, a, 2), counting_tensor(dtype, b, 3)}));
    }
  }
  OneNode node(Where{}, {counting_tensor(DType::kBool, {2, 1, 3, 4}, 1),
                         random_tensor({2, 5, 3, 4}, 2), random_tensor({}, 3)});
  node.then(Unary{UnaryFn::kClip, -0.25, 0.5});
  node.then(Binary{BinaryFn::kMul}, random_tensor({5, 1, 1}, 4));
  check_node(pointwise(), node, expect_near);
}

TEST(Pointwise, WritesOverItsFirstInput) {
  const Tensor x = random_tensor({2, 19, 4, 5}, 1), y = random_tensor({19, 1, 1}, 2);
  for (const Layout layout : {Layout::kModel, Layout::kChannelsLast}) {
    OneNode node(Binary{BinaryFn::kSub}, {x, y}, {1});
    node.then(Unary{UnaryFn::kSilu});
    const std::map<ValueId, LayoutChoice> layouts = {{node.group.inputs[0], {layout, 0}},
                                                     {node.group.outputs[0], {layout, 0}}};
    const Plan plan = one_kernel_plan(node.graph, pointwise(), node.group, layouts);
    Placed values(DType::kFloat32, x.shape(), {layout, 0});
    values.set(x);
    const void* in = values.data();
    void* out = values.data();
    pointwise().build(plan, plan.kernels[0])->run({{&in, 1}, {&out, 1}, nullptr, nullptr});
    expect_near(values.get(), interpret(node.graph, node.inputs).front());
  }
}

}  // namespace
}  // namespace braze::cpu::testing
