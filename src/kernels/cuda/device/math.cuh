// The element-wise functions of epilogues and pointwise kernels, in float, as ONNX defines them:
// what is NaN stays NaN, in relu, clip, min and max too.
#pragma once

#include "braze/ptx.cuh"

namespace braze::device {

inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000);

__device__ __forceinline__ float relu(float x) { return max_or_nan(x, 0.0f); }
__device__ __forceinline__ float leaky_relu(float x, float slope) { return x < 0 ? slope * x : x; }
__device__ __forceinline__ float clip(float x, float low, float high) {
  return min_or_nan(max_or_nan(x, low), high);
}
/// 1 / (1 + exp(-x)), to about 2 + |x| units in the last place, without a division
__device__ __forceinline__ float sigmoid(float x) {
  return reciprocal_approximate(1.0f + exp2_approximate(x * -1.4426950408889634f));
}
__device__ __forceinline__ float hard_sigmoid(float x, float slope, float shift) {
  return clip(slope * x + shift, 0.0f, 1.0f);
}
__device__ __forceinline__ float hard_swish(float x) {
  return x * clip(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
}
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }
__device__ __forceinline__ float softplus(float x) {
  return (x > 0 ? x : (x != x ? x : 0.0f)) + log1pf(expf(-fabsf(x)));
}
__device__ __forceinline__ float mish(float x) { return x * tanhf(softplus(x)); }
__device__ __forceinline__ float gelu(float x) {
  return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}
__device__ __forceinline__ float gelu_tanh(float x) {
  return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
__device__ __forceinline__ float elu(float x, float alpha) { return x < 0 ? alpha * expm1f(x) : x; }
__device__ __forceinline__ float selu(float x, float alpha, float scale) {
  return scale * elu(x, alpha);
}
__device__ __forceinline__ float celu(float x, float alpha) {
  return x < 0 ? fminf(0.0f, alpha * expm1f(x / alpha)) : x;
}
__device__ __forceinline__ float softsign(float x) { return x / (1.0f + fabsf(x)); }
__device__ __forceinline__ float thresholded_relu(float x, float threshold) {
  return x > threshold ? x : 0.0f;
}
__device__ __forceinline__ float reciprocal(float x) { return 1.0f / x; }
__device__ __forceinline__ float sign(float x) { return x > 0 ? 1.0f : (x < 0 ? -1.0f : x); }

__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ float sub(float a, float b) { return a - b; }
__device__ __forceinline__ float mul(float a, float b) { return a * b; }
__device__ __forceinline__ float div(float a, float b) { return a / b; }
/// The sign of the divisor.
__device__ __forceinline__ float mod(float a, float b) {
  const float rest = fmodf(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
__device__ __forceinline__ float minimum(float a, float b) { return min_or_nan(a, b); }
__device__ __forceinline__ float maximum(float a, float b) { return max_or_nan(a, b); }
__device__ __forceinline__ float prelu(float a, float slope) { return a < 0 ? slope * a : a; }

}  // namespace braze::device
