#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {
namespace {

Window window(Ints kernel, Ints strides, Ints dilations, Ints begin, Ints end) {
  return {std::move(kernel), std::move(strides), std::move(dilations),
          std::move(begin),  std::move(end),     AutoPad::kNotSet};
}

TEST(CudaPool, MaximaAndAveragesOfEveryRank) {
  BRAZE_NEEDS_EMULATOR();
  unsigned seed = 1;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const PoolFn fn : {PoolFn::kMax, PoolFn::kAverage}) {
      for (const bool count : {false, true}) {
        if (fn == PoolFn::kMax && count) continue;
        const auto check = [&](Shape shape, Window w, bool ceil) {
          Tensor x = random_floats(dtype, std::move(shape), seed++, -2, 1);
          check_node(pool(), OneNode(Pool{fn, std::move(w), ceil, count, false}, {x}),
                     rounded(dtype), 3, seed);
        };
        check({2, 16, 9, 10}, window({3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}), false);
        check({1, 24, 8, 7}, window({3, 2}, {2, 3}, {1, 2}, {1, 0}, {0, 1}), true);
        check({2, 5, 11}, window({3}, {2}, {1}, {1}, {1}), true);
        check({1, 8, 4, 5, 6}, window({2, 3, 3}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}),
              false);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(CudaPool, NotANumberWins) {
  BRAZE_NEEDS_EMULATOR();
  Tensor x = random_floats(DType::kFloat32, {1, 4, 6, 6}, 1);
  x.as<float>()[8] = std::numeric_limits<float>::quiet_NaN();
  check_node(pool(),
             OneNode(Pool{PoolFn::kMax, window({3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}), false,
                          false, false},
                     {x}),
             within(0, 0));
}

TEST(CudaPool, NeighboursShareColumns) {
  BRAZE_NEEDS_EMULATOR();
  struct Case {
    Shape x;
    Window window;
    bool ceil;
    const char* call;  // of float16: height, width, stride, vector, pixels
  };
  const Case cases[] = {
      {{2, 16, 10, 21}, window({3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}), false, "3, 3, 2, 8, 2"},
      {{1, 16, 9, 18}, window({3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 1}), true, "3, 3, 2, 8, 2"},
      {{1, 24, 8, 23}, window({3, 3}, {1, 1}, {2, 1}, {2, 0}, {1, 2}), false, "3, 3, 1, 8, 4"},
      {{1, 16, 9, 19}, window({5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}), false, "5, 5, 1, 8, 4"},
      {{1, 16, 9, 16}, window({2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}), true, "2, 2, 1, 8, 1"},
  };
  unsigned seed = 1;
  for (const Case& c : cases) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
      for (const PoolFn fn : {PoolFn::kMax, PoolFn::kAverage}) {
        Tensor x = random_floats(dtype, c.x, seed++, -2, -1);
        std::vector<double> values = load<double>(x);
        values[20] = std::numeric_limits<double>::quiet_NaN();
        values[200] = std::numeric_limits<double>::infinity();
        values[400] = -values[200];
        x = make_tensor<double>(dtype, c.x, values);
        const OneNode node(Pool{fn, c.window, c.ceil, seed % 2 == 0, false}, {x});
        Plan plan = one_kernel_plan(node.graph, pool(), node.group,
                                    {{node.group.inputs[0], {Layout::kChannelsLast, 8}},
                                     {node.group.outputs[0], {Layout::kChannelsLast, 0}}});
        plan.device.units = 0;  // however few outputs are enough
        const std::string source = pool().build(plan, plan.kernels[0]).source;
        if (dtype == DType::kFloat16) {
          EXPECT_NE(source.find(c.call), std::string::npos) << source;
        }
        const std::vector<Tensor> got = run_on_gpu(plan, pool(), node.inputs);
        rounded(dtype)(got[0], interpret(node.graph, node.inputs)[0]);
        if (HasFailure()) FAIL() << source;
      }
    }
  }
}

TEST(CudaPool, WithAnEpilogue) {
  BRAZE_NEEDS_EMULATOR();
  OneNode node(
      Pool{PoolFn::kAverage, window({2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}), false, false, false},
      {random_floats(DType::kFloat32, {2, 12, 6, 8}, 1)});
  node.then(Binary{BinaryFn::kAdd}, random_floats(DType::kFloat32, {2, 12, 3, 4}, 2), false);
  node.then(Unary{UnaryFn::kRelu});
  node.then(Binary{BinaryFn::kMul}, random_floats(DType::kFloat32, {12, 1, 1}, 3));
  check_node(pool(), node, rounded(DType::kFloat32), 8);
}

}  // namespace
}  // namespace braze::cuda::testing
