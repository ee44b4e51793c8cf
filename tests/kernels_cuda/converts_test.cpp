// Groups whose inputs and results are of other float types than the members compute in.
#include "kernels_cuda/one_kernel.hpp"
#include "kernels_cuda/twin.hpp"

namespace braze::cuda::testing {
namespace {

constexpr LayoutChoice kModel{Layout::kModel, 0}, kLast{Layout::kChannelsLast, 0};

Window window(Ints kernel, Ints strides, Ints pads) {
  Window w;
  w.dilations = Ints(kernel.size(), 1);
  w.kernel = std::move(kernel);
  w.strides = std::move(strides);
  w.pads_begin = w.pads_end = std::move(pads);
  return w;
}

/// For inputs as they come from outside, results as they go there, and neither.
template <class F>
void for_types_and_layouts(F check) {
  check(DType::kFloat16, DType::kFloat32, kModel, DType::kFloat16, kLast);
  check(DType::kFloat16, DType::kFloat16, kLast, DType::kFloat32, kModel);
  check(DType::kBFloat16, DType::kFloat32, kLast, DType::kFloat32, kLast);
  check(DType::kBFloat16, DType::kBFloat16, kLast, DType::kBFloat16, kLast);
}

TEST(CudaConverts, Pointwise) {
  BRAZE_NEEDS_EMULATOR();
  for_types_and_layouts([](DType compute, DType in, LayoutChoice from, DType out, LayoutChoice to) {
    Twin twin(compute);
    const ValueId x = twin.input(twin.values({2, 16, 3, 5}), in, from);
    const ValueId residual = twin.input(twin.values({2, 16, 3, 5}), compute, kLast);
    twin.anchor(Binary{BinaryFn::kMul}, {x, twin.constant(twin.values({16, 1, 1}))});
    twin.then(BinaryFn::kAdd, residual);
    twin.then(Unary{UnaryFn::kRelu});
    twin.store_as(out, to);
    twin.check(pointwise(), cuda_device(90));
  });
}

TEST(CudaConverts, Pool) {
  BRAZE_NEEDS_EMULATOR();
  for_types_and_layouts([](DType compute, DType in, LayoutChoice from, DType out, LayoutChoice to) {
    Twin twin(compute);
    const ValueId x = twin.input(twin.values({2, 16, 6, 8}), in, from);
    twin.anchor(Pool{PoolFn::kMax, window({3, 3}, {2, 2}, {1, 1}), false, false, false}, {x});
    twin.then(BinaryFn::kAdd, twin.constant(twin.values({16, 1, 1})));
    twin.store_as(out, to);
    twin.check(pool(), cuda_device(90));
  });
}

TEST(CudaConverts, ConvDepthwise) {
  BRAZE_NEEDS_EMULATOR();
  for_types_and_layouts([](DType compute, DType in, LayoutChoice from, DType out, LayoutChoice to) {
    Twin twin(compute);
    const ValueId x = twin.input(twin.values({2, 16, 6, 8}), in, from);
    const ValueId residual = twin.input(twin.values({2, 16, 6, 8}), compute, kLast);
    Conv conv;
    conv.window = window({3, 3}, {1, 1}, {1, 1});
    conv.group = 16;
    twin.anchor(conv,
                {x, twin.constant(twin.values({16, 1, 3, 3})), twin.constant(twin.values({16}))});
    twin.then(Unary{UnaryFn::kClip, 0, 6});
    twin.then(BinaryFn::kAdd, residual);
    twin.store_as(out, to);
    twin.check(conv_depthwise(), cuda_device(90));
  });
}

TEST(CudaConverts, ConvTranspose) {
  BRAZE_NEEDS_EMULATOR();
  for_types_and_layouts([](DType compute, DType in, LayoutChoice from, DType out, LayoutChoice to) {
    Twin twin(compute);
    const ValueId x = twin.input(twin.values({1, 16, 4, 5}), in, from);
    ConvTranspose op;
    op.window = window({2, 2}, {2, 2}, {0, 0});
    op.output_padding = {0, 0};
    twin.anchor(op, {x, twin.constant(twin.values({16, 8, 2, 2}))});
    twin.then(Unary{UnaryFn::kRelu});
    twin.store_as(out, to);
    twin.check(conv_transpose(), cuda_device(90));
  });
}

}  // namespace
}  // namespace braze::cuda::testing
