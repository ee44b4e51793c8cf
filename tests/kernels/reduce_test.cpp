// Reduce and ArgReduce against the interpreter: every function, dtype, set of axes and layout.
#include "base/error.hpp"
#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

constexpr ReduceFn kFunctions[] = {
    ReduceFn::kMean, ReduceFn::kSum, ReduceFn::kMax,    ReduceFn::kMin,       ReduceFn::kProd,
    ReduceFn::kL1,   ReduceFn::kL2,  ReduceFn::kLogSum, ReduceFn::kLogSumExp, ReduceFn::kSumSquare};

Compare close_to(double magnitude) {
  return [magnitude](const Tensor& got, const Tensor& want) {
    expect_close(got, want, 1e-6 * magnitude, 4e-6);
  };
}

class Reduction : public OnIsa {};

TEST_P(Reduction, EveryFunctionAndSetOfAxes) {
  const Shape shape = {2, 5, 6, 19};
  for (unsigned set = 0; set < 16; ++set) {
    Ints axes;
    for (std::int64_t axis = 0; axis < 4; ++axis) {
      if ((set >> axis & 1) != 0) axes.push_back(axis);
    }
    for (const ReduceFn fn : kFunctions) {
      for (const bool keepdims : {false, true}) {
        const bool positive = fn == ReduceFn::kLogSum || fn == ReduceFn::kProd;
        const Tensor x =
            random_tensor(shape, 1, positive ? 0.95F : -1, fn == ReduceFn::kProd ? 1.05F : 1);
        check_node(reduce(), {Reduce{fn, axes, keepdims}, {x}}, close_to(10));
      }
    }
  }
}

TEST_P(Reduction, Pools) {
  for (const Shape& shape :
       {Shape{1, 576, 7, 7}, Shape{2, 100, 40, 41}, Shape{1, 3, 120, 131}, Shape{1, 70, 5},
        Shape{1, 1, 50, 50}, Shape{1, 9, 1, 1}, Shape{1, 130, 3, 4, 5}}) {
    Ints axes;
    for (std::int64_t axis = 2; axis < std::ssize(shape); ++axis) axes.push_back(axis);
    for (const ReduceFn fn : {ReduceFn::kMean, ReduceFn::kMax})
      check_node(reduce(), {Reduce{fn, axes, true}, {random_tensor(shape, 1)}}, close_to(0.5));
  }
}

/// A long sum of equal signs keeps its digits.
TEST_P(Reduction, LongSums) {
  check_node(reduce(), {Reduce{ReduceFn::kSum, {0}, false}, {random_tensor({3000000}, 1, 0, 1)}},
             close_to(1));
  check_node(reduce(), {Reduce{ReduceFn::kSum, {0}, false}, {random_tensor({300000, 3}, 1, 0, 1)}},
             close_to(1));
}

TEST_P(Reduction, NanWins) {
  Tensor x = random_tensor({3, 4, 50}, 1);
  x.as<float>()[77] = std::numeric_limits<float>::quiet_NaN();
  x.as<float>()[401] = std::numeric_limits<float>::quiet_NaN();
  x.as<float>()[3] = std::numeric_limits<float>::infinity();
  for (const ReduceFn fn : {ReduceFn::kMax, ReduceFn::kMin, ReduceFn::kSum}) {
    for (std::int64_t axis = 0; axis < 3; ++axis)
      check_node(reduce(), {Reduce{fn, {axis}, true}, {x}}, close_to(10));
  }
}

TEST_P(Reduction, OtherDTypes) {
  for (const DType dtype : {DType::kInt8, DType::kUInt8, DType::kInt32, DType::kInt64,
                            DType::kUInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    for (const ReduceFn fn : {ReduceFn::kMean, ReduceFn::kSum, ReduceFn::kMax, ReduceFn::kMin,
                              ReduceFn::kProd, ReduceFn::kL1, ReduceFn::kSumSquare}) {
      for (const Ints& axes : {Ints{2, 3}, Ints{1}, Ints{0, 3}, Ints{}}) {
        check_node(reduce(), {Reduce{fn, axes, true}, {counting_tensor(dtype, {2, 3, 4, 5}, 1)}});
      }
    }
  }
}

TEST_P(Reduction, EmptyAxes) {
  for (const ReduceFn fn :
       {ReduceFn::kSum, ReduceFn::kProd, ReduceFn::kMax, ReduceFn::kMin, ReduceFn::kMean}) {
    check_node(reduce(), {Reduce{fn, {1}, true}, {random_tensor({2, 0, 3}, 1)}}, close_to(1));
    check_node(reduce(), {Reduce{fn, {2}, true}, {random_tensor({2, 0, 3}, 1)}}, close_to(1));
  }
}

TEST_P(Reduction, ArgReduce) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt32, DType::kInt64,
                            DType::kUInt8, DType::kUInt64, DType::kFloat64}) {
    const Tensor x = counting_tensor(dtype, {2, 9, 5, 20}, 1);  // many equal elements
    for (std::int64_t axis = 0; axis < 4; ++axis) {
      for (int bits = 0; bits < 8; ++bits)
        check_node(reduce(),
                   {ArgReduce{(bits & 1) != 0, axis, (bits & 2) != 0, (bits & 4) != 0}, {x}});
    }
  }
  check_node(reduce(), {ArgReduce{true, 1, false, false}, {random_tensor({1, 21, 120, 100}, 1)}});
  check_node(reduce(), {ArgReduce{true, 2, false, false}, {random_tensor({1, 40, 6625}, 1)}});
}

BRAZE_ON_EVERY_ISA(Reduction);

}  // namespace
}  // namespace braze::cpu::testing
