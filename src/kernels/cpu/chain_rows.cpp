#include "kernels/cpu/chain_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "graph/window.hpp"
#include "kernels/cpu/families.hpp"

namespace braze::cpu {
namespace {

/// The families whose kernels run row by row, in order of preference.
const std::array<Row, 3>& part_rows() {
  static const std::array<Row, 3> rows = {conv_depthwise(), conv_direct(), pool()};
  return rows;
}

/// The row that runs a member; null: none of them.
const Row* row_of(const Graph& graph, const Node& node, const Device& device) {
  for (const Row& row : part_rows()) {
    if (row.family.supports(graph, node, device).ok) return &row;
  }
  return nullptr;
}

bool is_constant(const Graph& graph, const Node& node, std::size_t i) {
  return node.input(i) == kNoValue || graph.value(node.input(i)).is_constant();
}

Support takes_member(const Graph& graph, const Group::Member& member, const Device& device) {
  const Node& node = graph.node(member.anchor);
  if (node.kind() == OpKind::kConv &&
      (!is_constant(graph, node, 1) || !is_constant(graph, node, 2)))
    return Support::no("weights",
                       fmt::format("weights or bias of '{}' arrive at run time", node.id));
  if (row_of(graph, node, device) == nullptr && !is_row_pointwise(graph, node))
    return Support::no("", "");
  for (const EpilogueStep& step : member.epilogue.steps) {
    if (step.cast) return Support::no("", "");
  }
  return Support::yes();
}

Support joins(const Graph& graph, const Group& group, const Device& device) {
  int convolutions = 0;
  for (const Group::Member& member : group.members) {
    const Support support = takes_member(graph, member, device);
    if (!support.ok) return support;
    convolutions += graph.node(member.anchor).kind() == OpKind::kConv ? 1 : 0;
  }
  // Between kernels that only pass over their bytes there is nothing to keep from memory that an
  // epilogue does not.
  if (convolutions == 0 || !group.casts.empty()) return Support::no("", "");
  if (group.outputs.size() != 1 || group.outputs[0] != group.members.back().result)
    return Support::no("", "");
  std::string why;
  const std::optional<GroupTiles> tiles = GroupTiles::of(graph, group, &why);
  if (!tiles) return Support::no("", "");
  for (std::size_t m = 0; m < group.members.size(); ++m) {
    if (part_of(graph, group, m).inputs.size() > 8) return Support::no("", "");
  }
  if (tiles->batch() == 0 || tiles->result().extent[0] < 2) return Support::no("", "");
  return Support::yes();
}

Candidate candidate(std::int64_t rows, std::int64_t band) {
  return {{{"rows", rows}, {"band", band}}};
}

Tiling tiling(const Graph& graph, const Group& group, const Candidate& candidate, const Device&) {
  const Shape& shape = graph.value(group.members.back().result).shape;
  const std::int64_t rows = std::clamp<std::int64_t>(candidate.get("rows", 1), 1, shape[2]);
  return {.rows = rows,
          .columns = shape[3],
          .band = std::clamp<std::int64_t>(candidate.get("band", shape[2]), rows, shape[2])};
}

/// Convolutions of the direct family read and write either layout, and so does an epilogue read its
/// operands; all others are channels-last.
std::optional<Layout> layout_of(const Graph& graph, const Group& group, ValueId id,
                                const Device& device) {
  for (const Group::Member& member : group.members) {
    const Node& node = graph.node(member.anchor);
    const bool touched =
        member.result == id || std::ranges::find(node.inputs, id) != node.inputs.end();
    const Row* row = row_of(graph, node, device);
    if (touched && (row == nullptr || row->family.layouts != LayoutRule::kEach))
      return Layout::kChannelsLast;
  }
  return std::nullopt;
}

/// Rows at once: more of them read weights less often, fewer keep intermediates nearer; all of a
/// band are what the members' own kernels would do, one after another. Bands: as
/// many as give each worker one, two or four.
std::vector<Candidate> candidates(const Graph& graph, const Group& group, const Device& device) {
  const Shape& shape = graph.value(group.members.back().result).shape;
  const std::int64_t height = shape[2];
  std::vector<std::int64_t> bands;
  for (const std::int64_t share : {1, 2, 4}) {
    const std::int64_t wanted = device.units == 1 ? 1 : ceil_div(device.units * share, shape[0]);
    const std::int64_t band = ceil_div(height, std::min(wanted, height));
    if (std::ranges::find(bands, band) == bands.end()) bands.push_back(band);
  }
  std::vector<Candidate> list;
  for (const std::int64_t band : bands) {
    std::int64_t last = 0;
    for (const std::int64_t wanted : {2, 4, 8, 16, 1 << 30}) {
      const std::int64_t rows = ceil_div(band, ceil_div(band, wanted));  // equal steps
      if (rows != last) list.push_back(candidate(rows, band));
      last = rows;
    }
  }
  return list;
}

/// Cycles of a call of a member beside its arithmetic: its taps, the fill of its ring, weights and
/// code that other members have driven out of the L1. Measured on Zen 4, blocks of MobileNetV2.
constexpr double kCall = 2600;

/// Sums, over the members, the longer of arithmetic and traffic of what each computes, where
/// intermediates are in the L2 if all buffers fit; weights come from further away for each step if
/// they do not fit beside them.
Work work(const Graph& graph, const Group& group, const Candidate& candidate,
          const Device& device) {
  const GroupTiles tiles = *GroupTiles::of(graph, group, nullptr);
  const Tiling tile = tiling(graph, group, candidate, device);
  const std::vector<double> computed = tiles.recomputed(tile.band, tile.columns);
  const auto extents = tiles.extents(tile.rows, 1);
  const auto images = static_cast<double>(tiles.batch());
  const auto pixels_of = [](const GroupTiles::Image& image) {
    return static_cast<double>(image.extent[0]) * static_cast<double>(image.extent[1]);
  };

  double buffers = 0, weights = 0;
  for (std::size_t i = 0; i < tiles.images().size(); ++i) {
    const GroupTiles::Image& image = tiles.images()[i];
    buffers += static_cast<double>(extents[i][0] * image.extent[1] * image.pixel_bytes);
  }
  for (const Group::Member& member : group.members) {
    for (const ValueId id : graph.node(member.anchor).inputs) {
      if (id != kNoValue && graph.value(id).is_constant()) weights += bytes_of(graph, id);
    }
  }
  const double cores = std::max(1, device.units);
  const double clock = device.onchip_bandwidth / (32 * cores);  // as in cpu_device()
  const bool near = buffers < 0.75 * device.onchip_bytes;
  const double inside = near ? device.onchip_bandwidth : device.cache_bandwidth;
  const double outside = bytes_moved(graph, group) < device.cache_bytes ? device.cache_bandwidth
                                                                        : device.dram_bandwidth;
  const bool kept = buffers + weights < device.onchip_bytes;
  const auto bands = static_cast<double>(ceil_div(tiles.result().extent[0], tile.band));
  const auto steps = images * bands * static_cast<double>(ceil_div(tile.band, tile.rows));

  Work work;
  double seconds = 0;
  for (std::size_t m = 0; m < group.members.size(); ++m) {
    const Node& node = graph.node(group.members[m].anchor);
    const Group part = part_of(graph, group, m);
    Work one = streaming_work(graph, part, 0);
    if (const Row* row = row_of(graph, node, device))
      one = row->family.work(graph, part, Candidate{}, device);
    const double arithmetic = one.flops * computed[m] / (one.efficiency * device.flops_fp32);
    double traffic = 0;
    const auto add = [&](const GroupTiles::Image& image, double share) {
      const double bytes = pixels_of(image) * static_cast<double>(image.pixel_bytes) * images;
      traffic += share * bytes / (image.made && !image.stored ? inside : outside);
    };
    for (const GroupTiles::Read& read : tiles.members()[m].reads)
      add(tiles.images()[read.image], computed[m]);
    add(tiles.images()[tiles.members()[m].image], computed[m]);
    seconds += std::max(arithmetic, traffic) + kCall * steps / cores / clock;
    work.flops += one.flops * computed[m];
  }
  if (!kept) seconds += weights * steps / cores / (device.cache_bandwidth / cores);
  // Bands that do not share out evenly among the workers.
  const double tasks = images * bands;
  seconds *= std::ceil(tasks / cores) * cores / tasks;
  work.efficiency = work.flops / (seconds * device.flops_fp32);
  return work;
}

std::unique_ptr<Kernel> build(const Plan& plan, const KernelPlan& kernel) {
  std::vector<std::unique_ptr<RowKernel>> parts;
  for (std::size_t m = 0; m < kernel.group.members.size(); ++m) {
    KernelPlan part;
    part.group = part_of(plan.graph, kernel.group, m);
    const Node& node = plan.graph.node(kernel.group.members[m].anchor);
    const Row* row = row_of(plan.graph, node, plan.device);
    if (row == nullptr) {
      parts.push_back(row_pointwise(plan, part));
      continue;
    }
    std::unique_ptr<Kernel> built = row->build(plan, part);
    auto* const rows = dynamic_cast<RowKernel*>(built.get());
    ensure(rows != nullptr, "a member's kernel runs row by row");
    static_cast<void>(built.release());
    parts.emplace_back(rows);
  }
  const Tiling tile = tiling(plan.graph, kernel.group, kernel.candidate, plan.device);
  return chain_rows_kernel(plan, kernel, tile, std::move(parts));
}

}  // namespace

Row chain_rows() {
  KernelFamily family;
  family.name = "chain_rows";
  family.backend = "cpu";
  family.layouts = LayoutRule::kChannelsLast;
  family.epilogue = true;
  family.pitched = true;
  family.supports = [](const Graph&, const Node&, const Device&) {
    return Support::no("", "runs groups of several members only");
  };
  family.joins = joins;
  family.candidates = candidates;
  family.work = work;
  family.layout_of = layout_of;
  family.tiling = tiling;
  return {family, build};
}

}  // namespace braze::cpu
