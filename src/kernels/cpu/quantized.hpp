// Quantized operators: what the files of the family share.
//
//   quantized.cpp       the family's row
//   quantize.cpp        Quantize and Dequantize
//   qlinear_conv.cpp    QLinearConv in exact integers
//   quantized_loops.cpp the inner loops
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/kernel.hpp"

namespace braze::cpu {

std::unique_ptr<Kernel> quantize(const Plan& plan, const KernelPlan& kernel);
std::unique_ptr<Kernel> qlinear_conv(const Plan& plan, const KernelPlan& kernel);

/// `count` elements a step apart, in elements. Scale and zero point of element i are those at i *
/// parameter_step.
struct QuantizeRun {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t x_step = 1, y_step = 1, count = 0;
  const float* scale = nullptr;
  const void* zero = nullptr;  // of the integers' dtype; null: 0
  std::int64_t parameter_step = 0;
};
using QuantizeFn = void (*)(const QuantizeRun&);
/// y = saturate(round(x / scale) + zero), x float, y int8, uint8, int16 or uint16. Of the
/// instruction set in force.
QuantizeFn quantize_function(DType to);
/// y = (x - zero) * scale, y float, x one of these or int32.
QuantizeFn dequantize_function(DType from);

/// Output channels that are summed together.
inline constexpr std::int64_t kQuantizedOutputs = 4;

/// Integers in pairs: a 32-bit word holds two signed 16-bit ones, of two input channels; the first
/// is the low half.
///   sums[k][o] = sum over rows r, taps t of x[r * row_step + tap_offsets[t] + o] . w[r][t][k]
/// for o < count and kQuantizedOutputs k, where . multiplies the halves and adds. Reads and writes
/// whole vectors of o.
struct IntegerRows {
  const std::int32_t* x = nullptr;
  std::int64_t rows = 0, row_step = 0;
  const std::int64_t* tap_offsets = nullptr;
  std::int64_t taps = 0;
  const std::int32_t* w = nullptr;
  std::int32_t* sums = nullptr;
  std::int64_t sum_step = 0, count = 0;
};
/// to[i] = the pair (from[i * step] - zero, second[i * step] - zero) for i < count; 0 instead where
/// second is null. The bytes are int8, or uint8 if `is_unsigned`.
struct WidenRow {
  const void* from = nullptr;
  const void* second = nullptr;
  bool is_unsigned = false;
  std::int64_t step = 1, count = 0;
  std::int32_t zero = 0;
  std::int32_t* to = nullptr;
};
/// y[i * y_step] = saturate(round((sums[i] + bias) * scale * channel_scale) + zero), in double; the
/// low byte of the result is stored.
struct RequantizeRow {
  const std::int32_t* sums = nullptr;
  std::int64_t count = 0;
  double bias = 0, scale = 1, channel_scale = 1, zero = 0, low = 0, high = 0;
  std::uint8_t* y = nullptr;
  std::int64_t y_step = 1;
};
struct IntegerLoops {
  std::int64_t lanes = 1;
  void (*sum)(const IntegerRows&) = nullptr;
  void (*widen)(const WidenRow&) = nullptr;
  void (*requantize)(const RequantizeRow&) = nullptr;
};
const IntegerLoops& integer_loops();  // of the instruction set in force

}  // namespace braze::cpu
