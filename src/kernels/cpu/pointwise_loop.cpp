#include "kernels/cpu/pointwise_loop.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "graph/window.hpp"

namespace braze::cpu {
namespace {

constexpr std::int64_t kChunk = 4096;  // elements
constexpr std::int64_t kTask = 16384;

}  // namespace

bool PointwiseLoop::joins(const Axis& outer, const Axis& inner) {
  const auto continues = [&](std::int64_t of_outer, std::int64_t of_inner) {
    return of_outer == of_inner * inner.extent;
  };
  return continues(outer.y, inner.y) &&
         std::equal(outer.x.begin(), outer.x.end(), inner.x.begin(), continues) &&
         continues(outer.n, inner.n) && continues(outer.channel, inner.channel) &&
         continues(outer.pixel, inner.pixel);
}

PointwiseLoop::PointwiseLoop(const Shape& shape, const Ints& y, std::span<const Ints> x,
                             bool tiles) {
  const std::size_t rank = shape.size();
  std::vector<Axis> axes(rank);
  std::int64_t pixels = 1;
  for (std::size_t axis = rank; axis-- > 0;) {
    Axis& a = axes[axis];
    a.extent = shape[axis];
    a.y = y[axis];
    for (std::size_t i = 0; i < x.size(); ++i) a.x[i] = x[i][axis];
    if (!tiles) continue;
    if (axis >= 2) {
      a.pixel = pixels;
      pixels *= shape[axis];
    } else if (rank == 1 || axis == 1) {
      a.channel = 1;
    } else {
      (rank == 2 ? a.pixel : a.n) = 1;  // rows of a matrix are pixels
    }
  }
  // Memory order of the result; axes of extent 1 lead nowhere.
  std::erase_if(axes, [](const Axis& axis) { return axis.extent == 1; });
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.y > b.y; });
  if (!axes.empty() && axes.back().y != 1) {  // one channel of several
    axes.emplace_back().y = 1;
    axes.back().channel = tiles ? 1 : 0;
  }
  for (const Axis& axis : axes) {
    if (axes_.empty() || !joins(axes_.back(), axis)) {
      axes_.push_back(axis);
    } else {
      const std::int64_t extent = axes_.back().extent * axis.extent;
      axes_.back() = axis;
      axes_.back().extent = extent;
    }
  }
  while (axes_.size() < 2) axes_.insert(axes_.begin(), Axis{});
  const Axis& row = axes_[axes_.size() - 2];
  const Axis& col = axes_.back();
  // A tile has the pixels of a row side by side, or its channels, and the other along the rows.
  const bool col_runs = !tiles || col.n == 0;
  const bool row_runs =
      !tiles || (col.channel != 0 && row.pixel == 1) || (col.pixel == 1 && row.channel != 0);
  run_cols_ = col_runs ? std::clamp<std::int64_t>(col.extent, 1, kChunk) : 1;
  run_rows_ = row_runs ? std::clamp<std::int64_t>(kChunk / run_cols_, 1,
                                                  std::max<std::int64_t>(1, row.extent))
                       : 1;
  row_chunks_ = ceil_div(row.extent, run_rows_);
  col_chunks_ = ceil_div(col.extent, run_cols_);
  chunks_ = row_chunks_ * col_chunks_;
  for (std::size_t axis = 0; axis + 2 < axes_.size(); ++axis) chunks_ *= axes_[axis].extent;
  chunks_per_task_ = std::max<std::int64_t>(1, kTask / (run_rows_ * run_cols_));
}

Chunk PointwiseLoop::chunk(std::int64_t index) const {
  Chunk chunk;
  const auto advance = [&chunk](const Axis& axis, std::int64_t steps) {
    chunk.y += steps * axis.y;
    for (std::size_t i = 0; i < kOperands; ++i) chunk.x[i] += steps * axis.x[i];
    chunk.tile.n += steps * axis.n;
    chunk.tile.channel += steps * axis.channel;
    chunk.tile.pixel += steps * axis.pixel;
  };
  const Axis& row = axes_[axes_.size() - 2];
  const Axis& col = axes_.back();
  const std::int64_t first_col = index % col_chunks_ * run_cols_;
  index /= col_chunks_;
  const std::int64_t first_row = index % row_chunks_ * run_rows_;
  index /= row_chunks_;
  for (std::size_t axis = axes_.size() - 2; axis-- > 0;) {
    advance(axes_[axis], index % axes_[axis].extent);
    index /= axes_[axis].extent;
  }
  advance(row, first_row);
  advance(col, first_col);
  chunk.shape = {std::min(run_rows_, row.extent - first_row),
                 std::min(run_cols_, col.extent - first_col)};
  chunk.y_row = row.y;
  chunk.x_row = row.x;
  chunk.x_col = col.x;

  Tile& tile = chunk.tile;
  if (col.channel != 0) {
    tile.channels = chunk.shape.cols;
    tile.pixels = chunk.shape.rows;
    tile.stride_pixel = row.y;
  } else {
    tile.pixels = chunk.shape.cols;
    tile.stride_pixel = 1;
    tile.channels = chunk.shape.rows;
    tile.stride_channel = row.y;
  }
  return chunk;
}

}  // namespace braze::cpu
