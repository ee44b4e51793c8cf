// What every kernel header builds on: integer names, and the few words that differ between the GPU
// and its emulation in the tests.
#pragma once

#ifdef BRAZE_EMULATED
#include <simt.hpp>
#else
/// `name` is the block's dynamic shared memory, 1024-byte aligned.
#define BRAZE_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#endif

/// Repeats a loop body for i in [0, n): n is a constant, the indices end as registers.
#define BRAZE_UNROLL _Pragma("unroll")

namespace braze::device {

using i64 = long long;
using u64 = unsigned long long;
using u32 = unsigned int;
using u16 = unsigned short;

template <class T>
__device__ __forceinline__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
__device__ __forceinline__ constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

}  // namespace braze::device
