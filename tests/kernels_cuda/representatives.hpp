// One kernel of each kind that the families without matrix products emit, in layouts that they are
// made for and in others.
#pragma once

#include <utility>

#include "kernels_cuda/one_kernel.hpp"

namespace braze::cuda::testing {

struct Representative {
  std::string name;
  Kernel kernel;
};

inline std::vector<Representative> representatives(int sm) {
  std::vector<Representative> all;
  const auto add = [&](const std::string& name, const Row& row, const OneNode& node,
                       bool channels_last_in = true, bool channels_last_out = true) {
    std::map<ValueId, LayoutChoice> layouts;
    const auto place = [&](const std::vector<ValueId>& ids, bool last) {
      for (const ValueId id : ids) {
        if (last && node.graph.value(id).shape.size() >= 3)
          layouts[id] = {Layout::kChannelsLast, 0};
      }
    };
    place(node.group.inputs, channels_last_in);
    place(node.group.outputs, channels_last_out);
    const Plan plan = one_kernel_plan(node.graph, row, node.group, layouts, sm);
    all.push_back({name, row.build(plan, plan.kernels[0])});
  };
  const auto window = [](Ints kernel, Ints strides, Ints pads) {
    Window w;
    w.dilations = Ints(kernel.size(), 1);
    w.kernel = std::move(kernel);
    w.strides = std::move(strides);
    w.pads_begin = w.pads_end = std::move(pads);
    return w;
  };
  const Shape image = {1, 32, 28, 28};
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const std::string of = std::string("_") + to_string(dtype);
    const auto floats = [&](Shape shape) { return random_floats(dtype, std::move(shape), 1); };
    OneNode chain(Binary{BinaryFn::kAdd}, {floats(image), floats(image)});
    if (dtype == DType::kFloat32) {
      chain.then(Unary{UnaryFn::kMish});
      chain.then(Binary{BinaryFn::kPow}, floats({32, 1, 1}));
    }
    add("chain" + of, pointwise(), chain);
    add("chain_mixed" + of, pointwise(), chain, false, true);
    add("relayout" + of, relayout(), OneNode(Identity{}, {floats(image)}), false, true);
    add("max_pool" + of, pool(),
        OneNode(Pool{PoolFn::kMax, window({3, 3}, {2, 2}, {1, 1}), false, false, false},
                {floats(image)}));
    add("max_pool_pixels" + of, pool(),
        OneNode(Pool{PoolFn::kMax, window({3, 3}, {2, 2}, {1, 1}), false, false, false},
                {floats({16, 64, 56, 56})}));
    add("average_pool_model" + of, pool(),
        OneNode(Pool{PoolFn::kAverage, window({3, 3}, {2, 2}, {1, 1}), false, true, false},
                {floats(image)}),
        false, false);
    add("mean" + of, reduce(),
        OneNode(Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {floats(image)}));
    add("log_sum_exp" + of, reduce(),
        OneNode(Reduce{ReduceFn::kLogSumExp, {1}, true, false, false}, {floats(image)}));
    add("arg_max" + of, reduce(), OneNode(ArgReduce{true, 1, true, false}, {floats(image)}));
    add("softmax" + of, softmax(), OneNode(Softmax{1, false, false}, {floats(image)}));
    add("instance_norm" + of, instance_norm(),
        OneNode(InstanceNorm{}, {floats(image), floats({32}), floats({32})}, {1, 2}));
    add("lrn" + of, lrn(), OneNode(Lrn{5, 1e-4, 0.6, 1}, {floats(image)}));
    Resize linear;
    linear.mode = ResizeMode::kLinear;
    linear.sizes = {1, 32, 56, 56};
    linear.scales = {1, 1, 2, 2};
    linear.roi = {0, 0, 0, 0, 1, 1, 1, 1};
    add("linear" + of, resize(), OneNode(linear, {floats(image)}));
    for (const std::int64_t size : {3, 5}) {
      for (const std::int64_t stride : {1, 2}) {
        for (const std::int64_t batch : {1, 64}) {
          Conv conv;
          conv.window = window({size, size}, {stride, stride}, {size / 2, size / 2});
          conv.group = 32;
          add(fmt::format("depthwise{}_s{}_n{}{}", size, stride, batch, of), conv_depthwise(),
              OneNode(conv,
                      {floats({batch, 32, 28, 28}), floats({32, 1, size, size}), floats({32})},
                      {1, 2}));
        }
      }
    }
    ConvTranspose up;
    up.window = window({2, 2}, {2, 2}, {0, 0});
    up.output_padding = {0, 0};
    add("transposed" + of, conv_transpose(),
        OneNode(up, {floats(image), floats({32, 16, 2, 2}), floats({16})}, {1, 2}));
  }
  const Tensor bytes = counting_tensor(DType::kUInt8, image, 1);
  add("cast", pointwise(),
      OneNode(Cast{DType::kFloat64}, {counting_tensor(DType::kInt64, image, 1)}));
  add("integers", pointwise(),
      OneNode(Binary{BinaryFn::kMod},
              {counting_tensor(DType::kInt64, {7}, 1), counting_tensor(DType::kInt64, {7}, 1)}));
  add("relayout_bytes", relayout(), OneNode(Identity{}, {bytes}), true, false);
  add("pad", pad(), OneNode(Pad{PadMode::kReflect, {0, 0, 1, 1, 0, 0, 1, 1}, 0}, {bytes}));
  add("concat", concat(), OneNode(Concat{1}, {bytes, bytes, bytes}));
  add("gather", gather(),
      OneNode(Gather{0}, {counting_tensor(DType::kInt64, {9, 2}, 1),
                          make_tensor<std::int64_t>(DType::kInt64, {1}, {3})}));
  return all;
}

}  // namespace braze::cuda::testing
