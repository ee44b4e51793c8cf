// Copies an N-d strided box to an N-d strided box: what Transpose, Slice, Pad, Concat, Tile and a
// change of layout have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace braze::cpu {

/// One axis of the box: its extent, and bytes from one index to the next where it is read and where
/// it is written. from = 0 repeats an element, from < 0 reads backwards; to > 0, and no element is
/// written twice.
struct CopyAxis {
  std::int64_t extent = 1;
  std::int64_t from = 0;
  std::int64_t to = 0;
};

/// Drops axes of extent 1, orders the others as they are written (to descending; where that is
/// equal, from), and joins neighbours that are one axis in both boxes.
void collapse_axes(std::vector<CopyAxis>& axes);

/// Product of the extents.
std::int64_t count_of(std::span<const CopyAxis> axes);

/// Where the element with row-major number `index` lies in both boxes.
struct CopyOffsets {
  std::int64_t from = 0, to = 0;
};
CopyOffsets offsets_at(std::span<const CopyAxis> axes, std::int64_t index);

struct CopyTile;

/// A box-to-box copy, split into independent tasks of about kTaskBytes each.
class StridedCopy {
 public:
  static constexpr std::int64_t kTaskBytes = 32 * 1024;

  StridedCopy() = default;
  /// Axes in any order. Offsets are in bytes, of the element at index 0 of every axis.
  StridedCopy(std::int64_t element_bytes, std::vector<CopyAxis> axes, std::int64_t from_offset = 0,
              std::int64_t to_offset = 0);

  /// 0 if an extent is 0.
  [[nodiscard]] std::int64_t tasks() const { return tasks_; }
  /// Bytes written.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  void run_task(std::int64_t task, const void* from, void* to) const noexcept;

  /// How the two innermost axes are copied; `size` bytes lie together in both boxes.
  enum class Inner : std::uint8_t {
    kRuns,       // size bytes at a time
    kFill,       // one element repeated over columns that lie together
    kTranspose,  // rows lie together where they are read, columns where they are written
  };

 private:
  void collapse(std::vector<CopyAxis>& axes);
  void choose_inner(std::vector<CopyAxis>& axes);
  void choose_tasks();

  void (*copy_tile_)(CopyTile&) = nullptr;
  Inner inner_ = Inner::kRuns;
  std::int64_t size_ = 0;  // bytes that lie together in both boxes
  std::int64_t last_size_ =
      0;  // of the last column: less than size_ only where a long run was cut into columns
  CopyAxis rows_, columns_;
  std::vector<CopyAxis> outer_;  // the last is walked by addition, the others by division
  std::int64_t from_offset_ = 0, to_offset_ = 0;
  std::int64_t outer_count_ = 0;
  std::int64_t row_block_ = 1, column_block_ = 1, outer_block_ = 1;  // of one task
  std::int64_t tasks_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace braze::cpu
