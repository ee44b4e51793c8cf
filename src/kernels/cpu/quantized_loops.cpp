#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/cpu/isa.hpp"

#include <algorithm>
#include <limits>

#include "kernels/cpu/quantized.hpp"
#include "kernels/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

using I32 = hn::RebindToSigned<F32>;
using VecI32 = hn::Vec<I32>;
constexpr I32 kI32{};

/// saturate(round(x / scale) + zero) of a vector; NaN has no value of its own and becomes 0.
template <class T>
HWY_INLINE VecI32 quantized(Vec32 x, Vec32 scale, Vec32 zero) {
  const Vec32 low = hn::Set(kF32, static_cast<float>(std::numeric_limits<T>::lowest()));
  const Vec32 high = hn::Set(kF32, static_cast<float>(std::numeric_limits<T>::max()));
  const Vec32 far =
      hn::Set(kF32, 262144.0F);  // beyond every zero point and range; sums up to there are exact
  const Vec32 quotient = hn::Div(x, scale);
  const Vec32 known = hn::IfThenElse(hn::IsNaN(quotient), hn::Neg(zero), quotient);
  const Vec32 near = hn::Min(hn::Max(known, hn::Neg(far)), far);
  const Vec32 y = hn::Add(hn::Round(near), zero);
  return hn::ConvertTo(kI32, hn::Min(hn::Max(y, low), high));
}

template <class T>
void quantize_run(const QuantizeRun& run) {
  const float* HWY_RESTRICT x = static_cast<const float*>(run.x);
  T* HWY_RESTRICT y = static_cast<T*>(run.y);
  const auto* zero = static_cast<const T*>(run.zero);
  // Brings the run side by side, in blocks.
  constexpr std::int64_t kBlock = 64;
  alignas(64) float xs[kBlock] = {}, scales[kBlock], zeros[kBlock];
  alignas(64) std::int32_t ys[kBlock];
  std::fill_n(scales, kBlock, run.scale[0]);
  std::fill_n(zeros, kBlock, zero == nullptr ? 0.0F : static_cast<float>(zero[0]));
  for (std::int64_t begin = 0; begin < run.count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, run.count - begin);
    const float* from = x + begin * run.x_step;
    const bool in_place = run.x_step == 1 && n == kBlock;
    for (std::int64_t i = 0; !in_place && i < n; ++i) xs[i] = from[i * run.x_step];
    if (run.parameter_step != 0) {
      for (std::int64_t i = 0; i < n; ++i) {
        scales[i] = run.scale[(begin + i) * run.parameter_step];
        zeros[i] =
            zero == nullptr ? 0.0F : static_cast<float>(zero[(begin + i) * run.parameter_step]);
      }
    }
    const float* block = in_place ? from : xs;
    for (std::int64_t i = 0; i < kBlock; i += kLanes) {
      hn::Store(quantized<T>(hn::LoadU(kF32, block + i), hn::Load(kF32, scales + i),
                             hn::Load(kF32, zeros + i)),
                kI32, ys + i);
    }
    T* to = y + begin * run.y_step;
    if (run.y_step == 1) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(ys[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i * run.y_step] = static_cast<T>(ys[i]);
    }
  }
}

/// Differences of 16-bit integers are exact floats; those of wider ones are multiplied in double.
template <class T>
HWY_INLINE float dequantized(T x, T zero, float scale) {
  if constexpr (sizeof(T) <= 2) {
    return static_cast<float>(static_cast<std::int32_t>(x) - static_cast<std::int32_t>(zero)) *
           scale;
  } else {
    return static_cast<float>(static_cast<double>(std::int64_t{x} - std::int64_t{zero}) *
                              static_cast<double>(scale));
  }
}

template <class T>
void dequantize_run(const QuantizeRun& run) {
  const T* HWY_RESTRICT x = static_cast<const T*>(run.x);
  float* HWY_RESTRICT y = static_cast<float*>(run.y);
  const auto zero_at = [&run](std::int64_t i) {
    return run.zero == nullptr ? T{0} : static_cast<const T*>(run.zero)[i];
  };
  if (run.parameter_step == 0 && run.x_step == 1 && run.y_step == 1) {
    const float scale = run.scale[0];
    const T zero = zero_at(0);
    for (std::int64_t i = 0; i < run.count; ++i) y[i] = dequantized(x[i], zero, scale);
    return;
  }
  for (std::int64_t i = 0; i < run.count; ++i) {
    const std::int64_t at = i * run.parameter_step;
    y[i * run.y_step] = dequantized(x[i * run.x_step], zero_at(at), run.scale[at]);
  }
}

/// sum + low(x) * low(w) + high(x) * high(w), of the signed halves of each 32-bit lane.
HWY_INLINE VecI32 add_products(VecI32 sum, VecI32 x, VecI32 w) {
#if HWY_TARGET == HWY_AVX3
  return VecI32{_mm512_add_epi32(sum.raw, _mm512_madd_epi16(x.raw, w.raw))};
#elif HWY_TARGET == HWY_AVX2
  return VecI32{_mm256_add_epi32(sum.raw, _mm256_madd_epi16(x.raw, w.raw))};
#else
  const auto low = [](VecI32 v) { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  const auto high = [](VecI32 v) { return hn::ShiftRight<16>(v); };
  return hn::Add(sum, hn::Add(hn::Mul(low(x), low(w)), hn::Mul(high(x), high(w))));
#endif
}

/// Outputs [o, o + N vectors) of all kQuantizedOutputs channels.
template <int N>
HWY_INLINE void sum_block(const IntegerRows& rows, std::int64_t o) {
  constexpr auto kOutputs = static_cast<int>(kQuantizedOutputs);
  VecI32 sum[kOutputs][N];
  unroll<kOutputs>([&](auto k) BRAZE_INLINE {
    unroll<N>([&](auto j) BRAZE_INLINE { sum[k][j] = hn::Zero(kI32); });
  });
  const std::int32_t* w = rows.w;
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const std::int32_t* x_row = rows.x + r * rows.row_step + o;
    for (std::int64_t t = 0; t < rows.taps; ++t, w += kOutputs) {
      const std::int32_t* from = x_row + rows.tap_offsets[t];
      VecI32 x[N];
      unroll<N>([&](auto j) BRAZE_INLINE { x[j] = hn::LoadU(kI32, from + j * kLanes); });
      unroll<kOutputs>([&](auto k) BRAZE_INLINE {
        const VecI32 weight = hn::Set(kI32, w[k]);
        unroll<N>([&](auto j) BRAZE_INLINE { sum[k][j] = add_products(sum[k][j], x[j], weight); });
      });
    }
  }
  unroll<kOutputs>([&](auto k) BRAZE_INLINE {
    unroll<N>([&](auto j) BRAZE_INLINE {
      hn::StoreU(sum[k][j], kI32, rows.sums + k * rows.sum_step + o + j * kLanes);
    });
  });
}

void sum_rows(const IntegerRows& rows) {
  std::int64_t o = 0;
  for (; o + kLanes < rows.count; o += 2 * kLanes) sum_block<2>(rows, o);
  for (; o < rows.count; o += kLanes) sum_block<1>(rows, o);
}

template <class T>
HWY_INLINE void widen_as(const WidenRow& row) {
  const T* HWY_RESTRICT from = static_cast<const T*>(row.from);
  const T* HWY_RESTRICT second = static_cast<const T*>(row.second);
  std::int32_t* HWY_RESTRICT to = row.to;
  const auto pair = [](std::int32_t low, std::int32_t high) HWY_ATTR
      __attribute__((always_inline)) {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(high) << 16) |
                                         (static_cast<std::uint32_t>(low) & 0xffff));
      };
  const std::int32_t zero = row.zero;
  const std::int64_t step = row.step;
  if (second == nullptr) {
    for (std::int64_t i = 0; i < row.count; ++i)
      to[i] = pair(std::int32_t{from[i * step]} - zero, 0);
  } else if (step == 1) {
    for (std::int64_t i = 0; i < row.count; ++i)
      to[i] = pair(std::int32_t{from[i]} - zero, std::int32_t{second[i]} - zero);
  } else {
    for (std::int64_t i = 0; i < row.count; ++i)
      to[i] = pair(std::int32_t{from[i * step]} - zero, std::int32_t{second[i * step]} - zero);
  }
}

void widen_row(const WidenRow& row) {
  row.is_unsigned ? widen_as<std::uint8_t>(row) : widen_as<std::int8_t>(row);
}

void requantize_row(const RequantizeRow& row) {
  constexpr double kFar = 1e6;  // beyond every zero point and range
  constexpr double kShift =
      6755399441055744;  // 1.5 * 2^52: the unit of numbers as large is 1, so that adding it rounds
  const std::int32_t* HWY_RESTRICT sums = row.sums;
  const auto requantized = [&row](std::int32_t sum) HWY_ATTR __attribute__((always_inline)) {
    double value = (static_cast<double>(sum) + row.bias) * row.scale * row.channel_scale;
    value = value > -kFar ? value : -kFar;
    value = value < kFar ? value : kFar;
    value = (value + kShift) - kShift + row.zero;
    value = value > row.low ? value : row.low;
    value = value < row.high ? value : row.high;
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(value));
  };
  std::uint8_t* HWY_RESTRICT y = row.y;
  if (row.y_step == 1) {
    for (std::int64_t i = 0; i < row.count; ++i) y[i] = requantized(sums[i]);
  } else {
    for (std::int64_t i = 0; i < row.count; ++i) y[i * row.y_step] = requantized(sums[i]);
  }
}

QuantizeFn find_quantize(DType to) {
  switch (to) {
    case DType::kInt8:
      return quantize_run<std::int8_t>;
    case DType::kUInt8:
      return quantize_run<std::uint8_t>;
    case DType::kInt16:
      return quantize_run<std::int16_t>;
    case DType::kUInt16:
      return quantize_run<std::uint16_t>;
    default:
      return nullptr;
  }
}

QuantizeFn find_dequantize(DType from) {
  switch (from) {
    case DType::kInt8:
      return dequantize_run<std::int8_t>;
    case DType::kUInt8:
      return dequantize_run<std::uint8_t>;
    case DType::kInt16:
      return dequantize_run<std::int16_t>;
    case DType::kUInt16:
      return dequantize_run<std::uint16_t>;
    case DType::kInt32:
      return dequantize_run<std::int32_t>;
    default:
      return nullptr;
  }
}

const IntegerLoops* find_integer_loops() {
  static constexpr IntegerLoops kLoops = {kLanes, sum_rows, widen_row, requantize_row};
  return &kLoops;
}

}  // namespace
}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace braze::cpu {

HWY_EXPORT(find_quantize);
HWY_EXPORT(find_dequantize);
HWY_EXPORT(find_integer_loops);

QuantizeFn quantize_function(DType to) { return BRAZE_DISPATCH(find_quantize)(to); }
QuantizeFn dequantize_function(DType from) { return BRAZE_DISPATCH(find_dequantize)(from); }
const IntegerLoops& integer_loops() { return *BRAZE_DISPATCH(find_integer_loops)(); }

}  // namespace braze::cpu
#endif
