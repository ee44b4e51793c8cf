// Quantized operators: what the files of the family share.
//
//   quantized.cpp       the family's row
//   quantize.cpp        Quantize and Dequantize
//   qlinear_conv.cpp    QLinearConv in exact integers
//   quantized_loops.cpp the inner loops, which compilers turn into vectors
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

/// acc[k][o] += sum over t of w[t][k] * x[o * stride + t * dilation] for o < count and
/// kQuantizedOutputs k.
struct IntegerRow {
  const std::int32_t* x = nullptr;
  std::int64_t stride = 1, dilation = 1, count = 0;
  const std::int32_t* w = nullptr;
  std::int64_t taps = 1;
  std::int32_t* acc = nullptr;
  std::int64_t acc_step = 0;
};
/// to[i] = from[i * step] - zero for i < count; from is int8, or uint8 if `is_unsigned`.
struct WidenRow {
  const void* from = nullptr;
  bool is_unsigned = false;
  std::int64_t step = 1, count = 0;
  std::int32_t zero = 0;
  std::int32_t* to = nullptr;
};
struct IntegerLoops {
  void (*accumulate)(const IntegerRow&) = nullptr;
  void (*widen)(const WidenRow&) = nullptr;
};
const IntegerLoops& integer_loops();  // of the instruction set in force

}  // namespace braze::cpu
