// Halo algebra: which part of every image of a group a tile of its result needs.
//
// Output o of a node reads the inputs floor(o / repeat) * stride - pad + t * dilation of an axis,
// 0 <= t < kernel. So an interval of outputs needs an interval of inputs, and a walk from the
// group's last member to its first turns a tile of the result into one of every value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "target/problem.hpp"

namespace braze {

/// [begin, end) along one axis of an image. May reach past the image: there is padding.
struct Interval {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t size() const { return end > begin ? end - begin : 0; }
  bool operator==(const Interval&) const = default;
};
/// The smallest interval that holds both; an empty one holds nothing.
Interval hull(const Interval& a, const Interval& b);
/// Its part on the image [0, extent).
Interval clipped(const Interval& interval, std::int64_t extent);

/// How the outputs of a node read an input, along one axis.
struct AxisRead {
  std::int64_t kernel = 1, stride = 1, dilation = 1, pad = 0, repeat = 1;
  [[nodiscard]] Interval of(const Interval& outputs) const;
  bool operator==(const AxisRead&) const = default;
};

/// Rows and columns.
using Region = std::array<Interval, 2>;
using RegionRead = std::array<AxisRead, 2>;

/// How a node reads the image that is its input `index`: a window (Conv, Pool), the same pixel
/// (elementwise ops, Concat, Split and Slice along channels, ...), or a pixel that is repeated
/// (Resize to a multiple by nearest). Nothing, and the reason in `why`, where an output needs more
/// than that or the values are no images (target/image_conv.hpp).
std::optional<RegionRead> region_read(const Graph& graph, const Node& node, std::size_t index,
                                      std::string* why);

/// The images of a group and how its members read them.
class GroupTiles {
 public:
  struct Image {
    ValueId id = kNoValue;
    std::int64_t channels = 1;
    std::array<std::int64_t, 2> extent = {1, 1};  // rows, columns
    std::int64_t pixel_bytes = 0;
    bool made = false;    // by a member; else read from memory
    bool stored = false;  // in memory, for others
  };
  struct Read {
    std::size_t image = 0;
    RegionRead region;
  };
  struct Member {
    std::vector<Read> reads;  // of its anchor and of its epilogue's full operands
    std::size_t image = 0;    // its result
  };

  /// Nothing, and the reason in `why`, where a member is no image to image operator, one reads what
  /// another makes in a way that is not in the algebra, or the tiles of the result leave out parts
  /// of an intermediate that is stored. Batch extents of all results are equal.
  static std::optional<GroupTiles> of(const Graph& graph, const Group& group, std::string* why);

  [[nodiscard]] const std::vector<Image>& images() const { return images_; }
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }  // in order
  [[nodiscard]] const Image& result() const { return images_[members_.back().image]; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }

  /// What a tile of the last result needs of every image, in the order of images(). What members
  /// make is clipped to the image before its own inputs are asked for: beyond it there are zeros.
  /// Tiles at the border of the result need a stored intermediate up to its own border, so that all
  /// tiles together compute all of it.
  [[nodiscard]] std::vector<Region> needed(const Region& tile) const;
  /// The same with nothing clipped: tiles of kernels that compute the same for each of them.
  [[nodiscard]] std::vector<Region> uncut(const Region& tile) const { return walk(tile, false); }
  /// Extents of what an uncut tile of rows x columns needs of every image: tiles in the middle of a
  /// large image, and those of kernels that compute whole tiles at its border.
  [[nodiscard]] std::vector<std::array<std::int64_t, 2>> extents(std::int64_t rows,
                                                                 std::int64_t columns) const;
  /// By member: pixels of its result that are computed where each tile of rows x columns computes
  /// all it needs, over the pixels of the image: above 1 by the halo, below where strides skip.
  [[nodiscard]] std::vector<double> recomputed(std::int64_t rows, std::int64_t columns) const;

 private:
  [[nodiscard]] std::vector<Region> walk(const Region& tile, bool clip) const;
  [[nodiscard]] bool covers(std::size_t image) const;
  /// Does the last member need it?
  [[nodiscard]] bool leads_to_result(std::size_t image) const;
  /// Is every pixel read for the same pixel only? Then tiles have no halo, however long images are.
  [[nodiscard]] bool is_pixelwise() const;

  std::vector<Image> images_;
  std::vector<Member> members_;
  std::int64_t batch_ = 1;
};

}  // namespace braze
