// Max and average pooling in any layout, 1-D to 3-D.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/device/pool_parameters.h"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/window.hpp"

namespace braze::cuda {
namespace {

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.as<Pool>() == nullptr) return Support::no("op", "only Pool");
  const Value& x = graph.value(node.inputs[0]);
  if (!is_float(x.dtype) || x.dtype == DType::kFloat64)
    return Support::no("dtype", fmt::format("pools {}; takes float", to_string(x.dtype)));
  if (x.shape.size() < 3 || x.shape.size() > 5)
    return Support::no("rank", "takes one to three spatial axes");
  if (node.output(1) != kNoValue)
    return Support::no("indices", "the indices of the maxima are asked for");
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = cpu::anchor_of(graph, group);
  const double outputs = static_cast<double>(element_count(graph.value(node.outputs[0]).shape));
  const double taps = static_cast<double>(element_count(node.as<Pool>()->window.kernel));
  return cpu::streaming_work(graph, group, outputs * taps, 0.2);
}

/// How much a thread makes: `vector` channels of `pixels` adjacent pixels. `window`: by
/// pool_window.
struct Share {
  int vector = 1, pixels = 1;
  bool window = false;
};

Share share_of(const Plan& plan, ValueId x_id, ValueId y_id, const ImageAxes& x, const ImageAxes& y,
               const device::PoolParameters& p) {
  Share share;
  const DType x_type = plan.graph.value(x_id).dtype, y_type = plan.graph.value(y_id).dtype;
  int widest = std::max(size_of(x_type), size_of(y_type)) == 4 ? 4 : 8;
  for (; widest > 1 && share.vector == 1; widest /= 2) {
    if (takes_vectors(plan, x_id, widest) && takes_vectors(plan, y_id, widest))
      share.vector = widest;
  }
  const std::int64_t outputs = y.n * y.channels * y.extent[0] * y.extent[1] * y.extent[2];
  // Few outputs: narrower vectors for more threads.
  while (share.vector > 2 && outputs / share.vector < 64LL * plan.device.units) share.vector /= 2;
  constexpr int kMostHeight = 5, kMostWidth = 5, kMostColumns = 8;
  share.window = share.vector > 1 && p.in[0] == 1 && p.out[0] == 1 && p.kernel[0] == 1 &&
                 p.pad[0] == 0 && p.kernel[1] <= kMostHeight && p.kernel[2] <= kMostWidth &&
                 offsets_fit(x) && offsets_fit(y);
  if (!share.window || p.dilation[2] != 1 || p.stride[2] >= p.kernel[2]) return share;
  // Neighbouring windows share columns.
  for (const int pixels : {4, 2}) {
    const bool enough = outputs / (share.vector * pixels) >= 1024LL * plan.device.units;
    if (share.pixels == 1 && enough && (pixels - 1) * p.stride[2] + p.kernel[2] <= kMostColumns)
      share.pixels = pixels;
  }
  return share;
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Group::Member& member = group.members.front();
  const Node& node = cpu::anchor_of(plan.graph, group);
  const Pool& op = *node.as<Pool>();
  const ValueId x_id = loaded_value(plan, group, node.inputs[0]), y_id = member.result;
  const ImageAxes x = image_axes(plan, x_id), y = image_axes(plan, y_id);
  const DType x_type = plan.graph.value(x_id).dtype, y_type = plan.graph.value(y_id).dtype;

  Kernel result;
  device::PoolParameters p{};
  p.x_n = x.stride_n;
  p.x_channel = x.stride_channel;
  set_window(p, op.window);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    p.x_axis[axis] = x.stride[axis];
    p.in[axis] = x.extent[axis];
    p.out[axis] = y.extent[axis];
    p.dilations[axis] = divisor_of(p.dilation[axis]);
    if (!op.count_include_pad) continue;
    const std::size_t missing = 3 - op.window.kernel.size();
    p.counted[axis] = p.in[axis] + p.pad[axis];
    if (axis >= missing) p.counted[axis] += static_cast<int>(op.window.pads_end[axis - missing]);
  }
  p.x_row = static_cast<int>(x.stride[1]);
  p.x_pixel = static_cast<int>(x.stride[2]);
  p.y_pixel = static_cast<int>(y.stride[2]);
  const Share share = share_of(plan, x_id, y_id, x, y, p);
  const std::int64_t vectors = (y.channels + share.vector - 1) / share.vector,
                     runs = (y.extent[2] + share.pixels - 1) / share.pixels;
  p.vectors = divisor_of(vectors);
  p.runs = divisor_of(runs);
  p.rows = divisor_of(y.extent[1]);
  p.planes = divisor_of(y.extent[0]);
  p.threads = vectors * runs * y.extent[1] * y.extent[0] * y.n;
  EpilogueEmitter epilogue(plan, kernel, result, share.vector);
  epilogue.add_steps(member);
  p.e = epilogue.parameters();
  p.y = output_parameters(plan, y_id);
  const int threads = threads_for(p.threads, plan.device);
  const std::string types =
      fmt::format("{}, {}, {}", device_type(x_type), device_type(y_type), op.fn == PoolFn::kMax);
  const std::string last = fmt::format("{}, {}, Epilogue", index_type(p.threads), threads);
  const bool pixels_together = y.stride_channel != 1 || y.channels == 1;
  const std::string call =
      share.window
          ? fmt::format("pool_window<{}, {}, {}, {}, {}, {}, {}>", types, p.kernel[1], p.kernel[2],
                        share.pixels > 1 ? p.stride[2] : 1, share.vector, share.pixels, last)
          : fmt::format("pool<{}, {}, Store::{}, {}, {}>", types, share.vector,
                        share.vector > 1 ? "kVector" : "kEach", pixels_together, last);
  emit(result, "pool", {"pool.cuh"}, epilogue.source(), "PoolParameters", call, threads);
  result.grid.x = p.threads == 0 ? 0 : blocks_for(p.threads, threads);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, node.inputs[0], result));
  parameters.point(p.y.data, {Address::Of::kOutput, cpu::output_index(group, y_id), 0});
  epilogue.point(parameters, p.e);
  parameters.move_to(result);
  return result;
}

}  // namespace

Row pool() {
  KernelFamily family = image_family("pool");
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
