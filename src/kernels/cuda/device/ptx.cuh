// Every instruction that CUDA C++ has no name for, one function each. Kernels use these names only,
// so that they also compile against the emulation in the tests.
#pragma once

#include "braze/device.cuh"

#ifdef BRAZE_EMULATED
#include <ptx.hpp>
#else

namespace braze::device {

// Number formats; to 16 bits rounds to nearest even.

__device__ __forceinline__ float half_to_float(u16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ __forceinline__ u16 float_to_half(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float bfloat16_to_float(u16 x) {
  return __uint_as_float(static_cast<u32>(x) << 16);
}
__device__ __forceinline__ u16 float_to_bfloat16(float x) {
#if __CUDA_ARCH__ >= 800
  u16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
#else
  const u32 bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<u16>((bits >> 16) | 0x40u);
  return static_cast<u16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}
// Two 16-bit numbers of a word, the first in its low half.

__device__ __forceinline__ void halves_to_floats(u32 x, float& low, float& high) {
  asm("{ .reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(low), "=f"(high)
      : "r"(x));
}
__device__ __forceinline__ void bfloat16s_to_floats(u32 x, float& low, float& high) {
  low = __uint_as_float(x << 16);
  high = __uint_as_float(x & 0xffff0000u);
}
__device__ __forceinline__ u32 floats_to_halves(float low, float high) {
#if __CUDA_ARCH__ >= 800
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
#else
  return float_to_half(low) | static_cast<u32>(float_to_half(high)) << 16;
#endif
}
__device__ __forceinline__ u32 floats_to_bfloat16s(float low, float high) {
#if __CUDA_ARCH__ >= 800
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
#else
  return float_to_bfloat16(low) | static_cast<u32>(float_to_bfloat16(high)) << 16;
#endif
}

// The larger, the smaller of two; NaN if either is.

__device__ __forceinline__ float max_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a != a || a > b ? a : b;
#endif
}
__device__ __forceinline__ float min_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a != a || a < b ? a : b;
#endif
}
__device__ __forceinline__ u32 halves_max_or_nan(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
  u32 y;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
#else
  float a0, a1, b0, b1;
  halves_to_floats(a, a0, a1);
  halves_to_floats(b, b0, b1);
  return floats_to_halves(max_or_nan(a0, b0), max_or_nan(a1, b1));
#endif
}
__device__ __forceinline__ u32 bfloat16s_max_or_nan(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
  u32 y;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
#else
  float a0, a1, b0, b1;
  bfloat16s_to_floats(a, a0, a1);
  bfloat16s_to_floats(b, b0, b1);
  return floats_to_bfloat16s(max_or_nan(a0, b0), max_or_nan(a1, b1));
#endif
}

/// 2^x and 1 / x to about 2 units in the last place; subnormal results are zeros.
__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The bits of x with the 10-bit mantissa that the tensor cores read.
__device__ __forceinline__ u32 float_to_tf32(float x) {
#if __CUDA_ARCH__ >= 800
  u32 y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
#else
  return __float_as_uint(x);
#endif
}

// Programmatic dependent launch: everything before wait() may overlap with the kernel before.

__device__ __forceinline__ void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// p, a pointer into global memory, computed once and kept in registers.
template <class T>
__device__ __forceinline__ T* in_register(T* p) {
  asm("" : "+l"(p));
  __builtin_assume(__isGlobal(p));
  return p;
}

/// x[i] = p[i], or `otherwise` where the words (1, 2 or 4, aligned to as many) do not exist; no
/// branch.
template <int N>
__device__ __forceinline__ void load_words_if(u32 (&x)[N], const void* p, bool exist,
                                              u32 otherwise = 0) {
  static_assert(N == 1 || N == 2 || N == 4, "words that are loaded at once");
  if constexpr (N == 1) {
    asm volatile(
        "{ .reg .pred e; setp.ne.b32 e, %2, 0; mov.b32 %0, %3;\n"
        "@e ld.global.b32 %0, [%1]; }"
        : "=&r"(x[0])
        : "l"(p), "r"(static_cast<int>(exist)), "r"(otherwise));
  } else if constexpr (N == 2) {
    asm volatile(
        "{ .reg .pred e; setp.ne.b32 e, %3, 0; mov.b32 %0, %4; mov.b32 %1, %4;\n"
        "@e ld.global.v2.b32 {%0, %1}, [%2]; }"
        : "=&r"(x[0]), "=&r"(x[1])
        : "l"(p), "r"(static_cast<int>(exist)), "r"(otherwise));
  } else {
    asm volatile(
        "{ .reg .pred e; setp.ne.b32 e, %5, 0; mov.b32 %0, %6; mov.b32 %1, %6; mov.b32 %2, %6;\n"
        "mov.b32 %3, %6; @e ld.global.v4.b32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(x[0]), "=&r"(x[1]), "=&r"(x[2]), "=&r"(x[3])
        : "l"(p), "r"(static_cast<int>(exist)), "r"(otherwise));
  }
}

/// The 32-bit address of a pointer into shared memory.
__device__ __forceinline__ u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

// sm_70: 16x16 matrices on the tensor cores. Which lane holds what of a fragment is unspecified:
// it is loaded, multiplied and stored whole. Pointers lie in shared memory, aligned to 32 bytes; ld
// is the pitch in elements, 16 bytes or a multiple. Fragments of half have 8 registers, of bfloat16
// 4; those of float 8.

__device__ __forceinline__ void wmma_load_a_row(u32 (&a)[8], const void* p, u32 ld) {
  asm volatile(
      "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], "
      "%9;"
      : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]), "=r"(a[4]), "=r"(a[5]), "=r"(a[6]),
        "=r"(a[7])
      : "r"(shared_address(p)), "r"(ld)
      : "memory");
}
/// From b's transpose, row by row.
__device__ __forceinline__ void wmma_load_b_col(u32 (&b)[8], const void* p, u32 ld) {
  asm volatile(
      "wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], "
      "%9;"
      : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]), "=r"(b[4]), "=r"(b[5]), "=r"(b[6]),
        "=r"(b[7])
      : "r"(shared_address(p)), "r"(ld)
      : "memory");
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void wmma_load_a_row(u32 (&a)[4], const void* p, u32 ld) {
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(shared_address(p)), "r"(ld)
               : "memory");
}
__device__ __forceinline__ void wmma_load_b_col(u32 (&b)[4], const void* p, u32 ld) {
  asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(shared_address(p)), "r"(ld)
               : "memory");
}
template <class T>
__device__ __forceinline__ void wmma_mma(float (&d)[8], const u32 (&a)[4], const u32 (&b)[4]) {
  asm volatile(
      "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, "
      "{%0, %1, %2, %3, %4, %5, %6, %7};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]));
}
#endif
template <class T>
__device__ __forceinline__ void wmma_mma(float (&d)[8], const u32 (&a)[8], const u32 (&b)[8]) {
  asm volatile(
      "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, "
      "{%0, %1, %2, %3, %4, %5, %6, %7};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]),
        "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
}
__device__ __forceinline__ void wmma_store_row(float* p, const float (&d)[8], u32 ld) {
  asm volatile(
      "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, "
      "%9;" ::"r"(shared_address(p)),
      "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]),
      "r"(ld)
      : "memory");
}

/// v[i] = p[i], of what other blocks of this launch have written: not from the L1 cache. V of 4 and
/// more is aligned to 16 bytes.
template <int V>
__device__ __forceinline__ void load_from_l2(float (&v)[V], const float* p) {
  if constexpr (V % 4 == 0) {
#pragma unroll
    for (int i = 0; i < V; i += 4)
      asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v[i]), "=f"(v[i + 1]), "=f"(v[i + 2]), "=f"(v[i + 3])
                   : "l"(p + i)
                   : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i)
      asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v[i]) : "l"(p + i) : "memory");
  }
}

/// 16 bytes that this launch does not write and that nobody reads again soon.
__device__ __forceinline__ void load_once(u32 (&v)[4], const void* p) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "l"(p));
}

// sm_75: fragments from shared memory. Lane l gives the address of row l % 8 of matrix l / 8: eight
// 16-bit elements. Lane l gets, of each matrix, row l / 4, columns 2 (l % 4) and the next (or, from
// the transposed matrix, those).

#if __CUDA_ARCH__ >= 750
__device__ __forceinline__ void ldmatrix_x4(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(u32 (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}
#endif

// sm_80: copies from global to shared memory that run in the background.

#if __CUDA_ARCH__ >= 800
/// 16 bytes, of which the last 16 - valid_bytes are zeros instead.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, int valid_bytes) {
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
      "l"(global), "r"(valid_bytes)
      : "memory");
}
__device__ __forceinline__ void cp_async_4(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(valid ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most N of this thread's groups are on their way.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// d += a b on the tensor cores. Lane l holds, with g = l / 4 and t = l % 4:
//   d[0..1] row g, columns 2t and 2t + 1; d[2..3] row g + 8
//   16-bit: a[0] row g, k 2t..2t+1; a[1] row g + 8; a[2], a[3] the same at k + 8
//           b[0] k 2t..2t+1, column g; b[1] at k + 8
//   tf32:   a[0] row g, k t; a[1] row g + 8; a[2], a[3] the same at k + 4; b[0] k t, column g; b[1]
//           at k + 4

struct half;
struct bfloat16;

template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  if constexpr (kSame<T, half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    static_assert(kSame<T, bfloat16>, "mma_m16n8k16 multiplies half or bfloat16");
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const u32 (&a)[4],
                                                 const u32 (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
// There are none: done at once, nothing to wait for.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, int valid_bytes) {
  if (valid_bytes == 16) {
    *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
  } else {
    for (int i = 0; i < 16; ++i)
      static_cast<unsigned char*>(shared)[i] =
          i < valid_bytes ? static_cast<const unsigned char*>(global)[i] : 0;
  }
}
__device__ __forceinline__ void cp_async_commit() {}
template <int N>
__device__ __forceinline__ void cp_async_wait() {}
#endif

}  // namespace braze::device

#endif  // BRAZE_EMULATED
