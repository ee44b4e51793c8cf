// y = exp(x - max) / sum of exp(x - max), or its logarithm x - max - log(sum).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax_tile.cpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd.hpp"
#include "kernels/cpu/simd_transpose.hpp"
#include "kernels/cpu/softmax.hpp"
#include "kernels/cpu/vector_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

/// Adjacent lines, one per lane; `load` and `store` touch those that exist.
template <class Load, class Store>
HWY_INLINE void softmax_lanes(const SoftmaxTile& tile, std::int64_t column, Load load,
                              Store store) {
  const float* x = tile.x + column;
  float* y = tile.y + column;
  Vec32 max = load(x);
  for (std::int64_t e = 1; e < tile.extent; ++e) max = hn::Max(max, load(x + e * tile.x_step));
  Vec32 sum = hn::Zero(kF32);
  for (std::int64_t e = 0; e < tile.extent; ++e) {
    const Vec32 value = exp(hn::Sub(load(x + e * tile.x_step), max));
    sum = hn::Add(sum, value);
    if (!tile.log) store(value, y + e * tile.y_step);
  }
  if (tile.log) {
    const Vec32 log_sum = log(sum);
    for (std::int64_t e = 0; e < tile.extent; ++e) {
      store(hn::Sub(hn::Sub(load(x + e * tile.x_step), max), log_sum), y + e * tile.y_step);
    }
  } else {
    const Vec32 scale = hn::Div(splat(1.0F), sum);
    for (std::int64_t e = 0; e < tile.extent; ++e) {
      float* to = y + e * tile.y_step;
      store(hn::Mul(load(to), scale), to);
    }
  }
}

void softmax_columns(const SoftmaxTile& tile) {
  std::int64_t column = 0;
  for (; column + kLanes <= tile.count; column += kLanes) {
    softmax_lanes(
        tile, column, [](const float* p) BRAZE_INLINE { return hn::LoadU(kF32, p); },
        [](Vec32 v, float* p) BRAZE_INLINE { hn::StoreU(v, kF32, p); });
  }
  if (column == tile.count) return;
  const auto rest = static_cast<std::size_t>(tile.count - column);
  softmax_lanes(
      tile, column, [rest](const float* p) BRAZE_INLINE { return load_n(kF32, p, rest); },
      [rest](Vec32 v, float* p) BRAZE_INLINE { store_n(v, kF32, p, rest); });
}

/// One long line. Lanes behind its end repeat `max` while it is looked for, and count nothing in
/// the sum.
void softmax_line(const float* x, float* y, std::int64_t extent, bool use_log) {
  const std::int64_t whole = extent / kLanes * kLanes;
  const auto rest = static_cast<std::size_t>(extent - whole);
  const auto in_line = hn::FirstN(kF32, rest);
  Vec32 maxima = splat(x[0]);
  for (std::int64_t i = 0; i < whole; i += kLanes) maxima = hn::Max(maxima, hn::LoadU(kF32, x + i));
  if (rest > 0)
    maxima = hn::Max(maxima, hn::IfThenElse(in_line, load_n(kF32, x + whole, rest), maxima));
  const Vec32 max = hn::MaxOfLanes(kF32, maxima);
  Vec32 sum = hn::Zero(kF32);
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Vec32 value = exp(hn::Sub(hn::LoadU(kF32, x + i), max));
    sum = hn::Add(sum, value);
    if (!use_log) hn::StoreU(value, kF32, y + i);
  }
  if (rest > 0) {
    const Vec32 value = exp(hn::Sub(load_n(kF32, x + whole, rest), max));
    sum = hn::Add(sum, hn::IfThenElseZero(in_line, value));
    if (!use_log) store_n(value, kF32, y + whole, rest);
  }
  const Vec32 total = hn::SumOfLanes(kF32, sum);
  const Vec32 shift = use_log ? log(total) : total;
  const Vec32 scale = hn::Div(splat(1.0F), total);
  const auto last = [&](Vec32 from_x, Vec32 from_y) BRAZE_INLINE {
    return use_log ? hn::Sub(hn::Sub(from_x, max), shift) : hn::Mul(from_y, scale);
  };
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    hn::StoreU(last(hn::LoadU(kF32, x + i), hn::LoadU(kF32, y + i)), kF32, y + i);
  }
  if (rest > 0)
    store_n(last(load_n(kF32, x + whole, rest), load_n(kF32, y + whole, rest)), kF32, y + whole,
            rest);
}

/// Short lines: turned, so that each lane has one.
constexpr std::int64_t kShort = 64;
constexpr std::int64_t kTurned = 64;  // lines at a time

void softmax_rows(const SoftmaxTile& tile) {
  if (tile.extent > kShort) {
    for (std::int64_t r = 0; r < tile.count; ++r)
      softmax_line(tile.x + r * tile.x_step, tile.y + r * tile.y_step, tile.extent, tile.log);
    return;
  }
  alignas(64) float turned[kShort * kTurned];
  for (std::int64_t r = 0; r < tile.count; r += kTurned) {
    const std::int64_t lines = std::min(kTurned, tile.count - r);
    transpose(tile.x + r * tile.x_step, tile.x_step, lines, tile.extent, turned, kTurned);
    softmax_columns({turned, turned, kTurned, kTurned, tile.extent, lines, tile.log});
    transpose(turned, kTurned, tile.extent, lines, tile.y + r * tile.y_step, tile.y_step);
  }
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_columns);

SoftmaxFn softmax_rows_function() { return BRAZE_DISPATCH(softmax_rows); }
SoftmaxFn softmax_columns_function() { return BRAZE_DISPATCH(softmax_columns); }

}  // namespace braze::cpu
#endif
