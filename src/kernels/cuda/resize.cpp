// Resize: nearest along any axes as a copy through tables, linear and cubic along spatial axes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"
#include "graph/resize.hpp"
#include "kernels/cpu/group.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/copy_tables.hpp"
#include "kernels/cuda/device/copy_parameters.h"
#include "kernels/cuda/device/resize_parameters.h"
#include "kernels/cuda/families.hpp"
#include "kernels/cuda/window.hpp"

namespace braze::cuda {
namespace {

using Taps = std::vector<std::vector<ResizeTap>>;

bool is_identity(const Taps& axis, std::int64_t extent) {
  if (std::ssize(axis) != extent) return false;
  for (std::int64_t i = 0; i < extent; ++i) {
    const std::vector<ResizeTap>& taps = axis[static_cast<std::size_t>(i)];
    if (taps.size() != 1 || taps[0].index != i || taps[0].weight != 1) return false;
  }
  return true;
}

Support supports(const Graph& graph, const Node& node, const Device&) {
  const auto* op = node.as<Resize>();
  if (op == nullptr) return Support::no("operator", "runs Resize only");
  const Value& x = graph.value(node.input(0));
  if (op->mode == ResizeMode::kNearest) {
    return x.shape.size() <= device::kCopyAxes ? Support::yes()
                                               : Support::no("rank", "more than 8 axes");
  }
  if (x.shape.size() < 3 || x.shape.size() > 5)
    return Support::no("rank", "interpolates images of one to three spatial axes");
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (!is_identity(resize_taps(*op, axis, x.shape[axis]), x.shape[axis]))
      return Support::no("axes", "interpolates along spatial axes only");
  }
  if (!is_float(x.dtype) || x.dtype == DType::kFloat64)
    return Support::no("dtype", fmt::format("interpolates float, not {}", to_string(x.dtype)));
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  const Node& node = cpu::anchor_of(graph, group);
  const auto elements = static_cast<double>(element_count(graph.value(node.output()).shape));
  const ResizeMode mode = node.as<Resize>()->mode;
  const double taps = mode == ResizeMode::kNearest ? 0 : mode == ResizeMode::kLinear ? 4 : 16;
  return cpu::streaming_work(graph, group, 2 * taps * elements, 0.3);
}

Kernel build_nearest(const Plan& plan, const KernelPlan& kernel, const Node& node) {
  const auto& op = *node.as<Resize>();
  const Shape& shape = plan.graph.value(node.input(0)).shape;
  std::vector<AxisTable> tables;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const Taps taps = resize_taps(op, axis, shape[axis]);
    AxisTable table;
    if (!is_identity(taps, shape[axis])) {
      table.emplace();
      for (const auto& element : taps) table->push_back(element.empty() ? -1 : element[0].index);
    }
    tables.push_back(std::move(table));
  }
  return build_table_copy(plan, kernel, tables, op.extrapolation);
}

template <class T>
Address add_table(Kernel& kernel, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return add_constant(kernel, std::move(bytes));
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Group& group = kernel.group;
  const Node& node = cpu::anchor_of(plan.graph, group);
  const auto& op = *node.as<Resize>();
  if (op.mode == ResizeMode::kNearest) return build_nearest(plan, kernel, node);
  const ValueId x_id = node.input(0), y_id = cpu::stored_output(plan.graph, group);
  const Shape& shape = plan.graph.value(x_id).shape;
  const ImageAxes x = image_axes(plan, x_id), y = image_axes(plan, y_id);
  const DType dtype = plan.graph.value(x_id).dtype;
  const std::int64_t outputs = y.n * y.channels * y.extent[0] * y.extent[1] * y.extent[2];
  int vector = 1;
  for (int v = dtype == DType::kFloat32 ? 4 : 8; v > 1 && vector == 1; v /= 2) {
    if (takes_vectors(plan, x_id, v) && takes_vectors(plan, y_id, v)) vector = v;
  }
  while (vector > 2 && outputs / vector < 64LL * plan.device.units) vector /= 2;

  Kernel result;
  device::ResizeParameters p{};
  p.x_n = x.stride_n;
  p.x_channel = x.stride_channel;
  p.extrapolation = static_cast<float>(op.extrapolation);
  p.y = output_parameters(plan, y_id);
  p.threads = outputs / vector;
  std::array<std::array<Address, 3>, 3> tables;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::size_t missing = 5 - shape.size();
    const std::size_t own = axis + 2 - missing;
    const Taps taps = axis < missing ? Taps{{ResizeTap{}}} : resize_taps(op, own, shape[own]);
    std::size_t most = 1;
    for (const auto& element : taps) most = std::max(most, element.size());
    std::vector<int> count, index(taps.size() * most);
    std::vector<float> weight(taps.size() * most);
    for (std::size_t o = 0; o < taps.size(); ++o) {
      count.push_back(static_cast<int>(taps[o].size()));
      for (std::size_t t = 0; t < taps[o].size(); ++t) {
        index[o * most + t] = static_cast<int>(taps[o][t].index);
        weight[o * most + t] = static_cast<float>(taps[o][t].weight);
      }
    }
    p.axis[axis].x = x.stride[axis];
    p.axis[axis].out = y.extent[axis];
    p.axis[axis].taps = static_cast<int>(most);
    tables[axis] = {add_table(result, count), add_table(result, index), add_table(result, weight)};
  }
  const int threads = threads_for(p.threads, plan.device);
  emit(result, "resize", {"resize.cuh"}, "", "ResizeParameters",
       fmt::format("resize<{0}, {1}, {2}, Store::{3}, {4}, {5}, {6}>", device_type(dtype),
                   device_type(plan.graph.value(y_id).dtype), vector,
                   vector > 1 ? "kVector" : "kEach", y.stride_channel != 1 || y.channels == 1,
                   index_type(p.threads), threads),
       threads);
  result.grid.x = p.threads == 0 ? 0 : blocks_for(p.threads, threads);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, group, x_id, result));
  parameters.point(p.y.data, {Address::Of::kOutput, cpu::output_index(group, y_id), 0});
  for (std::size_t axis = 0; axis < 3; ++axis) {
    parameters.point(p.axis[axis].count, tables[axis][0]);
    parameters.point(p.axis[axis].index, tables[axis][1]);
    parameters.point(p.axis[axis].weight, tables[axis][2]);
  }
  parameters.move_to(result);
  return result;
}

}  // namespace

Row resize() {
  KernelFamily family;
  family.name = "resize";
  family.backend = "cuda";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
