// Slice, Split, Pad, Expand, Tile: boxes of the input copied into boxes of the output, in either
// layout.
#include <algorithm>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "kernels/cpu/copy_kernel.hpp"
#include "kernels/cpu/families.hpp"

namespace braze::cpu {
namespace {

struct Context {
  const Plan& plan;
  const Group& group;
  const Node& node;
  View from;
  Operand operand;
  CopyKernel& copy;
};

void add_copies(const Context& in, const Slice& op) {
  const ValueId to_id = stored_output(in.plan.graph, in.group);
  const View to = view_of(in.plan, to_id);
  std::vector<CopyAxis> axes;
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < to.shape.size(); ++axis) {
    axes.push_back({to.shape[axis], op.steps[axis] * in.from.strides[axis], to.strides[axis]});
    offset += op.starts[axis] * in.from.strides[axis];
  }
  in.copy.add(in.operand, output_index(in.group, to_id),
              StridedCopy(to.element_bytes, std::move(axes), offset));
}

void add_copies(const Context& in, const Split& op) {
  const auto axis = static_cast<std::size_t>(op.axis);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    if (const ValueId to_id = stored_output(in.plan.graph, in.group, i); to_id != kNoValue) {
      View part = in.from;
      const View to = view_of(in.plan, to_id);
      part.shape = to.shape;
      in.copy.add(in.operand, part, output_index(in.group, to_id), to, start * part.strides[axis]);
    }
    start += op.sizes[i];
  }
}

/// Axes that the input does not have, or has with extent 1, repeat.
void add_copies(const Context& in, const Expand&) {
  const ValueId to_id = stored_output(in.plan.graph, in.group);
  const View to = view_of(in.plan, to_id);
  const std::size_t missing = to.shape.size() - in.from.shape.size();
  std::vector<CopyAxis> axes;
  for (std::size_t axis = 0; axis < to.shape.size(); ++axis) {
    const bool repeats = axis < missing || in.from.shape[axis - missing] == 1;
    axes.push_back(
        {to.shape[axis], repeats ? 0 : in.from.strides[axis - missing], to.strides[axis]});
  }
  in.copy.add(in.operand, output_index(in.group, to_id),
              StridedCopy(to.element_bytes, std::move(axes)));
}

/// Output index r n + i of an axis of n elements is input index i, whatever the repeat r.
void add_copies(const Context& in, const braze::Tile& op) {
  const ValueId to_id = stored_output(in.plan.graph, in.group);
  const View to = view_of(in.plan, to_id);
  std::vector<CopyAxis> axes;
  for (std::size_t axis = 0; axis < to.shape.size(); ++axis) {
    const std::int64_t extent = in.from.shape[axis];
    axes.push_back({op.repeats[axis], 0, extent * to.strides[axis]});
    axes.push_back({extent, in.from.strides[axis], to.strides[axis]});
  }
  in.copy.add(in.operand, output_index(in.group, to_id),
              StridedCopy(to.element_bytes, std::move(axes)));
}

/// Output indices [to, to + extent) of an axis come from input indices from, from + step, ...; or
/// are filled.
struct Segment {
  std::int64_t to = 0, extent = 0;
  std::int64_t from = 0, step = 1;
  bool filled = false;
};

/// What one axis of a padded array is made of. Negative pads crop first; the others extend what is
/// left.
std::vector<Segment> segments(PadMode mode, std::int64_t extent, std::int64_t begin,
                              std::int64_t end) {
  const std::int64_t first = std::max<std::int64_t>(-begin, 0);
  const std::int64_t kept = extent - first - std::max<std::int64_t>(-end, 0);
  const std::int64_t before = std::max<std::int64_t>(begin, 0);
  const std::int64_t total = extent + begin + end;
  std::vector<Segment> result;
  if (mode == PadMode::kConstant || mode == PadMode::kEdge) {
    const bool fill = mode == PadMode::kConstant;
    result = {{0, before, first, 0, fill},
              {before, kept, first, 1, false},
              {before + kept, total - before - kept, first + kept - 1, 0, fill}};
    std::erase_if(result, [](const Segment& segment) { return segment.extent <= 0; });
    return result;
  }
  // Periodic: wrap repeats the kept elements; reflect goes 0 1 .. n-1 n-2 .. 1, with period 2 (n -
  // 1).
  const std::int64_t period =
      mode == PadMode::kWrap ? kept : std::max<std::int64_t>(2 * (kept - 1), 1);
  for (std::int64_t to = 0; to < total;) {
    const std::int64_t phase = ((to - before) % period + period) % period;
    const bool backward = phase >= kept;
    const std::int64_t rest = backward ? period - phase : kept - phase;
    const Segment segment{to, std::min(rest, total - to),
                          first + (backward ? period - phase : phase), backward ? -1 : 1, false};
    result.push_back(segment);
    to += segment.extent;
  }
  return result;
}

void add_copies(const Context& in, const Pad& op) {
  const ValueId to_id = stored_output(in.plan.graph, in.group);
  const View to = view_of(in.plan, to_id);
  const std::size_t rank = to.shape.size();
  Operand fill;
  fill.constant = make_tensor<double>(in.plan.graph.value(to_id).dtype, {}, {op.value});
  std::vector<std::vector<Segment>> axes;
  std::size_t boxes = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    axes.push_back(segments(op.mode, in.from.shape[axis], op.pads[axis], op.pads[rank + axis]));
    boxes *= axes.back().size();
  }
  for (std::size_t box = 0; box < boxes; ++box) {
    std::vector<CopyAxis> copy;
    std::int64_t from_offset = 0, to_offset = 0;
    bool filled = false;
    std::size_t rest = box;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const Segment& segment = axes[axis][rest % axes[axis].size()];
      rest /= axes[axis].size();
      copy.push_back({segment.extent, segment.step * in.from.strides[axis], to.strides[axis]});
      from_offset += segment.from * in.from.strides[axis];
      to_offset += segment.to * to.strides[axis];
      filled = filled || segment.filled;
    }
    if (filled) {
      from_offset = 0;
      for (CopyAxis& axis : copy) axis.from = 0;
    }
    in.copy.add(filled ? fill : in.operand, output_index(in.group, to_id),
                StridedCopy(to.element_bytes, std::move(copy), from_offset, to_offset));
  }
}

Support supports(const Graph& graph, const Node& node, const Device&) {
  const OpKind kind = node.kind();
  if (kind == OpKind::kPad) {
    const auto& op = *node.as<Pad>();
    const Shape& x = graph.value(node.input(0)).shape;
    double boxes =
        1;  // each is built; more than a few only where an axis is reflected or wrapped many times
    for (std::size_t axis = 0; axis < x.size(); ++axis) {
      boxes *= static_cast<double>(
          segments(op.mode, x[axis], op.pads[axis], op.pads[x.size() + axis]).size());
    }
    constexpr double kMostBoxes = 4096;
    if (boxes > kMostBoxes)
      return Support::no("pad-boxes", "the padding repeats the input too many times");
    return Support::yes();
  }
  if (kind == OpKind::kSlice || kind == OpKind::kSplit || kind == OpKind::kExpand ||
      kind == OpKind::kTile) {
    return Support::yes();
  }
  return Support::no("operator", "copies boxes only");
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  const Node& node = anchor_of(plan.graph, kernel.group);
  auto copy = std::make_unique<CopyKernel>();
  const Context in{plan,
                   kernel.group,
                   node,
                   view_of(plan, node.input(0)),
                   operand_of(plan, kernel.group, node.input(0)),
                   *copy};
  if (const auto* op = node.as<Slice>()) add_copies(in, *op);
  if (const auto* op = node.as<Split>()) add_copies(in, *op);
  if (const auto* op = node.as<Pad>()) add_copies(in, *op);
  if (const auto* op = node.as<Expand>()) add_copies(in, *op);
  if (const auto* op = node.as<braze::Tile>()) add_copies(in, *op);
  return copy;
}

Work work(const Graph& graph, const Group& group, const Candidate&, const Device&) {
  // What is read is at most what is written.
  Work work = streaming_work(graph, group, 0);
  double written = 0;
  for (const ValueId id : group.outputs) written += bytes_of(graph, id);
  work.dram_bytes = std::min(work.dram_bytes, 2 * written);
  return work;
}

}  // namespace

Row slice() {
  KernelFamily family;
  family.name = "slice";
  family.backend = "cpu";
  family.layouts = LayoutRule::kEach;
  family.pitched = true;
  family.supports = supports;
  family.candidates = only_candidate;
  family.work = work;
  return {family, build};
}

}  // namespace braze::cpu
