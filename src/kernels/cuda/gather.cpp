// Gather along one axis, model layout.
#include <fmt/format.h>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/copy_emitter.hpp"
#include "kernels/cuda/device/gather_parameters.h"
#include "kernels/cuda/families.hpp"

namespace braze::cuda {
namespace {

Support supports(const Graph& graph, const Node& node, const Device&) {
  if (node.kind() != OpKind::kGather) return Support::no("operator", "runs Gather only");
  const Shape& x = graph.value(node.input(0)).shape;
  const std::int64_t extent = x[static_cast<std::size_t>(node.as<Gather>()->axis)];
  if (extent == 0) return Support::no("empty-axis", "there is nothing to pick from");
  const Value& indices = graph.value(node.input(1));
  if (!indices.is_constant()) return Support::yes();
  for (const std::int64_t index : load<std::int64_t>(*indices.constant)) {
    if (index < -extent || index >= extent)
      return Support::no("index", fmt::format("index {} is outside of {} elements", index, extent));
  }
  return Support::yes();
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  Work work;
  work.dram_bytes = 2 * cpu::bytes_of(graph, group.outputs[0]);
  return work;
}

Kernel build(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = cpu::anchor_of(plan.graph, kernel.group);
  const ValueId x_id = node.input(0), index_id = node.input(1);
  const Value& x = plan.graph.value(x_id);
  const Value& indices = plan.graph.value(index_id);
  const auto axis = static_cast<std::size_t>(node.as<Gather>()->axis);
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  std::int64_t run = 1;
  for (std::size_t i = axis + 1; i < x.shape.size(); ++i) run *= x.shape[i];
  const std::int64_t count = element_count(plan.graph.value(kernel.group.outputs[0]).shape);
  const auto offset = [&](ValueId id) {
    return plan.graph.value(id).is_constant()
               ? 0
               : plan.placements[static_cast<std::size_t>(id)].offset;
  };
  const std::vector<cpu::CopyAxis> lines = {{run, size, size}};
  const std::int64_t unit = widest(size, lines, offset(x_id), offset(kernel.group.outputs[0]));
  device::GatherParameters p{};
  p.count = count * size / unit;
  p.picks = element_count(indices.shape);
  p.run = run * size / unit;
  p.extent = x.shape[axis];
  Kernel result;
  const int threads = threads_for(p.count, plan.device);
  emit(result, "gather", {"gather.cuh"}, "", "GatherParameters",
       fmt::format("gather<{}, {}, {}, {}>", bits_type(unit), element_type(indices.dtype),
                   index_type(p.count), threads),
       threads);
  result.grid.x = p.count == 0 ? 0 : blocks_for(p.count, threads);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.x, address_of(plan, kernel.group, x_id, result));
  parameters.point(p.index, address_of(plan, kernel.group, index_id, result));
  parameters.point(p.y, {Address::Of::kOutput, 0, 0});
  parameters.move_to(result);
  return result;
}

}  // namespace

Row gather() {
  KernelFamily family;
  family.name = "gather";
  family.backend = "cuda";
  family.layouts = LayoutRule::kModelOnly;
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cuda
