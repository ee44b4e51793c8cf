#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "kernels/cpu/isa.hpp"

#include <limits>

#include "base/error.hpp"
#include "kernels/cpu/quantized.hpp"

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {
namespace {

/// The nearest integer, ties to even, for |x| < 2^22.
HWY_INLINE float nearest(float x) {
  constexpr float kShift = 12582912;  // 1.5 * 2^23: the unit of numbers as large is 1
  return (x + kShift) - kShift;
}

template <class T>
HWY_INLINE T quantized(float x, float scale, float zero) {
  constexpr auto kLow = static_cast<float>(std::numeric_limits<T>::lowest());
  constexpr auto kHigh = static_cast<float>(std::numeric_limits<T>::max());
  constexpr float kFar = 262144;  // beyond every zero point and range
  float q = x / scale;
  q = q == q ? q : -zero;  // NaN has no value of its own: 0
  q = q < -kFar ? -kFar : q;
  q = q > kFar ? kFar : q;
  float y = nearest(q) + zero;
  y = y < kLow ? kLow : y;
  y = y > kHigh ? kHigh : y;
  return static_cast<T>(static_cast<std::int32_t>(y));
}

template <class T>
void quantize_run(const QuantizeRun& run) {
  const float* HWY_RESTRICT x = static_cast<const float*>(run.x);
  T* HWY_RESTRICT y = static_cast<T*>(run.y);
  const auto zero_at = [&run](std::int64_t i) {
    return run.zero == nullptr ? 0.0F : static_cast<float>(static_cast<const T*>(run.zero)[i]);
  };
  if (run.parameter_step == 0 && run.x_step == 1 && run.y_step == 1) {
    const float scale = run.scale[0], zero = zero_at(0);
    for (std::int64_t i = 0; i < run.count; ++i) y[i] = quantized<T>(x[i], scale, zero);
    return;
  }
  for (std::int64_t i = 0; i < run.count; ++i) {
    const std::int64_t at = i * run.parameter_step;
    y[i * run.y_step] = quantized<T>(x[i * run.x_step], run.scale[at], zero_at(at));
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

void accumulate_row(const IntegerRow& row) {
  static_assert(kQuantizedOutputs == 4);
  std::int32_t* HWY_RESTRICT a0 = row.acc;
  std::int32_t* HWY_RESTRICT a1 = row.acc + row.acc_step;
  std::int32_t* HWY_RESTRICT a2 = row.acc + 2 * row.acc_step;
  std::int32_t* HWY_RESTRICT a3 = row.acc + 3 * row.acc_step;
  for (std::int64_t t = 0; t < row.taps; ++t) {
    const std::int32_t* HWY_RESTRICT x = row.x + t * row.dilation;
    const std::int32_t* w = row.w + t * kQuantizedOutputs;
    const std::int32_t w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
    const auto add = [&](std::int64_t i, std::int32_t value) HWY_ATTR
        __attribute__((always_inline)) {
          a0[i] += w0 * value;
          a1[i] += w1 * value;
          a2[i] += w2 * value;
          a3[i] += w3 * value;
        };
    if (row.stride == 1) {
      for (std::int64_t i = 0; i < row.count; ++i) add(i, x[i]);
    } else {
      for (std::int64_t i = 0; i < row.count; ++i) add(i, x[i * row.stride]);
    }
  }
}

template <class T>
HWY_INLINE void widen_as(const WidenRow& row) {
  const T* HWY_RESTRICT from = static_cast<const T*>(row.from);
  std::int32_t* HWY_RESTRICT to = row.to;
  if (row.step == 1) {
    for (std::int64_t i = 0; i < row.count; ++i) to[i] = std::int32_t{from[i]} - row.zero;
  } else {
    for (std::int64_t i = 0; i < row.count; ++i)
      to[i] = std::int32_t{from[i * row.step]} - row.zero;
  }
}

void widen_row(const WidenRow& row) {
  row.is_unsigned ? widen_as<std::uint8_t>(row) : widen_as<std::int8_t>(row);
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
  static constexpr IntegerLoops kLoops = {accumulate_row, widen_row};
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
