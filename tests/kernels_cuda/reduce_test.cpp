#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {
namespace {

Reduce reduction(ReduceFn fn, Ints axes, bool keepdims = true) {
  return Reduce{fn, std::move(axes), keepdims, false, false};
}

TEST(CudaReduce, EveryFunction) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (int fn = 0; fn <= static_cast<int>(ReduceFn::kSumSquare); ++fn) {
    const auto function = static_cast<ReduceFn>(fn);
    const bool product = function == ReduceFn::kProd;
    for (const Ints& axes : {Ints{2, 3}, Ints{1}, Ints{0, 3}}) {
      const DType dtype =
          std::array{DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64}[seed % 4];
      const Tensor x =
          random_floats(dtype, {2, 24, 5, 6}, seed++, product ? 0.9F : 0.1F, product ? 1.1F : 2);
      check_node(reduce(), OneNode(reduction(function, axes, seed % 2 == 0), {x}),
                 rounded(dtype, 1e-5), 3, seed);
      if (HasFailure()) FAIL() << to_string(function);
    }
  }
}

TEST(CudaReduce, ManyTermsOfFewChannelsAreSplitOverBlocks) {
  BRAZE_NEEDS_EMULATOR();
  for (const int sm : {80, 90}) {
    for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
      const Tensor x = random_floats(dtype, {1, 16, 48, 50}, 1, 0, 1);
      OneNode node(reduction(ReduceFn::kMean, {2, 3}), {x});
      const Plan plan = one_kernel_plan(node.graph, reduce(), node.group,
                                        {{node.group.inputs[0], {Layout::kChannelsLast, 0}}}, sm);
      const Kernel kernel = reduce().build(plan, plan.kernels[0]);
      EXPECT_EQ(kernel.cluster > 1, sm == 90);
      EXPECT_EQ(kernel.grid.y > 1, sm == 80);
      const std::vector<Tensor> got = run_on_gpu(plan, reduce(), node.inputs);
      rounded(dtype, 1e-5)(got[0], interpret(node.graph, node.inputs)[0]);
    }
  }
}

TEST(CudaReduce, AveragesOfImagesOfEverySize) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const Shape& shape : {Shape{1, 8, 56, 56}, Shape{1, 24, 33, 31}, Shape{2, 40, 14, 14},
                             Shape{3, 96, 7, 7}, Shape{1, 12, 30, 20}, Shape{2, 7, 9, 9},
                             Shape{40, 64, 3, 3}, Shape{1, 272, 20, 20}, Shape{1, 2, 70, 60}}) {
    for (const ReduceFn fn : {ReduceFn::kMean, ReduceFn::kMax, ReduceFn::kLogSumExp}) {
      const DType dtype = std::array{DType::kFloat16, DType::kFloat32, DType::kBFloat16}[seed % 3];
      Tensor x = random_floats(dtype, shape, seed++, -1, 2);
      std::vector<double> values = load<double>(x);
      values[7] = std::numeric_limits<double>::quiet_NaN();
      x = make_tensor<double>(dtype, shape, values);
      check_node(reduce(), OneNode(reduction(fn, {2, 3}), {x}), rounded(dtype, 1e-5), 3, seed);
      if (HasFailure()) FAIL() << to_string(fn) << " of " << braze::to_string(shape);
    }
  }
}

TEST(CudaReduce, Integers) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 0;
  for (const DType dtype : {DType::kInt8, DType::kUInt8, DType::kInt32, DType::kUInt32,
                            DType::kInt64, DType::kUInt64}) {
    for (const ReduceFn fn : {ReduceFn::kMean, ReduceFn::kSum, ReduceFn::kMax, ReduceFn::kMin,
                              ReduceFn::kL1, ReduceFn::kL2}) {
      if (seed++ % 2 == 0) continue;
      check_node(reduce(), OneNode(reduction(fn, {1}), {counting_tensor(dtype, {4, 7, 9}, seed)}),
                 expect_same, 2);
      if (HasFailure()) FAIL() << to_string(fn) << to_string(dtype);
    }
    for (const ReduceFn fn : {ReduceFn::kMax, ReduceFn::kMin})
      check_node(reduce(), OneNode(reduction(fn, {1}), {Tensor::make(dtype, {4, 0})}));
  }
}

TEST(CudaReduce, Arguments) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt32}) {
    for (const bool last : {false, true}) {
      for (const std::int64_t axis : {0, 1, 2, 3}) {
        Tensor x = counting_tensor(dtype, {3, 40, 6, 7}, seed++);
        if (dtype == DType::kFloat32) {
          for (std::int64_t i = 0; i < x.count(); i += 11)
            x.as<float>()[i] = std::numeric_limits<float>::quiet_NaN();
        }
        check_node(reduce(), OneNode(ArgReduce{seed % 2 == 0, axis, true, last}, {x}), expect_same,
                   2, seed);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace braze::cuda::testing
