#include "kernels/cuda/copy_emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.hpp"
#include "kernels/cuda/box.hpp"

namespace braze::cuda {
namespace {

using cpu::CopyAxis;
using device::kCopyAxes;
using device::kCopyPieces;

constexpr std::int64_t kThreads = 256;
/// Extents from which on a transpose goes through a tile.
constexpr std::int64_t kWorthTiling = 16;
constexpr std::int64_t kMostTiled = std::numeric_limits<int>::max();

std::int64_t tile_of(std::int64_t bytes) { return bytes <= 2 ? 64 : 32; }

/// Where a value begins, in bytes from a well aligned address.
std::int64_t begin_of(const Plan& plan, ValueId id) {
  return plan.graph.value(id).is_constant() ? 0
                                            : plan.placements[static_cast<std::size_t>(id)].offset;
}

}  // namespace

cpu::View loaded_view(const Plan& plan, const Group& group, ValueId operand) {
  return cpu::view_of(plan, loaded_value(plan, group, operand));
}

std::vector<CopyAxis> box_of(const cpu::View& from, const cpu::View& to) {
  std::vector<CopyAxis> axes;
  for (std::size_t axis = 0; axis < to.shape.size(); ++axis)
    axes.push_back({to.shape[axis], from.strides[axis], to.strides[axis]});
  return axes;
}

std::string bits_type(std::int64_t bytes) { return fmt::format("Bits<{}>", bytes); }

std::int64_t widest(std::int64_t bytes, std::span<const CopyAxis> axes, std::int64_t from,
                    std::int64_t to) {
  if (axes.empty() || axes.back().from != bytes || axes.back().to != bytes) return bytes;
  for (std::int64_t wide = 16; wide > bytes; wide /= 2) {
    bool fits = axes.back().extent * bytes % wide == 0 && from % wide == 0 && to % wide == 0;
    for (std::size_t axis = 0; axis + 1 < axes.size(); ++axis)
      fits = fits && axes[axis].from % wide == 0 && axes[axis].to % wide == 0;
    if (fits) return wide;
  }
  return bytes;
}

Address CopyEmitter::address(ValueId from) {
  const auto found = addresses_.find(from);
  if (found != addresses_.end()) return found->second;
  return addresses_.emplace(from, address_of(plan_, kernel_.group, from, result_)).first->second;
}

void CopyEmitter::add(ValueId from, ValueId to, std::vector<CopyAxis> axes,
                      std::int64_t from_offset, std::int64_t to_offset) {
  if (cpu::count_of(axes) == 0) return;
  Piece piece;
  piece.from_value = loaded_value(plan_, kernel_.group, from);
  piece.from = address(from);
  piece.from.offset += from_offset;
  piece.to = {Address::Of::kOutput, cpu::output_index(kernel_.group, to), to_offset};
  ensure(piece.to.index >= 0, "a copy writes an output of its group");
  piece.from_at = begin_of(plan_, piece.from_value) + from_offset;
  piece.to_at = begin_of(plan_, to) + to_offset;
  from_ = plan_.graph.value(piece.from_value).dtype;
  to_ = plan_.graph.value(to).dtype;
  cpu::collapse_axes(axes);
  piece.axes = std::move(axes);
  choose_tiles(piece);
  pieces_.push_back(std::move(piece));
}

/// The axes whose elements lie together on either side go last, if they are different ones.
void CopyEmitter::choose_tiles(Piece& piece) const {
  std::vector<CopyAxis>& axes = piece.axes;
  const auto from_size = static_cast<std::int64_t>(size_of(from_));
  const auto to_size = static_cast<std::int64_t>(size_of(to_));
  if (axes.size() < 2 || axes.back().to != to_size || axes.back().from == from_size ||
      axes.back().extent > kMostTiled || axes.back().extent < kWorthTiling || axes.back().from == 0)
    return;
  const auto row = std::find_if(axes.begin(), axes.end(), [&](const CopyAxis& axis) {
    return axis.from == from_size && axis.extent >= kWorthTiling && axis.extent <= kMostTiled;
  });
  if (row == axes.end()) return;
  std::rotate(row, row + 1, axes.end() - 1);
  piece.tiled = true;
}

Kernel CopyEmitter::build() {
  result_.overlaps = true;
  if (pieces_.empty()) {
    result_.grid.x = 0;
    return std::move(result_);
  }
  ensure(pieces_.size() <= kCopyPieces, "a copy's pieces fit its parameters");
  const auto size = static_cast<std::int64_t>(size_of(to_));
  const bool converts = from_ != to_;
  const bool tiles =
      std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) { return piece.tiled; });
  std::int64_t unit = size;
  if (!converts && !tiles) {
    unit = 16;
    for (const Piece& piece : pieces_)
      unit = std::min(unit, widest(size, piece.axes, piece.from_at, piece.to_at));
  }
  std::int64_t total = 0, largest = 0;
  for (Piece& piece : pieces_) {
    if (unit > size) {
      CopyAxis& inner = piece.axes.back();
      inner = {inner.extent * size / unit, unit, unit};
    }
    total += cpu::count_of(piece.axes);
    largest = std::max(largest, cpu::count_of(piece.axes));
  }
  const std::int64_t per_thread = total > kThreads * 16 * plan_.device.units ? 4 : 1;
  device::CopyParameters<kCopyPieces> parameters{};
  std::int64_t blocks = 0;
  const std::size_t slots = std::bit_ceil(pieces_.size());
  for (std::size_t i = 0; i < slots; ++i) {
    device::CopyPiece& to = parameters.piece[i];
    to.first_block = std::numeric_limits<int>::max();
    if (i >= pieces_.size()) continue;
    const std::vector<CopyAxis>& axes = pieces_[i].axes;
    ensure(axes.size() <= kCopyAxes, "the axes of a copy fit its parameters");
    to.axes = static_cast<int>(axes.size());
    to.tiled = pieces_[i].tiled ? 1 : 0;
    to.first_block = static_cast<int>(blocks);
    to.count = cpu::count_of(axes);
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      // The outermost extent is not asked for, but in tiles.
      ensure(
          (axis == 0 && !pieces_[i].tiled) || axes[axis].extent <= std::numeric_limits<int>::max(),
          "an extent is below 2^31");
      to.extent[axis] = static_cast<int>(axes[axis].extent);
      to.from_stride[axis] = axes[axis].from;
      to.to_stride[axis] = axes[axis].to;
    }
    if (pieces_[i].tiled) {
      const std::int64_t tile = tile_of(size);
      const auto rows = axes[axes.size() - 2].extent, columns = axes.back().extent;
      blocks += to.count / (rows * columns) * blocks_for(rows, tile) * blocks_for(columns, tile);
    } else {
      blocks += blocks_for(to.count, kThreads * per_thread);
    }
  }
  const std::string from = converts ? element_type(from_) : bits_type(unit);
  const std::string to = converts ? element_type(to_) : bits_type(unit);
  emit(result_, "copy", {"copy.cuh"}, "", fmt::format("CopyParameters<{}>", slots),
       fmt::format("copy<{}, {}, {}, {}, {}, {}>", from, to, slots, index_type(largest), per_thread,
                   tiles),
       static_cast<int>(kThreads));
  result_.grid.x = blocks_for(blocks, 1);
  Parameters block(parameters);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    block.point(parameters.piece[i].from, pieces_[i].from);
    block.point(parameters.piece[i].to, pieces_[i].to);
  }
  block.move_to(result_);
  result_.parameters.resize(slots * sizeof(device::CopyPiece));
  return std::move(result_);
}

}  // namespace braze::cuda
