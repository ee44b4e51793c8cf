#include <algorithm>

#include "kernels/cpu/chain_rows.hpp"
#include "plan/parts.hpp"

namespace braze::cpu {
namespace {

/// Follows the steps of one band, image by image.
class Walk {
 public:
  /// capacity: by image, rows that its buffer holds.
  Walk(const GroupTiles& tiles, std::vector<std::int64_t> capacity)
      : tiles_(tiles),
        capacity_(std::move(capacity)),
        base_(tiles.images().size()),
        end_(tiles.images().size(), kNothing) {}

  RowSchedule::Step step(const Interval& rows) {
    const std::vector<Region> needed =
        tiles_.needed({rows, Interval{0, tiles_.result().extent[1]}});
    RowSchedule::Step step;
    for (const GroupTiles::Member& member : tiles_.members()) {
      const std::size_t image = member.image;
      const Interval& need = needed[image][0];
      step.rows.push_back(advance(image, need, step.shifts));
    }
    step.base = base_;
    return step;
  }

 private:
  static constexpr std::int64_t kNothing = -1;

  /// The rows to be computed so that `need` is there.
  Interval advance(std::size_t image, const Interval& need,
                   std::vector<RowSchedule::Shift>& shifts) {
    std::int64_t& base = base_[image];
    std::int64_t& end = end_[image];
    if (need.size() == 0) return {};
    if (end == kNothing) base = end = need.begin;
    const Interval rows = {std::max(end, need.begin), std::max(end, need.end)};
    if (rows.end - base > capacity_[image]) {
      const std::int64_t kept = std::max<std::int64_t>(0, end - need.begin);
      if (kept > 0) shifts.push_back({image, need.begin - base, kept});
      base = need.begin;
    }
    end = rows.end;
    return rows;
  }

  const GroupTiles& tiles_;
  std::vector<std::int64_t> capacity_;
  std::vector<std::int64_t> base_, end_;  // by image: rows [base, end) are there
};

std::vector<RowSchedule::Band> bands_of(const GroupTiles& tiles, const Tiling& tiling,
                                        const std::vector<std::int64_t>& capacity) {
  const std::int64_t extent = tiles.result().extent[0];
  std::vector<RowSchedule::Band> bands;
  for (std::int64_t begin = 0; begin < extent; begin += tiling.band) {
    const std::int64_t end = std::min(begin + tiling.band, extent);
    Walk walk(tiles, capacity);
    RowSchedule::Band& band = bands.emplace_back();
    for (std::int64_t row = begin; row < end; row += tiling.rows)
      band.steps.push_back(walk.step({row, std::min(row + tiling.rows, end)}));
  }
  // A band stores what it needs first up to what the next one needs first.
  for (std::size_t b = 0; b < bands.size(); ++b) {
    const std::int64_t begin = static_cast<std::int64_t>(b) * tiling.band;
    const Interval columns = {0, tiles.result().extent[1]};
    const auto first = tiles.needed({Interval{begin, begin + 1}, columns});
    const auto next =
        tiles.needed({Interval{begin + tiling.band, begin + tiling.band + 1}, columns});
    for (std::size_t i = 0; i < tiles.images().size(); ++i) {
      const bool last = b + 1 == bands.size();
      bands[b].owned.push_back(
          {b == 0 ? 0 : first[i][0].begin, last ? tiles.images()[i].extent[0] : next[i][0].begin});
    }
  }
  return bands;
}

}  // namespace

RowSchedule row_schedule(const GroupTiles& tiles, const Tiling& tiling) {
  // Rows that are needed at once, and the most that a step adds: with room for one more step, rows
  // move every other step.
  std::vector<std::int64_t> capacity(tiles.images().size());
  const std::int64_t extent = tiles.result().extent[0];
  for (std::int64_t band = 0; band < extent; band += tiling.band) {
    const std::int64_t end = std::min(band + tiling.band, extent);
    for (std::int64_t row = band; row < end; row += tiling.rows) {
      const Interval rows = {row, std::min(row + tiling.rows, end)};
      const std::vector<Region> needed =
          tiles.needed({rows, Interval{0, tiles.result().extent[1]}});
      for (const GroupTiles::Member& member : tiles.members())
        capacity[member.image] = std::max(capacity[member.image], needed[member.image][0].size());
    }
  }
  const std::vector<std::array<std::int64_t, 2>> once = tiles.extents(1, 1);
  const std::vector<std::array<std::int64_t, 2>> next = tiles.extents(1 + tiling.rows, 1);
  RowSchedule schedule;
  for (const GroupTiles::Member& member : tiles.members()) {
    const std::size_t image = member.image;
    const std::int64_t added = next[image][0] - once[image][0];
    if (capacity[image] > added)
      capacity[image] = std::min(capacity[image] + added, tiles.images()[image].extent[0]);
  }
  capacity[tiles.members().back().image] = tiling.rows;
  schedule.bands = bands_of(tiles, tiling, capacity);
  capacity[tiles.members().back().image] = 0;
  schedule.capacity = std::move(capacity);
  return schedule;
}

const Node* zipped_concat(const Graph& graph, const Group& group, const Node& node) {
  if (node.as<ChannelShuffle>() == nullptr) return nullptr;
  for (const Group::Member& member : group.members) {
    const Node& concat = graph.node(member.anchor);
    if (member.result == node.inputs[0] && is_zipped(graph, group, concat)) return &concat;
  }
  return nullptr;
}

Group part_of(const Graph& graph, const Group& group, std::size_t index) {
  Group part;
  part.members = {group.members[index]};
  part.outputs = {group.members[index].result};
  const auto read = [&](ValueId id) {
    if (id != kNoValue && !graph.value(id).is_constant() &&
        std::ranges::find(part.inputs, id) == part.inputs.end())
      part.inputs.push_back(id);
  };
  const Node& node = graph.node(part.members[0].anchor);
  const Node* const concat = zipped_concat(graph, group, node);
  for (const ValueId id : concat != nullptr ? concat->inputs : node.inputs) read(id);
  for (const EpilogueStep& step : part.members[0].epilogue.steps) read(step.operand);
  return part;
}

}  // namespace braze::cpu
