// The functions of braze/ptx.cuh for emulated kernels, which include this instead.
#pragma once

#include "braze/device.cuh"
#include "formats.hpp"

namespace braze::device {

__device__ __forceinline__ float half_to_float(u16 x) { return simt::half_value(x); }
__device__ __forceinline__ u16 float_to_half(float x) { return simt::half_bits(x); }
__device__ __forceinline__ float bfloat16_to_float(u16 x) { return simt::bfloat16_value(x); }
__device__ __forceinline__ u16 float_to_bfloat16(float x) { return simt::bfloat16_bits(x); }
__device__ __forceinline__ u32 float_to_tf32(float x) { return simt::tf32_bits(x); }

__device__ __forceinline__ void halves_to_floats(u32 x, float& low, float& high) {
  low = half_to_float(static_cast<u16>(x));
  high = half_to_float(static_cast<u16>(x >> 16));
}
__device__ __forceinline__ void bfloat16s_to_floats(u32 x, float& low, float& high) {
  low = bfloat16_to_float(static_cast<u16>(x));
  high = bfloat16_to_float(static_cast<u16>(x >> 16));
}
__device__ __forceinline__ u32 floats_to_halves(float low, float high) {
  return float_to_half(low) | static_cast<u32>(float_to_half(high)) << 16;
}
__device__ __forceinline__ u32 floats_to_bfloat16s(float low, float high) {
  return float_to_bfloat16(low) | static_cast<u32>(float_to_bfloat16(high)) << 16;
}
__device__ __forceinline__ float max_or_nan(float a, float b) { return a != a || a > b ? a : b; }
__device__ __forceinline__ float min_or_nan(float a, float b) { return a != a || a < b ? a : b; }
__device__ __forceinline__ u32 halves_max_or_nan(u32 a, u32 b) {
  float a0, a1, b0, b1;
  halves_to_floats(a, a0, a1);
  halves_to_floats(b, b0, b1);
  return floats_to_halves(max_or_nan(a0, b0), max_or_nan(a1, b1));
}
__device__ __forceinline__ u32 bfloat16s_max_or_nan(u32 a, u32 b) {
  float a0, a1, b0, b1;
  bfloat16s_to_floats(a, a0, a1);
  bfloat16s_to_floats(b, b0, b1);
  return floats_to_bfloat16s(max_or_nan(a0, b0), max_or_nan(a1, b1));
}
__device__ __forceinline__ float exp2_approximate(float x) { return __builtin_exp2f(x); }
__device__ __forceinline__ float reciprocal_approximate(float x) { return 1.0f / x; }

__device__ __forceinline__ void grid_dependency_wait() { simt::runtime->dependency_wait(); }
__device__ __forceinline__ void launch_dependents() {}

template <class T>
__device__ __forceinline__ T* in_register(T* p) {
  return p;
}

template <int N>
__device__ __forceinline__ void load_words_if(u32 (&x)[N], const void* p, bool exist,
                                              u32 otherwise = 0) {
  struct alignas(4 * N) Together {
    u32 at[N];
  };
  Together y;
  for (int i = 0; i < N; ++i) y.at[i] = otherwise;
  if (exist) y = *static_cast<const Together*>(p);
  for (int i = 0; i < N; ++i) x[i] = y.at[i];
}

__device__ __forceinline__ u32 shared_address(const void* p) {
  return simt::runtime->shared_address(p);
}

__device__ __forceinline__ void bar_sync(u32 id, u32 count, const char* file = __builtin_FILE(),
                                         int line = __builtin_LINE()) {
  simt::runtime->barrier(id, count, simt::Reduction::kNone, 0, file, line);
}
__device__ __forceinline__ void bar_arrive(u32 id, u32 count) { simt::runtime->arrive(id, count); }

#define BRAZE_SIMT_MATRICES(name, kMeeting, N)                        \
  __device__ __forceinline__ void name(u32(&r)[N], const void* row) { \
    simt::MatrixRows part{r, const_cast<void*>(row)};                 \
    simt::runtime->meet(simt::Meeting::kMeeting, &part, ~0u);         \
  }
BRAZE_SIMT_MATRICES(ldmatrix_x1, kLdmatrix1, 1)
BRAZE_SIMT_MATRICES(ldmatrix_x2, kLdmatrix2, 2)
BRAZE_SIMT_MATRICES(ldmatrix_x4, kLdmatrix4, 4)
BRAZE_SIMT_MATRICES(ldmatrix_x1_trans, kLdmatrix1Trans, 1)
BRAZE_SIMT_MATRICES(ldmatrix_x2_trans, kLdmatrix2Trans, 2)
BRAZE_SIMT_MATRICES(ldmatrix_x4_trans, kLdmatrix4Trans, 4)
#undef BRAZE_SIMT_MATRICES
#define BRAZE_SIMT_MATRICES(name, kMeeting, N)                        \
  __device__ __forceinline__ void name(void* row, const u32(&r)[N]) { \
    simt::MatrixRows part{const_cast<u32*>(r), row};                  \
    simt::runtime->meet(simt::Meeting::kMeeting, &part, ~0u);         \
  }
BRAZE_SIMT_MATRICES(stmatrix_x1, kStmatrix1, 1)
BRAZE_SIMT_MATRICES(stmatrix_x2, kStmatrix2, 2)
BRAZE_SIMT_MATRICES(stmatrix_x4, kStmatrix4, 4)
BRAZE_SIMT_MATRICES(stmatrix_x1_trans, kStmatrix1Trans, 1)
BRAZE_SIMT_MATRICES(stmatrix_x2_trans, kStmatrix2Trans, 2)
BRAZE_SIMT_MATRICES(stmatrix_x4_trans, kStmatrix4Trans, 4)
#undef BRAZE_SIMT_MATRICES

__device__ __forceinline__ void cp_async_16(void* shared, const void* global, int valid_bytes) {
  simt::runtime->copy_async(shared, global, 16, static_cast<u32>(valid_bytes));
}
__device__ __forceinline__ void cp_async_4(void* shared, const void* global, bool valid) {
  simt::runtime->copy_async(shared, global, 4, valid ? 4 : 0);
}
__device__ __forceinline__ void cp_async_commit() { simt::runtime->copy_commit(); }
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  simt::runtime->copy_wait(N);
}

struct half;
struct bfloat16;

template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  static_assert(kSame<T, half> || kSame<T, bfloat16>, "half or bfloat16");
  simt::Mma part{d, a, b};
  simt::runtime->meet(
      kSame<T, half> ? simt::Meeting::kMma16816Half : simt::Meeting::kMma16816Bfloat16, &part, ~0u);
}
template <class T>
__device__ __forceinline__ void mma_m16n8k8(float (&d)[4], const u32 (&a)[2], const u32 (&b)[1]) {
  static_assert(kSame<T, half> || kSame<T, bfloat16>, "half or bfloat16");
  simt::Mma part{d, a, b};
  simt::runtime->meet(
      kSame<T, half> ? simt::Meeting::kMma1688Half : simt::Meeting::kMma1688Bfloat16, &part, ~0u);
}
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const u32 (&a)[4],
                                                 const u32 (&b)[2]) {
  simt::Mma part{d, a, b};
  simt::runtime->meet(simt::Meeting::kMma1688Tf32, &part, ~0u);
}

// wmma: fragments are opaque.

template <int N>
__device__ __forceinline__ void wmma_load(simt::Meeting meeting, u32 (&r)[N], const void* p, u32 ld,
                                          bool transposed) {
  simt::WmmaMatrix part{r, const_cast<void*>(p), ld, transposed};
  simt::runtime->meet(meeting, &part, ~0u);
}
template <int N>
__device__ __forceinline__ void wmma_load_a_row(u32 (&a)[N], const void* p, u32 ld) {
  wmma_load(simt::Meeting::kWmmaLoadA, a, p, ld, false);
}
template <int N>
__device__ __forceinline__ void wmma_load_a_col(u32 (&a)[N], const void* p, u32 ld) {
  wmma_load(simt::Meeting::kWmmaLoadA, a, p, ld, true);
}
template <int N>
__device__ __forceinline__ void wmma_load_b_row(u32 (&b)[N], const void* p, u32 ld) {
  wmma_load(simt::Meeting::kWmmaLoadB, b, p, ld, false);
}
template <int N>
__device__ __forceinline__ void wmma_load_b_col(u32 (&b)[N], const void* p, u32 ld) {
  wmma_load(simt::Meeting::kWmmaLoadB, b, p, ld, true);
}
template <class T, int N>
__device__ __forceinline__ void wmma_mma(float (&d)[8], const u32 (&a)[N], const u32 (&b)[N]) {
  simt::Mma part{d, a, b};
  simt::runtime->meet(
      kSame<T, half> ? simt::Meeting::kWmmaMmaHalf : simt::Meeting::kWmmaMmaBfloat16, &part, ~0u);
}
__device__ __forceinline__ void wmma_store_row(float* p, const float (&d)[8], u32 ld) {
  simt::WmmaMatrix part{const_cast<float*>(d), p, ld, false};
  simt::runtime->meet(simt::Meeting::kWmmaStore, &part, ~0u);
}
__device__ __forceinline__ void wmma_store_col(float* p, const float (&d)[8], u32 ld) {
  simt::WmmaMatrix part{const_cast<float*>(d), p, ld, true};
  simt::runtime->meet(simt::Meeting::kWmmaStore, &part, ~0u);
}

__device__ __forceinline__ void load_once(u32 (&v)[4], const void* p) {
  for (int i = 0; i < 4; ++i) v[i] = static_cast<const u32*>(p)[i];
}
template <int V>
__device__ __forceinline__ void load_from_l2(float (&v)[V], const float* p) {
  for (int i = 0; i < V; ++i) v[i] = p[i];
}

}  // namespace braze::device
