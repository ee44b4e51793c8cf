#include "kernels/cuda/copy_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "kernels/cuda/box.hpp"
#include "kernels/cuda/copy_emitter.hpp"
#include "kernels/cuda/families.hpp"

namespace braze::cuda {
namespace {

/// Where each element of a padded axis comes from. Negative pads crop first; the others extend what
/// is left.
AxisTable pad_table(PadMode mode, std::int64_t extent, std::int64_t begin, std::int64_t end) {
  if (begin == 0 && end == 0) return std::nullopt;
  const std::int64_t first = std::max<std::int64_t>(-begin, 0);
  const std::int64_t kept = extent - first - std::max<std::int64_t>(-end, 0);
  const std::int64_t before = std::max<std::int64_t>(begin, 0);
  const std::int64_t period =
      mode == PadMode::kReflect ? std::max<std::int64_t>(2 * (kept - 1), 1) : kept;
  std::vector<std::int64_t> table;
  for (std::int64_t o = 0; o < extent + begin + end; ++o) {
    std::int64_t i = o - before;
    if (mode == PadMode::kConstant) {
      table.push_back(i < 0 || i >= kept ? -1 : first + i);
      continue;
    }
    if (mode == PadMode::kEdge) {
      i = std::clamp<std::int64_t>(i, 0, kept - 1);
    } else {
      i = (i % period + period) % period;
      if (i >= kept) i = period - i;
    }
    table.push_back(first + i);
  }
  return table;
}

Support supports(const Graph& graph, const Node& node, const Device&) {
  const auto* op = node.as<Pad>();
  if (op == nullptr) return Support::no("operator", "runs Pad only");
  const Shape& x = graph.value(node.input(0)).shape;
  if (x.size() > device::kCopyAxes) return Support::no("rank", "more than 8 axes");
  if (element_count(x) == 0 && op->mode != PadMode::kConstant)
    return Support::no("empty", "there is nothing to repeat");
  return Support::yes();
}

}  // namespace

Kernel build_table_copy(const Plan& plan, const KernelPlan& kernel,
                        const std::vector<AxisTable>& tables, double fill) {
  const Node& node = cpu::anchor_of(plan.graph, kernel.group);
  const ValueId from_id = node.input(0), to_id = cpu::stored_output(plan.graph, kernel.group);
  const cpu::View from = cpu::view_of(plan, from_id), to = cpu::view_of(plan, to_id);
  const DType dtype = plan.graph.value(to_id).dtype;
  const std::int64_t size = to.element_bytes;
  Kernel result;
  // Innermost as written first; axes without tables that are one in both are joined.
  struct Axis {
    cpu::CopyAxis axis;
    std::size_t table;
  };
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < to.shape.size(); ++i)
    axes.push_back({{to.shape[i], from.strides[i], to.strides[i]}, i});
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return a.axis.to != b.axis.to ? a.axis.to > b.axis.to : a.table < b.table;
  });
  std::erase_if(axes, [&](const Axis& a) { return a.axis.extent == 1 && !tables[a.table]; });
  for (std::size_t i = axes.size(); i-- > 1;) {
    cpu::CopyAxis &outer = axes[i - 1].axis, &inner = axes[i].axis;
    if (tables[axes[i].table] || tables[axes[i - 1].table] ||
        outer.from != inner.from * inner.extent || outer.to != inner.to * inner.extent)
      continue;
    inner.extent *= outer.extent;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
  std::vector<cpu::CopyAxis> boxes;
  for (const Axis& axis : axes) boxes.push_back(axis.axis);
  const auto offset = [&](ValueId id) {
    return plan.graph.value(id).is_constant()
               ? 0
               : plan.placements[static_cast<std::size_t>(id)].offset;
  };
  const bool together = !axes.empty() && !tables[axes.back().table];
  const std::int64_t unit = together ? widest(size, boxes, offset(from_id), offset(to_id)) : size;
  device::CopyTablesParameters p{};
  p.axes = static_cast<int>(axes.size());
  p.count = 1;
  std::vector<Address> addresses(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    cpu::CopyAxis axis = axes[i].axis;
    if (i + 1 == axes.size() && unit > size) axis = {axis.extent * size / unit, unit, unit};
    ensure(axis.extent <= std::numeric_limits<int>::max(), "an extent is below 2^31");
    p.axis[i].extent = static_cast<int>(axis.extent);
    p.axis[i].from_stride = axis.from;
    p.axis[i].to_stride = axis.to;
    p.count *= axis.extent;
    if (const AxisTable& table = tables[axes[i].table]) {
      std::vector<std::byte> bytes(table->size() * sizeof(std::int64_t));
      for (std::size_t k = 0; k < table->size(); ++k) {
        const std::int64_t at = (*table)[k] < 0 ? -1 : (*table)[k] * axis.from;
        std::memcpy(bytes.data() + k * sizeof(at), &at, sizeof(at));
      }
      addresses[i] = add_constant(result, std::move(bytes));
    }
  }
  const Tensor value = make_tensor<double>(dtype, {}, {fill});
  for (std::size_t i = 0; i < sizeof(p.fill); ++i)
    p.fill[i] = static_cast<const unsigned char*>(value.data())[i % value.bytes()];
  const int threads = threads_for(p.count, plan.device);
  emit(result, "copy_tables", {"copy_tables.cuh"}, "", "CopyTablesParameters",
       fmt::format("copy_tables<{}, {}, {}>", bits_type(unit), index_type(p.count), threads),
       threads);
  result.grid.x = p.count == 0 ? 0 : blocks_for(p.count, threads);
  result.overlaps = true;
  Parameters parameters(p);
  parameters.point(p.from, address_of(plan, kernel.group, from_id, result));
  parameters.point(p.to, {Address::Of::kOutput, cpu::output_index(kernel.group, to_id), 0});
  for (std::size_t i = 0; i < axes.size(); ++i) parameters.point(p.axis[i].table, addresses[i]);
  parameters.move_to(result);
  return result;
}

Row pad() {
  KernelFamily family;
  family.name = "pad";
  family.backend = "cuda";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = cpu::only_candidate;
  family.work = [](const Graph& graph, const Group& group, const Candidate&, const Device&) {
    return cpu::streaming_work(graph, group, 0);
  };
  return {
      family, [](const Plan& plan, const KernelPlan& kernel) {
        const Node& node = cpu::anchor_of(plan.graph, kernel.group);
        const Pad& op = *node.as<Pad>();
        const Shape& x = plan.graph.value(node.input(0)).shape;
        std::vector<AxisTable> tables;
        for (std::size_t axis = 0; axis < x.size(); ++axis)
          tables.push_back(pad_table(op.mode, x[axis], op.pads[axis], op.pads[x.size() + axis]));
        return build_table_copy(plan, kernel, tables, op.value);
      }};
}

}  // namespace braze::cuda
