#include "plan/tile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "graph/resize.hpp"
#include "graph/window.hpp"
#include "target/image_conv.hpp"

namespace braze {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

RegionRead window_read(const Window& window) {
  RegionRead read;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    read[axis] = {.kernel = window.kernel[axis],
                  .stride = window.strides[axis],
                  .dilation = window.dilations[axis],
                  .pad = window.pads_begin[axis]};
  }
  return read;
}

/// The multiple by which a nearest Resize repeats the elements of an axis; 0 if it does not.
std::int64_t repeat_of(const Resize& resize, std::size_t axis, std::int64_t in, std::int64_t out) {
  if (in == 0 || out % in != 0) return 0;
  const std::int64_t repeat = out / in;
  const std::vector<std::vector<ResizeTap>> taps = resize_taps(resize, axis, in);
  for (std::int64_t o = 0; o < out; ++o) {
    const std::vector<ResizeTap>& of = taps[static_cast<std::size_t>(o)];
    if (of.size() != 1 || of[0].index != o / repeat || of[0].weight != 1) return 0;
  }
  return repeat;
}

/// Operators that compute each pixel of their result from the same pixel of their inputs.
bool is_pixelwise(const Graph& graph, const Node& node) {
  switch (node.kind()) {
    case OpKind::kUnary:
    case OpKind::kBinary:
    case OpKind::kWhere:
    case OpKind::kCast:
    case OpKind::kChannelShuffle:
      return true;
    case OpKind::kConcat:
      return node.as<Concat>()->axis == 1;
    case OpKind::kSplit:
      return node.as<Split>()->axis == 1;
    case OpKind::kSlice: {
      // Along channels only: then it keeps the other extents.
      const auto from = image_shape(graph.value(node.inputs[0]).shape);
      const auto to = image_shape(graph.value(node.output()).shape);
      return from && to && from->n == to->n && from->extent == to->extent;
    }
    default:
      return false;
  }
}

}  // namespace

Interval hull(const Interval& a, const Interval& b) {
  if (a.size() == 0) return b;
  if (b.size() == 0) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

Interval clipped(const Interval& interval, std::int64_t extent) {
  const Interval part = {std::max<std::int64_t>(interval.begin, 0), std::min(interval.end, extent)};
  return part.size() == 0 ? Interval{} : part;
}

Interval AxisRead::of(const Interval& outputs) const {
  if (outputs.size() == 0) return {};
  return {floor_div(outputs.begin, repeat) * stride - pad,
          floor_div(outputs.end - 1, repeat) * stride - pad + window_extent(kernel, dilation)};
}

std::optional<RegionRead> region_read(const Graph& graph, const Node& node, std::size_t index,
                                      std::string* why) {
  const Shape& from = graph.value(node.inputs[index]).shape;
  const Shape& to = graph.value(node.output()).shape;
  const std::optional<ImageShape> in = image_shape(from), out = image_shape(to);
  const auto no = [&](std::string reason) {
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  };
  if (!in || !out || from.size() != to.size())
    return no(fmt::format("'{}' of rank {} is no image of '{}'",
                          graph.value(node.inputs[index]).name, from.size(), node.id));
  if (may_be_image_conv(node.kind()) && index == 0) {
    Support why_not;
    const std::optional<ImageConv> conv = image_conv(graph, node, &why_not);
    return conv ? std::optional(window_read(conv->window)) : no(why_not.reason);
  }
  if (const auto* pool = node.as<Pool>(); pool != nullptr && index == 0)
    return window_read(pool->window);
  if (const auto* resize = node.as<Resize>();
      resize != nullptr && index == 0 && resize->mode == ResizeMode::kNearest) {
    RegionRead read;
    if (from.size() != 4 || repeat_of(*resize, 0, from[0], to[0]) != 1 ||
        repeat_of(*resize, 1, from[1], to[1]) != 1)
      return no(fmt::format("'{}' repeats channels", node.id));
    for (std::size_t axis = 0; axis < 2; ++axis) {
      read[axis].repeat = repeat_of(*resize, axis + 2, from[axis + 2], to[axis + 2]);
      if (read[axis].repeat == 0) return no(fmt::format("'{}' does not repeat pixels", node.id));
    }
    return read;
  }
  if (!is_pixelwise(graph, node))
    return no(fmt::format("'{}' needs more than a window of its input", node.id));
  if (in->extent != out->extent)
    return no(fmt::format("'{}' repeats an operand along an axis", node.id));
  return RegionRead{};
}

std::optional<GroupTiles> GroupTiles::of(const Graph& graph, const Group& group, std::string* why) {
  const auto no = [&](std::string reason) {
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  };
  GroupTiles tiles;
  std::map<ValueId, std::size_t> index;
  const auto image = [&](ValueId id) -> std::size_t {
    const auto [at, added] = index.emplace(id, tiles.images_.size());
    if (added) {
      const Value& value = graph.value(id);
      const ImageShape shape = *image_shape(value.shape);
      tiles.images_.push_back(
          {.id = id,
           .channels = shape.channels,
           .extent = shape.extent,
           .pixel_bytes = shape.channels * static_cast<std::int64_t>(size_of(value.dtype))});
    }
    return at->second;
  };
  for (const Group::Member& one : group.members) {
    const Node& node = graph.node(one.anchor);
    const Shape& shape = graph.value(one.result).shape;
    const std::optional<ImageShape> result = image_shape(shape);
    if (!result)
      return no(fmt::format("the result of '{}' is of rank {}; images are of rank 4, or matrices",
                            node.id, shape.size()));
    if (&one == &group.members.front()) tiles.batch_ = result->n;
    if (result->n != tiles.batch_) return no(fmt::format("'{}' changes the batch", node.id));
    Member member;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || graph.value(id).is_constant()) continue;
      std::string reason;
      const std::optional<RegionRead> read = region_read(graph, node, i, &reason);
      // Weights, scales and broadcast operands that arrive at run time are no images.
      if (!read && !index.contains(id) && i > 0) continue;
      if (!read) return no(reason);
      member.reads.push_back({image(id), *read});
    }
    for (const EpilogueStep& step : one.epilogue.steps) {
      if (step.operand == kNoValue || graph.value(step.operand).is_constant()) continue;
      const std::size_t rank = graph.value(step.operand).shape.size();
      if (step.broadcast == Broadcast::kFull && rank == graph.value(one.result).shape.size()) {
        member.reads.push_back({image(step.operand), RegionRead{}});
      } else if (index.contains(step.operand) && tiles.images_[index[step.operand]].made) {
        return no(fmt::format("'{}' broadcasts what a member makes", graph.node(step.node).id));
      }
    }
    if (member.reads.empty()) return no(fmt::format("'{}' reads no image", node.id));
    member.image = image(one.result);
    tiles.images_[member.image].made = true;
    tiles.images_[member.image].stored =
        std::ranges::find(group.outputs, one.result) != group.outputs.end();
    tiles.members_.push_back(std::move(member));
  }
  for (std::size_t i = 0; i < tiles.images_.size(); ++i) {
    if (!tiles.covers(i))
      return no(fmt::format("'{}' is stored, and strides skip parts of it",
                            graph.value(tiles.images_[i].id).name));
  }
  return tiles;
}

bool GroupTiles::is_pixelwise() const {
  return std::ranges::all_of(members_, [](const Member& member) {
    return std::ranges::all_of(member.reads,
                               [](const Read& read) { return read.region == RegionRead{}; });
  });
}

bool GroupTiles::leads_to_result(std::size_t image) const {
  std::vector<bool> needed(images_.size(), false);
  needed[members_.back().image] = true;
  for (std::size_t m = members_.size(); m-- > 0;) {
    if (!needed[members_[m].image]) continue;
    for (const Read& read : members_[m].reads) needed[read.image] = true;
  }
  return needed[image];
}

/// Do rows and columns of the result, one after another, need adjoining parts of a stored image?
bool GroupTiles::covers(std::size_t image) const {
  if (!images_[image].made || !images_[image].stored || image == members_.back().image) return true;
  if (is_pixelwise()) return leads_to_result(image);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    std::int64_t end = 0;
    for (std::int64_t at = 0; at < result().extent[axis]; ++at) {
      Region tile = {Interval{0, 1}, Interval{0, 1}};
      tile[axis] = {at, at + 1};
      const Interval part = needed(tile)[image][axis];
      if (part.begin > end) return false;
      end = std::max(end, part.end);
    }
    if (end < images_[image].extent[axis]) return false;
  }
  return true;
}

std::vector<Region> GroupTiles::walk(const Region& tile, bool clip) const {
  std::vector<Region> regions(images_.size());
  regions[members_.back().image] = tile;
  for (std::size_t m = members_.size(); m-- > 0;) {
    const Member& member = members_[m];
    Region made = regions[member.image];
    const Image& image = images_[member.image];
    for (std::size_t axis = 0; axis < 2 && clip; ++axis) {
      made[axis] = clipped(made[axis], image.extent[axis]);
      if (!image.stored) continue;
      if (tile[axis].begin <= 0) made[axis] = hull(made[axis], {0, 1});
      if (tile[axis].end >= result().extent[axis])
        made[axis] = hull(made[axis], {image.extent[axis] - 1, image.extent[axis]});
    }
    regions[member.image] = made;
    for (const Read& read : member.reads) {
      for (std::size_t axis = 0; axis < 2; ++axis) {
        Interval& part = regions[read.image][axis];
        part = hull(part, read.region[axis].of(made[axis]));
      }
    }
  }
  return regions;
}

std::vector<Region> GroupTiles::needed(const Region& tile) const { return walk(tile, true); }

std::vector<std::array<std::int64_t, 2>> GroupTiles::extents(std::int64_t rows,
                                                             std::int64_t columns) const {
  std::vector<std::array<std::int64_t, 2>> extents;
  for (const Region& region : walk({Interval{0, rows}, Interval{0, columns}}, false))
    extents.push_back({region[0].size(), region[1].size()});
  return extents;
}

std::vector<double> GroupTiles::recomputed(std::int64_t rows, std::int64_t columns) const {
  if (is_pixelwise()) return std::vector<double>(members_.size(), 1);
  // Rows and columns are independent: pixels of all tiles = all their rows times all their columns.
  std::vector<std::array<double, 2>> sums(members_.size());
  const std::array<std::int64_t, 2> step = {rows, columns};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t extent = result().extent[axis];
    for (std::int64_t at = 0; at < extent; at += step[axis]) {
      Region tile = {Interval{0, 1}, Interval{0, 1}};
      tile[axis] = {at, std::min(at + step[axis], extent)};
      const std::vector<Region> regions = needed(tile);
      for (std::size_t m = 0; m < members_.size(); ++m)
        sums[m][axis] += static_cast<double>(regions[members_[m].image][axis].size());
    }
  }
  std::vector<double> factors;
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const Image& made = images_[members_[m].image];
    const double pixels = static_cast<double>(made.extent[0]) * static_cast<double>(made.extent[1]);
    factors.push_back(pixels > 0 ? sums[m][0] * sums[m][1] / pixels : 1);
  }
  return factors;
}

}  // namespace braze
