#include "kernels/cpu/strided_copy.hpp"

#include <algorithm>

#include "kernels/cpu/strided_copy_tile.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
bool is_vector_element(std::int64_t size) {
  return size == 1 || size == 2 || size == 4 || size == 8;
}

}  // namespace

void collapse_axes(std::vector<CopyAxis>& axes) {
  std::erase_if(axes, [](const CopyAxis& axis) { return axis.extent == 1; });
  std::sort(axes.begin(), axes.end(), [](const CopyAxis& a, const CopyAxis& b) {
    return a.to != b.to ? a.to > b.to : a.from > b.from;
  });
  for (std::size_t i = axes.size(); i-- > 1;) {
    const CopyAxis inner = axes[i];
    CopyAxis& outer = axes[i - 1];
    if (outer.from != inner.from * inner.extent || outer.to != inner.to * inner.extent) continue;
    outer = {outer.extent * inner.extent, inner.from, inner.to};
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::int64_t count_of(std::span<const CopyAxis> axes) {
  std::int64_t count = 1;
  for (const CopyAxis& axis : axes) count *= axis.extent;
  return count;
}

CopyOffsets offsets_at(std::span<const CopyAxis> axes, std::int64_t index) {
  CopyOffsets offsets;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::int64_t at = index % axes[i].extent;
    index /= axes[i].extent;
    offsets.from += at * axes[i].from;
    offsets.to += at * axes[i].to;
  }
  return offsets;
}

StridedCopy::StridedCopy(std::int64_t element_bytes, std::vector<CopyAxis> axes,
                         std::int64_t from_offset, std::int64_t to_offset)
    : copy_tile_(copy_tile_function()),
      size_(element_bytes),
      from_offset_(from_offset),
      to_offset_(to_offset) {
  for (const CopyAxis& axis : axes) {
    if (axis.extent == 0) return;
  }
  bytes_ = element_bytes * count_of(axes);
  collapse(axes);
  choose_inner(axes);
  const auto longest =
      std::max_element(axes.begin(), axes.end(),
                       [](const CopyAxis& a, const CopyAxis& b) { return a.extent < b.extent; });
  if (!axes.empty() && axes.back().extent < 8) std::iter_swap(longest, axes.end() - 1);
  outer_ = std::move(axes);
  outer_count_ = count_of(outer_);
  choose_tasks();
}

/// Widens the element by the innermost axis where it is contiguous in both boxes; cuts what is then
/// too long for a task.
void StridedCopy::collapse(std::vector<CopyAxis>& axes) {
  collapse_axes(axes);
  if (!axes.empty() && axes.back().from == size_ && axes.back().to == size_) {
    size_ *= axes.back().extent;
    axes.pop_back();
  }
  last_size_ = size_;
  if (size_ > kTaskBytes) {  // cut the run into columns, so that tasks can share it
    const std::int64_t pieces = ceil_div(size_, kTaskBytes);
    last_size_ = size_ - (pieces - 1) * kTaskBytes;
    size_ = kTaskBytes;
    axes.push_back({pieces, size_, size_});
  }
}

/// Takes rows and columns from the axes.
void StridedCopy::choose_inner(std::vector<CopyAxis>& axes) {
  const auto take = [&axes](std::size_t i) {
    const CopyAxis axis = axes[i];
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
    return axis;
  };
  if (axes.empty()) return;
  const bool writes_together = axes.back().to == size_ && is_vector_element(size_);
  if (writes_together) {
    for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
      if (axes[i].from != size_) continue;
      inner_ = Inner::kTranspose;
      columns_ = take(axes.size() - 1);
      rows_ = take(i);
      return;
    }
  }
  if (writes_together && axes.back().from == 0) {
    inner_ = Inner::kFill;
    columns_ = take(axes.size() - 1);
  } else if (last_size_ != size_) {
    columns_ = take(axes.size() - 1);
  } else {  // the longest loop innermost, unless that would leave long contiguous writes
    std::size_t longest = axes.size() - 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      if (axes[i].extent > 4 * axes[longest].extent && axes[longest].extent < 8) longest = i;
    }
    columns_ = take(longest);
  }
  if (!axes.empty()) rows_ = take(axes.size() - 1);
}

void StridedCopy::choose_tasks() {
  const auto fit = [](std::int64_t extent, std::int64_t bytes_each) {
    return std::clamp<std::int64_t>(kTaskBytes / bytes_each, 1, extent);
  };
  // A transpose touches a cache line per row and per column: square blocks use all of each.
  constexpr std::int64_t kSquare = 64;
  column_block_ = inner_ == Inner::kTranspose ? std::min(columns_.extent, kSquare)
                                              : fit(columns_.extent, size_);
  row_block_ = fit(rows_.extent, column_block_ * size_);
  column_block_ = fit(columns_.extent, row_block_ * size_);
  const bool whole = row_block_ == rows_.extent && column_block_ == columns_.extent;
  outer_block_ = whole ? fit(outer_count_, row_block_ * column_block_ * size_) : 1;
  tasks_ = ceil_div(outer_count_, outer_block_) * ceil_div(rows_.extent, row_block_) *
           ceil_div(columns_.extent, column_block_);
}

void StridedCopy::run_task(std::int64_t task, const void* from, void* to) const noexcept {
  const std::int64_t column_blocks = ceil_div(columns_.extent, column_block_);
  const std::int64_t row_blocks = ceil_div(rows_.extent, row_block_);
  const std::int64_t column = task % column_blocks * column_block_;
  const std::int64_t row = task / column_blocks % row_blocks * row_block_;
  std::int64_t outer = task / (column_blocks * row_blocks) * outer_block_;
  const std::int64_t outer_end = std::min(outer + outer_block_, outer_count_);

  CopyTile tile;
  tile.inner = inner_;
  tile.size = size_;
  tile.columns = std::min(column_block_, columns_.extent - column);
  tile.last_size = column + tile.columns == columns_.extent ? last_size_ : size_;
  tile.rows = std::min(row_block_, rows_.extent - row);
  tile.from_row = rows_.from, tile.to_row = rows_.to;
  tile.from_column = columns_.from, tile.to_column = columns_.to;
  const std::int64_t from_start = from_offset_ + row * rows_.from + column * columns_.from;
  const std::int64_t to_start = to_offset_ + row * rows_.to + column * columns_.to;

  const CopyAxis line = outer_.empty() ? CopyAxis{} : outer_.back();
  tile.from_line = line.from, tile.to_line = line.to;
  while (outer < outer_end) {
    const CopyOffsets at = offsets_at(outer_, outer);
    tile.lines = std::min(outer_end - outer, line.extent - outer % line.extent);
    tile.from = static_cast<const std::uint8_t*>(from) + from_start + at.from;
    tile.to = static_cast<std::uint8_t*>(to) + to_start + at.to;
    copy_tile_(tile);
    outer += tile.lines;
  }
}

}  // namespace braze::cpu
