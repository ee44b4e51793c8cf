#include "exec/interpret_tiles.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "graph/elements.hpp"
#include "graph/interpret.hpp"
#include "plan/tile.hpp"
#include "target/image_conv.hpp"

namespace braze {
namespace {

/// An image as planes of rows of elements: a matrix is one row of pixels of all channels.
struct Planes {
  std::int64_t count, rows, columns, bytes;
};
Planes planes_of(const Tensor& image) {
  const ImageShape shape = *image_shape(image.shape());
  const auto size = static_cast<std::int64_t>(size_of(image.dtype()));
  const auto& [rows, columns] = shape.extent;
  if (image.shape().size() == 2) return {1, rows, columns, shape.channels * size};
  return {shape.n * shape.channels, rows, columns, size};
}

/// Copies rows and columns `region` of an image from or to a tensor of their extents.
enum class Direction : std::uint8_t { kCut, kPaste };
void copy_region(const Tensor& image, const Region& region, const Tensor& part, Direction way) {
  const Planes planes = planes_of(image);
  const std::int64_t size = planes.bytes, columns = region[1].size();
  auto* const whole = static_cast<std::byte*>(const_cast<void*>(image.data()));
  auto* const piece = static_cast<std::byte*>(const_cast<void*>(part.data()));
  for (std::int64_t plane = 0; plane < planes.count; ++plane) {
    for (std::int64_t row = 0; row < region[0].size(); ++row) {
      std::byte* const a =
          whole +
          ((plane * planes.rows + region[0].begin + row) * planes.columns + region[1].begin) * size;
      std::byte* const b = piece + (plane * region[0].size() + row) * columns * size;
      std::memcpy(way == Direction::kCut ? b : a, way == Direction::kCut ? a : b,
                  static_cast<std::size_t>(columns * size));
    }
  }
}

/// The shape of a part of an image.
Shape with_extents(const Shape& image, std::int64_t rows, std::int64_t columns) {
  if (image.size() == 2) return {rows * columns, image[1]};
  return {image[0], image[1], rows, columns};
}

Tensor cut(const Tensor& image, const Region& region) {
  Tensor part =
      Tensor::make(image.dtype(), with_extents(image.shape(), region[0].size(), region[1].size()));
  copy_region(image, region, part, Direction::kCut);
  return part;
}

Tensor not_computed(const Value& value) {
  const std::vector<double> nothing(static_cast<std::size_t>(element_count(value.shape)),
                                    std::numeric_limits<double>::quiet_NaN());
  Tensor tensor = Tensor::make(value.dtype, value.shape);
  store<double>(nothing, tensor);
  return tensor;
}

class Walk {
 public:
  Walk(const Graph& graph, const Group& group, std::span<const Tensor> values)
      : graph_(graph), group_(group), values_(values) {
    std::string why;
    std::optional<GroupTiles> tiles = GroupTiles::of(graph, group, &why);
    ensure(tiles.has_value(), why.c_str());
    tiles_ = std::move(*tiles);
    for (const GroupTiles::Image& image : tiles_.images())
      images_.push_back(image.made ? not_computed(graph.value(image.id))
                                   : values[static_cast<std::size_t>(image.id)]);
    for (const ValueId id : group.outputs) stored_.push_back(not_computed(graph.value(id)));
  }

  std::vector<Tensor> run(const Tiling& tiling) {
    const GroupTiles::Image& result = tiles_.result();
    const std::int64_t band = tiling.band > 0 ? tiling.band : tiling.rows;
    for (std::int64_t x = 0; x < result.extent[1]; x += tiling.columns) {
      const Interval columns = {x, std::min(x + tiling.columns, result.extent[1])};
      for (std::int64_t top = 0; top < result.extent[0]; top += band) {
        const std::int64_t end = std::min(top + band, result.extent[0]);
        forget();
        for (std::int64_t y = top; y < end; y += tiling.rows)
          run_tile({Interval{y, std::min(y + tiling.rows, end)}, columns});
      }
    }
    return std::move(stored_);
  }

 private:
  /// Nothing is on chip.
  void forget() {
    computed_.assign(images_.size(), -1);
    for (std::size_t i = 0; i < images_.size(); ++i) {
      if (tiles_.images()[i].made) images_[i] = not_computed(graph_.value(tiles_.images()[i].id));
    }
  }

  /// Rows above those that a tile needs are not kept.
  void drop_rows_above(std::size_t i, std::int64_t row) {
    if (row <= 0) return;
    const std::int64_t columns = planes_of(images_[i]).columns;
    const Region above = {Interval{0, row}, Interval{0, columns}};
    Value empty;
    empty.dtype = images_[i].dtype();
    empty.shape = with_extents(images_[i].shape(), row, columns);
    copy_region(images_[i], above, not_computed(empty), Direction::kPaste);
  }

  void run_tile(const Region& tile) {
    const std::vector<Region> needed = tiles_.needed(tile);
    for (std::size_t m = 0; m < group_.members.size(); ++m) {
      const std::size_t image = tiles_.members()[m].image;
      Region region = needed[image];
      if (region[0].size() == 0 || region[1].size() == 0) continue;
      drop_rows_above(image, region[0].begin);
      region[0].begin = std::max(region[0].begin, computed_[image]);
      if (region[0].size() == 0) continue;
      computed_[image] = region[0].end;
      const Tensor part = run_member(m, region);
      copy_region(images_[image], region, part, Direction::kPaste);
      for (std::size_t o = 0; o < group_.outputs.size(); ++o) {
        if (group_.outputs[o] == tiles_.images()[image].id)
          copy_region(stored_[o], region, part, Direction::kPaste);
      }
    }
  }

  /// A region of a member's result, epilogue included: every node on whole images, of which all
  /// that is not there is NaN.
  Tensor run_member(std::size_t m, const Region& region) const {
    const Group::Member& member = group_.members[m];
    const Node& anchor = graph_.node(member.anchor);
    ValueId made = kNoValue;
    Tensor result;
    const auto run = [&](const Node& node) {
      std::vector<Tensor> inputs;
      for (const ValueId id : node.inputs)
        inputs.push_back(id == made && id != kNoValue ? result : operand(id));
      const auto output = std::ranges::find(node.outputs, member.result);
      const auto index = output == node.outputs.end() ? 0 : output - node.outputs.begin();
      result = interpret_node(graph_, node, inputs)[static_cast<std::size_t>(index)];
      made = node.output();
    };
    run(anchor);
    for (const EpilogueStep& step : member.epilogue.steps) run(graph_.node(step.node));
    return cut(result, region);
  }

  Tensor operand(ValueId id) const {
    if (id == kNoValue) return {};
    for (std::size_t i = 0; i < images_.size(); ++i) {
      if (tiles_.images()[i].id == id) return images_[i];
    }
    const Value& value = graph_.value(id);
    return value.is_constant() ? *value.constant : values_[static_cast<std::size_t>(id)];
  }

  const Graph& graph_;
  const Group& group_;
  std::span<const Tensor> values_;
  GroupTiles tiles_;
  std::vector<Tensor> images_;          // by image: what is on chip, or in memory
  std::vector<std::int64_t> computed_;  // by image: rows below this one are there or gone
  std::vector<Tensor> stored_;          // by output
};

}  // namespace

std::vector<Tensor> interpret_tiles(const Graph& graph, const Group& group, const Tiling& tiling,
                                    std::span<const Tensor> values) {
  return Walk(graph, group, values).run(tiling);
}

}  // namespace braze
