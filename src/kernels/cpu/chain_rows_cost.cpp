// What a group takes that runs row by row.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph/window.hpp"
#include "kernels/cpu/chain_rows.hpp"

namespace braze::cpu {
namespace {

/// The families whose kernels run row by row, in order of preference.
const std::array<Row, 3>& part_rows() {
  static const std::array<Row, 3> rows = {conv_depthwise(), conv_direct(), pool()};
  return rows;
}

/// Cycles of a call of a member beside its arithmetic, but for the one that its own kernel has too:
/// its taps, the fill of its ring, weights and code that other members have driven out of the L1.
/// Measured on Zen 4, blocks of MobileNetV2.
constexpr double kCall = 1800;

/// Workers do not keep the same pace: part of the last task's time that others wait for it.
constexpr double kUneven = 0.04;

}  // namespace

const Row* row_of(const Graph& graph, const Node& node, const Device& device) {
  for (const Row& row : part_rows()) {
    if (row.family.supports(graph, node, device).ok) return &row;
  }
  return nullptr;
}

Tiling chain_rows_tiling(const Graph& graph, const Group& group, const Candidate& candidate,
                         const Device&) {
  const Shape& shape = graph.value(group.members.back().result).shape;
  const std::int64_t rows = std::clamp<std::int64_t>(candidate.get("rows", 1), 1, shape[2]);
  return {.rows = rows,
          .columns = shape[3],
          .band = std::clamp<std::int64_t>(candidate.get("band", shape[2]), rows, shape[2])};
}

double step_bytes(const GroupTiles& tiles, std::int64_t rows) {
  const auto extents = tiles.extents(rows, 1);
  double bytes = 0;
  for (std::size_t i = 0; i < tiles.images().size(); ++i) {
    const GroupTiles::Image& image = tiles.images()[i];
    bytes += static_cast<double>(std::min(extents[i][0], image.extent[0]) * image.extent[1] *
                                 image.pixel_bytes);
  }
  return bytes;
}

Work chain_rows_work(const Graph& graph, const Group& group, const Candidate& candidate,
                     const Device& device) {
  const GroupTiles tiles = *GroupTiles::of(graph, group, nullptr);
  const Tiling tile = chain_rows_tiling(graph, group, candidate, device);
  const std::vector<double> computed = tiles.recomputed(tile.band, tile.columns);
  const auto images = static_cast<double>(tiles.batch());
  const auto pixels_of = [](const GroupTiles::Image& image) {
    return static_cast<double>(image.extent[0]) * static_cast<double>(image.extent[1]);
  };

  double weights = 0;
  for (const Group::Member& member : group.members) {
    for (const ValueId id : graph.node(member.anchor).inputs) {
      if (id != kNoValue && graph.value(id).is_constant()) weights += bytes_of(graph, id);
    }
  }
  const double cores = std::max(1, device.units);
  const double clock = device.onchip_bandwidth / (32 * cores);  // as in cpu_device()
  const double buffers = step_bytes(tiles, tile.rows);
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
      traffic += share * bytes /
                 (image.made && &image != &tiles.result() ? device.onchip_bandwidth : outside);
    };
    for (const GroupTiles::Read& read : tiles.members()[m].reads)
      add(tiles.images()[read.image], computed[m]);
    const GroupTiles::Image& result = tiles.images()[tiles.members()[m].image];
    add(result, computed[m]);
    if (result.stored && m + 1 < group.members.size()) {  // a copy, after the arithmetic
      seconds += pixels_of(result) * static_cast<double>(result.pixel_bytes) * images /
                 std::min(outside, device.onchip_bandwidth);
    }
    seconds += std::max(arithmetic, traffic) + kCall * std::max(0.0, steps / cores - 1) / clock;
    work.flops += one.flops * computed[m];
  }
  if (!kept) seconds += weights * steps / device.cache_bandwidth;
  // Bands that do not share out evenly among the workers.
  const double tasks = images * bands;
  seconds *= std::ceil(tasks / cores) * cores / tasks;
  if (cores > 1) seconds *= 1 + kUneven * cores / tasks;
  work.efficiency = work.flops / (seconds * device.flops_fp32);
  return work;
}

}  // namespace braze::cpu
