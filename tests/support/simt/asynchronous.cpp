#include "support/simt/asynchronous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "support/simt/formats.hpp"

namespace braze::simt {

bool MemoryBarrier::advance(unsigned arrivals, int announced, int landed) {
  bytes += announced - landed;
  pending = static_cast<unsigned short>((pending - arrivals) & 0x7fffu);
  if (pending != 0 || bytes != 0) return false;
  pending = count & 0x7fffu;
  phase = static_cast<unsigned short>(phase ^ 1u) & 1u;
  return true;
}

unsigned swizzled(unsigned address, unsigned swizzle_bytes) {
  const unsigned mask = swizzle_bytes / 16;  // 0, 2, 4, 8
  return mask == 0 ? address : address ^ (address >> 7 & (mask - 1)) << 4;
}

namespace {

struct Extent {
  long long begin;
  unsigned count, step;
};

/// The part of a row at `place` (all axes but the innermost) with elements [c, c + count).
BoxRow row_at(const TmaDescriptor& map, const long long (&place)[5], long long c, unsigned count) {
  const unsigned char* from = map.address;
  for (unsigned i = 1; i < map.rank; ++i) {
    if (place[i] < 0 || place[i] >= map.extents[i]) return {nullptr, 0, 0};
    from += static_cast<std::uint64_t>(place[i]) * map.strides[i - 1];
  }
  const long long begin = std::max(c, 0LL);
  const long long end = std::min<long long>(c + count, map.extents[0]);
  if (begin >= end) return {nullptr, 0, 0};
  return {from + begin * map.element_bytes, static_cast<unsigned>(begin - c) * map.element_bytes,
          static_cast<unsigned>(end - begin) * map.element_bytes};
}

std::vector<BoxRow> tiled_rows(const TmaDescriptor& map, const TmaLoad& load, unsigned& row_bytes) {
  row_bytes = map.box[0] * map.element_bytes;
  unsigned counts[5] = {1, 1, 1, 1, 1};
  for (unsigned i = 1; i < map.rank; ++i)
    counts[i] = (map.box[i] + map.steps[i] - 1u) / map.steps[i];
  std::vector<BoxRow> rows;
  unsigned at[5] = {};
  for (at[4] = 0; at[4] < counts[4]; ++at[4])
    for (at[3] = 0; at[3] < counts[3]; ++at[3])
      for (at[2] = 0; at[2] < counts[2]; ++at[2])
        for (at[1] = 0; at[1] < counts[1]; ++at[1]) {
          long long place[5] = {};
          for (unsigned i = 1; i < map.rank; ++i)
            place[i] = load.coordinates[i] + static_cast<long long>(at[i]) * map.steps[i];
          rows.push_back(row_at(map, place, load.coordinates[0], map.box[0]));
        }
  return rows;
}

/// From the given pixel on, inside of the box of pixels; each is read `offsets` further on.
std::vector<BoxRow> im2col_rows(const TmaDescriptor& map, const TmaLoad& load,
                                unsigned& row_bytes) {
  row_bytes = map.channels * map.element_bytes;
  const unsigned spatial = map.rank - 2u;
  long long at[5];
  std::copy_n(load.coordinates, map.rank, at);
  std::vector<BoxRow> rows;
  for (unsigned pixel = 0; pixel < map.pixels; ++pixel) {
    long long place[5];
    std::copy_n(at, map.rank, place);
    for (unsigned i = 0; i < spatial; ++i) place[i + 1] += load.offsets[i];
    rows.push_back(row_at(map, place, at[0], map.channels));
    unsigned axis = 0;
    for (; axis < spatial; ++axis) {
      at[axis + 1] += map.steps[axis + 1];
      if (at[axis + 1] <= static_cast<long long>(map.extents[axis + 1]) - 1 + map.upper[axis])
        break;
      at[axis + 1] = map.lower[axis];
    }
    if (axis == spatial) ++at[map.rank - 1];
  }
  return rows;
}

}  // namespace

std::vector<BoxRow> rows_of(const TmaDescriptor& map, const TmaLoad& load, unsigned& row_bytes,
                            std::string& wrong) {
  if (map.magic != TmaDescriptor::kMagic)
    wrong = "the map is none that encode() made";
  else if (map.rank != load.rank)
    wrong = fmt::format("{} coordinates for a map of {} axes", load.rank, map.rank);
  else if ((map.im2col != 0) != load.im2col)
    wrong = "an im2col load with a tiled map, or the reverse";
  if (!wrong.empty()) return {};
  return load.im2col ? im2col_rows(map, load, row_bytes) : tiled_rows(map, load, row_bytes);
}

namespace {

using Read = std::function<const void*(unsigned address)>;

/// Rows of an operand, 32 bytes of k, as floats. K is 16, or 8 for tf32.
std::vector<float> operand(unsigned long long descriptor, unsigned rows, Wgmma::Type type,
                           const Read& at) {
  const auto start = static_cast<unsigned>(descriptor & 0x3fffu) * 16;
  const auto group = static_cast<unsigned>(descriptor >> 32 & 0x3fffu) * 16;
  static constexpr unsigned kSwizzles[] = {0, 128, 64, 32};
  const unsigned swizzle = kSwizzles[descriptor >> 62];
  std::vector<float> result;
  for (unsigned row = 0; row < rows; ++row) {
    const unsigned address = start + row / 8 * group + row % 8 * swizzle;
    for (unsigned half = 0; half < 2; ++half) {
      const void* from = at(swizzled(address + 16 * half, swizzle));
      if (type == Wgmma::Type::kTf32) {
        unsigned x[4] = {~0u, ~0u, ~0u, ~0u};
        if (from != nullptr) std::memcpy(x, from, 16);
        for (const unsigned bits : x) result.push_back(value_of(bits & ~0x1fffu));
      } else {
        unsigned short x[8];
        std::memset(x, 0xff, sizeof x);
        if (from != nullptr) std::memcpy(x, from, 16);
        for (const unsigned short bits : x)
          result.push_back(type == Wgmma::Type::kHalf ? half_value(bits) : bfloat16_value(bits));
      }
    }
  }
  return result;
}

/// Thread and register that hold element (row, column): warp w holds rows 16 w to 16 w + 15.
std::pair<unsigned, unsigned> place_of(unsigned row, unsigned column) {
  const unsigned lane = row % 8 * 4 + column % 8 / 2;
  return {row / 16 * 32 + lane, column / 8 * 4 + row % 16 / 8 * 2 + column % 2};
}

}  // namespace

void WarpgroupProducts::compute(Pending& pending, const Read& at) {
  using Float4 = float __attribute__((vector_size(16)));
  if (pending.done) return;
  pending.done = true;
  const Wgmma& product = pending.product;
  const unsigned columns = pending.to->columns;
  const unsigned k_count = product.type == Wgmma::Type::kTf32 ? 8 : 16;
  const std::vector<float> a = operand(product.a, 64, product.type, at);
  const std::vector<float> b = operand(product.b, columns, product.type, at);
  std::vector<float> transposed(b.size());
  for (unsigned n = 0; n < columns; ++n)
    for (unsigned k = 0; k < k_count; ++k) transposed[k * columns + n] = b[n * k_count + k];
  for (unsigned m = 0; m < 64; ++m) {
    float* const row = &pending.to->values[m * columns];
    if (!product.accumulate) std::fill_n(row, columns, 0.0f);
    for (unsigned k = 0; k < k_count; ++k) {
      const float x = a[m * k_count + k];
      for (unsigned n = 0; n < columns; n += 4) {
        Float4 sum, y;
        std::memcpy(&sum, row + n, sizeof sum);
        std::memcpy(&y, &transposed[k * columns + n], sizeof y);
        sum += x * y;
        std::memcpy(row + n, &sum, sizeof sum);
      }
    }
  }
}

WarpgroupProducts::Accumulators& WarpgroupProducts::open(const Wgmma& product,
                                                         const std::array<float*, 128>& d) {
  Accumulators& to = accumulators_.emplace_back();
  to.d = d;
  to.columns = 2 * product.registers;
  to.values.resize(std::size_t{64} * to.columns);
  for (unsigned row = 0; row < 64; ++row)
    for (unsigned column = 0; column < to.columns; ++column) {
      const auto [thread, index] = place_of(row, column);
      to.values[row * to.columns + column] = d[thread][index];
    }
  for (float* registers : d)
    std::fill_n(registers, product.registers, std::numeric_limits<float>::quiet_NaN());
  return to;
}

void WarpgroupProducts::publish(Accumulators& accumulators) {
  for (unsigned row = 0; row < 64; ++row)
    for (unsigned column = 0; column < accumulators.columns; ++column) {
      const auto [thread, index] = place_of(row, column);
      accumulators.d[thread][index] = accumulators.values[row * accumulators.columns + column];
    }
}

std::string WarpgroupProducts::issue(const Wgmma& product, const std::array<float*, 128>& d,
                                     bool fenced, bool at_once, const Read& at) {
  if (product.a >> 62 == 0 || product.b >> 62 == 0)
    return "wgmma: operands without swizzle are not emulated";
  if ((product.a >> 49 & 7u) != 0 || (product.b >> 49 & 7u) != 0)
    return "wgmma: a base offset in a descriptor is not emulated";
  auto to = std::find_if(accumulators_.begin(), accumulators_.end(),
                         [&](const Accumulators& other) { return other.d[0] == d[0]; });
  if (to == accumulators_.end()) {
    if (!fenced) return "wgmma: no wgmma_fence() since the accumulators were the threads' own";
    open(product, d);
    to = std::prev(accumulators_.end());
  } else if (to->d != d || to->columns != 2 * product.registers) {
    return "wgmma: accumulators that overlap others under way";
  }
  ++to->pending;
  pending_.push_back({product, &*to, group_, false});
  if (at_once)
    for (Pending& pending : pending_) compute(pending, at);
  return {};
}

void WarpgroupProducts::commit() { ++group_; }

void WarpgroupProducts::wait(unsigned groups, const Read& at) {
  while (!pending_.empty() && pending_.front().group + groups < group_) {
    compute(pending_.front(), at);
    if (--pending_.front().to->pending == 0) publish(*pending_.front().to);
    pending_.pop_front();
  }
  accumulators_.remove_if([](const Accumulators& other) { return other.pending == 0; });
}

void WarpgroupProducts::clear() {
  accumulators_.clear();
  pending_.clear();
  group_ = 0;
}

}  // namespace braze::simt
