// Matrix products within the fp32 error bound, for every shape class, with epilogues.
#include "base/error.hpp"
#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

/// Sums of `depth` products of values in [-1, 1): u * (|ref| + 2 sqrt(K) * sum|x||w|), u = 2^-24,
/// and sum|x||w| about K / 4.
Compare close_sums(std::int64_t depth) {
  const double k = static_cast<double>(std::max<std::int64_t>(depth, 1));
  return [k](const Tensor& got, const Tensor& want) {
    expect_close(got, want, 0x1p-24 * 2 * std::sqrt(k) * (k / 2 + 1), 0x1p-22);
  };
}

class Gemm : public OnIsa {};

TEST_P(Gemm, MatMulShapes) {
  const std::pair<Shape, Shape> cases[] = {
      {{7}, {7}},
      {{7}, {7, 5}},
      {{5, 7}, {7}},
      {{1, 1}, {1, 1}},
      {{1, 300}, {300, 77}},
      {{5, 7}, {7, 9}},
      {{40, 120}, {120, 130}},
      {{65, 33}, {33, 17}},
      {{130, 20}, {20, 1}},
      {{3, 4, 5}, {5, 6}},
      {{3, 4, 5}, {5}},
      {{8, 40, 15}, {8, 15, 40}},
      {{2, 3, 70, 9}, {2, 3, 9, 11}},
      {{2, 1, 4, 5}, {3, 5, 6}},
      {{4, 5}, {3, 5, 6}},
      {{5}, {3, 5, 6}},
      {{3, 4, 5}, {3, 5, 1}},
      {{1, 4, 5}, {2, 5, 3}},
      {{6, 0}, {0, 4}},
      {{0, 3}, {3, 4}},
      {{2, 100, 64}, {64, 100}},
      {{2, 2, 2, 3, 4}, {4, 20}},
  };
  for (const auto& [a, b] : cases) {
    for (const bool constant : {false, true}) {
      OneNode node(MatMul{}, {random_tensor(a, 1), random_tensor(b, 2)},
                   constant ? std::vector<std::size_t>{1} : std::vector<std::size_t>{});
      check_node(gemm(), node, close_sums(a.back()));
    }
  }
  check_node(gemm(), {MatMul{}, {random_tensor({9, 20}, 1), random_tensor({20, 30}, 2)}, {0}},
             close_sums(20));
}

/// Every count of rows and columns up to a few tiles, so that every inner loop and edge runs.
TEST_P(Gemm, EveryEdge) {
  for (std::int64_t rows = 1; rows <= 33; ++rows) {
    const std::int64_t columns = 1 + rows * 13 % 70;
    check_node(gemm(),
               {MatMul{}, {random_tensor({rows, 19}, 1), random_tensor({19, columns}, 2)}, {1}},
               close_sums(19));
  }
  for (std::int64_t columns = 1; columns <= 70; ++columns) {
    check_node(gemm(), {MatMul{}, {random_tensor({5, 6}, 1), random_tensor({6, columns}, 2)}},
               close_sums(6));
  }
}

TEST_P(Gemm, GemmAttributes) {
  for (const std::int64_t m : {1, 9, 70}) {
    for (int bits = 0; bits < 8; ++bits) {
      braze::Gemm op;
      op.trans_a = (bits & 1) != 0;
      op.trans_b = (bits & 2) != 0;
      if ((bits & 4) != 0) op.alpha = 0.5, op.beta = -2;
      const Tensor a = random_tensor(op.trans_a ? Shape{21, m} : Shape{m, 21}, 1);
      const Tensor b = random_tensor(op.trans_b ? Shape{37, 21} : Shape{21, 37}, 2);
      for (const Shape& c :
           {Shape{}, Shape{1}, Shape{37}, Shape{1, 37}, Shape{m, 1}, Shape{m, 37}}) {
        for (const std::vector<std::size_t>& constants :
             {std::vector<std::size_t>{}, {1}, {2}, {1, 2}}) {
          check_node(gemm(), {op, {a, b, random_tensor(c, 3)}, constants}, close_sums(21));
        }
      }
      check_node(gemm(), {op, {a, b, Tensor{}}, {1}}, close_sums(21));
    }
  }
}

/// beta = 0 takes no notice of c, and alpha = 0 of nothing but finite sums.
TEST_P(Gemm, ZeroScales) {
  braze::Gemm op;
  op.beta = 0;
  check_node(gemm(),
             {op, {random_tensor({4, 5}, 1), random_tensor({5, 6}, 2), random_tensor({6}, 3)}, {1}},
             close_sums(5));
  op.alpha = 0;
  op.beta = 1;
  check_node(gemm(),
             {op, {random_tensor({4, 5}, 1), random_tensor({5, 6}, 2), random_tensor({6}, 3)}, {1}},
             close_sums(5));
}

TEST_P(Gemm, Epilogues) {
  struct Case {
    Shape a, b;
    std::vector<Shape> operands;
  };
  const Case cases[] = {
      {{70, 20}, {20, 50}, {{50}, {70, 50}, {1}, {1, 50}}},
      {{1, 20}, {20, 50}, {{50}, {1, 50}, {}}},
      {{20}, {20, 50}, {{50}, {}}},
      {{70, 20}, {20}, {{70}, {1}}},
      {{3, 10, 20}, {20, 50}, {{50}, {3, 10, 50}, {10, 1}, {3, 1, 50}, {3, 10, 1}}},
      {{3, 70, 20}, {3, 20, 50}, {{50}, {3, 70, 50}, {70, 1}}},
      {{2, 3, 6, 20}, {20, 50}, {{3, 1, 1}, {6, 50}, {2, 3, 6, 50}, {2, 3, 1, 1}}},
      {{2, 3, 6, 20}, {2, 3, 20, 5}, {{3, 1, 1}, {6, 5}, {2, 3, 6, 5}, {2, 1, 6, 5}}},
  };
  for (const Case& c : cases) {
    for (const Shape& operand : c.operands) {
      for (const bool constant : {false, true}) {
        OneNode node(MatMul{}, {random_tensor(c.a, 1), random_tensor(c.b, 2)}, {1});
        node.then(Binary{BinaryFn::kAdd}, random_tensor(operand, 3), constant);
        node.then(Unary{UnaryFn::kRelu});
        check_node(gemm(), node, close_sums(20));
      }
    }
  }
  OneNode clamp(braze::Gemm{},
                {random_tensor({9, 20}, 1), random_tensor({20, 50}, 2), random_tensor({9, 1}, 3)},
                {1});
  clamp.then(Unary{UnaryFn::kClip, -0.5, 0.75});
  check_node(gemm(), clamp, close_sums(20));
  OneNode relu(braze::Gemm{},
               {random_tensor({9, 20}, 1), random_tensor({20, 50}, 2), random_tensor({50}, 3)},
               {1, 2});
  relu.then(Unary{UnaryFn::kRelu});
  relu.then(Binary{BinaryFn::kMul}, random_tensor({50}, 4));
  check_node(gemm(), relu, close_sums(20));
}

TEST_P(Gemm, RandomShapes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto draw = [&random] { return static_cast<unsigned>(random()); };
  const auto extent = [&random](unsigned most) {
    return static_cast<std::int64_t>(1 + random() % most);
  };
  for (int i = 0; i < 40; ++i) {
    const std::int64_t batch = extent(3), m = extent(150), k = extent(200), n = extent(150);
    OneNode node(MatMul{},
                 {random_tensor({batch, m, k}, draw()),
                  random_tensor(random() % 2 != 0 ? Shape{k, n} : Shape{batch, k, n}, draw())},
                 random() % 2 != 0 ? std::vector<std::size_t>{1} : std::vector<std::size_t>{});
    if (random() % 2 != 0)
      node.then(Binary{BinaryFn::kSub}, random_tensor({n}, draw()), random() % 2 != 0,
                random() % 2 != 0);
    check_node(gemm(), node, close_sums(k));
  }
}

TEST_P(Gemm, OtherDTypesAreRefused) {
  const OneNode node(MatMul{}, {counting_tensor(DType::kInt32, {2, 3}, 1),
                                counting_tensor(DType::kInt32, {3, 2}, 2)});
  const Support support = gemm().family.supports(node.graph, node.graph.node(0), cpu_device(1));
  EXPECT_FALSE(support.ok);
  EXPECT_EQ(support.rule, "dtype");
}

BRAZE_ON_EVERY_ISA(Gemm);

}  // namespace
}  // namespace braze::cpu::testing
