// Softmax, InstanceNorm, Lrn against the interpreter.
#include "base/error.hpp"
#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

Compare within(double absolute, double relative) {
  return
      [=](const Tensor& got, const Tensor& want) { expect_close(got, want, absolute, relative); };
}

class Normalize : public OnIsa {};

TEST_P(Normalize, Softmax) {
  const std::pair<Shape, std::int64_t> cases[] = {
      {{7}, 0},           {{1}, 0},
      {{5, 1}, 1},        {{4420, 2}, 1},
      {{3, 16}, 1},       {{70, 17}, 1},
      {{9, 130}, 1},      {{130, 9}, 0},
      {{2, 21, 15}, 1},   {{2, 21, 15}, 2},
      {{2, 5, 9, 11}, 1}, {{2, 40, 9, 11}, 1},
      {{2, 5, 9, 11}, 2}, {{2, 5, 9, 11}, 3},
      {{2, 5, 9, 11}, 0}, {{1, 1, 9, 11}, 1},
      {{1, 1, 9, 11}, 3}, {{1, 80, 40, 40}, 1},
      {{1, 3, 1, 1}, 1},  {{1, 2, 3, 4, 5}, 3},
      {{0, 4}, 1},        {{2, 3, 300}, 2},
  };
  for (const auto& [shape, axis] : cases) {
    for (const bool log : {false, true}) {
      check_node(softmax(), {Softmax{axis, log}, {random_tensor(shape, 1, -5, 5)}},
                 within(log ? 2e-6 : 1e-30, 2e-6));
    }
  }
}

TEST_P(Normalize, SoftmaxOfExtremes) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor x = make_tensor<float>(DType::kFloat32, {4, 3},
                                      {1e38F, -1e38F, 0, -kInf, 0, -kInf, 200, 100, 201, 0,
                                       std::numeric_limits<float>::quiet_NaN(), 1});
  for (const std::int64_t axis : {0, 1}) {
    for (const bool log : {false, true})
      check_node(softmax(), {Softmax{axis, log}, {x}}, within(1e-30, 2e-6));
  }
}

/// The result may replace the input.
TEST_P(Normalize, SoftmaxInPlace) {
  ASSERT_TRUE(softmax().family.in_place);
  for (const auto& [shape, axis] :
       {std::pair<Shape, std::int64_t>{{9, 130}, 1}, {{70, 5}, 1}, {{2, 5, 9, 11}, 1}}) {
    for (const bool log : {false, true}) {
      const OneNode node(Softmax{axis, log}, {random_tensor(shape, 3, -5, 5)});
      Tensor y = node.inputs[0].clone();
      const Plan plan = one_kernel_plan(node.graph, softmax(), node.group);
      const void* in[] = {y.data()};
      void* out[] = {y.data()};
      softmax().build(plan, plan.kernels[0])->run({in, out});
      expect_close(y, interpret(node.graph, node.inputs)[0], log ? 2e-6 : 1e-30, 2e-6);
    }
  }
}

TEST_P(Normalize, InstanceNorm) {
  for (const Shape& shape :
       {Shape{2, 3, 7}, Shape{1, 70, 5, 6}, Shape{2, 17, 13, 11}, Shape{1, 5, 1, 1},
        Shape{1, 1, 9, 9}, Shape{1, 130, 3, 4, 5}, Shape{1, 2, 140, 131}}) {
    const Tensor scale = random_tensor({shape[1]}, 2), bias = random_tensor({shape[1]}, 3);
    for (const std::vector<std::size_t>& constants : {std::vector<std::size_t>{}, {1, 2}}) {
      OneNode node(InstanceNorm{1e-5}, {random_tensor(shape, 1), scale, bias}, constants);
      check_node(instance_norm(), node, within(4e-6, 2e-6));
      node.then(Unary{UnaryFn::kLeakyRelu, 0.1});
      node.then(Binary{BinaryFn::kAdd}, random_tensor(shape, 4), false);
      check_node(instance_norm(), node, within(4e-6, 2e-6));
    }
  }
}

/// A mean a thousand times the deviation costs no digits beyond those that x itself has lost.
TEST_P(Normalize, InstanceNormOfLargeMeans) {
  const Shape shape = {1, 20, 41, 37};
  const OneNode node(
      InstanceNorm{1e-5},
      {random_tensor(shape, 1, 999, 1001), random_tensor({20}, 2), random_tensor({20}, 3)}, {1, 2});
  check_node(instance_norm(), node, within(4e-6, 2e-6));
}

TEST_P(Normalize, Lrn) {
  for (const Shape& shape : {Shape{2, 3, 7}, Shape{1, 70, 5, 6}, Shape{2, 17, 13, 11},
                             Shape{1, 5, 1, 1}, Shape{1, 1, 9, 9}, Shape{1, 20, 3, 4, 5}}) {
    for (const std::int64_t size : {1, 2, 5}) {
      for (const double beta : {0.75, 0.5, 1.0}) {
        check_node(lrn(), {Lrn{size, 0.3, beta, 1.5}, {random_tensor(shape, 1, -3, 3)}},
                   within(1e-7, 1e-6));
      }
    }
  }
}

BRAZE_ON_EVERY_ISA(Normalize);

}  // namespace
}  // namespace braze::cpu::testing
