// The words of CUDA C++, for kernels that are compiled as ordinary C++ and run by simt::Machine: a
// thread is a fiber, __syncthreads and warp collectives are where fibers meet. Kernel sources are
// compiled with this included first; no standard header, as with NVRTC.
#pragma once

#include "runtime.hpp"

namespace braze::simt {
extern Runtime* runtime;  // defined once, by the text that EmulatedCompiler adds to each source

template <class Parameters>
unsigned parameter_bytes(void (*)(Parameters)) {
  return sizeof(Parameters);
}
template <class Parameters>
void call(void (*kernel)(Parameters), const void* parameters) {
  kernel(*static_cast<const Parameters*>(parameters));
}
}  // namespace braze::simt

// ---- Declarations

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __constant__ static const
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)

/// `name` is the block's dynamic shared memory, 1024-byte aligned.
#define BRAZE_DYNAMIC_SHARED(name) unsigned char* const name = ::braze::simt::runtime->shared

using uint3 = braze::simt::Index;
#define threadIdx (::braze::simt::runtime->self->index)
#define blockIdx (::braze::simt::runtime->block)
#define blockDim (::braze::simt::runtime->block_dim)
#define gridDim (::braze::simt::runtime->grid_dim)
#define warpSize 32

using size_t = decltype(sizeof(0));

#define BRAZE_SIMT_VECTORS(T, name, two, four)                       \
  struct alignas(two) name##2 { T x, y; };                           \
  struct name##3 { T x, y, z; };                                     \
  struct alignas(four) name##4 { T x, y, z, w; };                    \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
BRAZE_SIMT_VECTORS(float, float, 8, 16)
BRAZE_SIMT_VECTORS(double, double, 16, 16)
BRAZE_SIMT_VECTORS(int, int, 8, 16)
BRAZE_SIMT_VECTORS(short, short, 4, 8)
BRAZE_SIMT_VECTORS(unsigned short, ushort, 4, 8)
BRAZE_SIMT_VECTORS(signed char, char, 2, 4)
BRAZE_SIMT_VECTORS(unsigned char, uchar, 2, 4)
BRAZE_SIMT_VECTORS(long long, longlong, 16, 16)
BRAZE_SIMT_VECTORS(unsigned long long, ulonglong, 16, 16)
#undef BRAZE_SIMT_VECTORS
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---- Barriers

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  braze::simt::runtime->barrier(0, 0, braze::simt::Reduction::kNone, 0, file, line);
}
inline int __syncthreads_count(int predicate, const char* file = __builtin_FILE(),
                               int line = __builtin_LINE()) {
  return braze::simt::runtime->barrier(0, 0, braze::simt::Reduction::kCount, predicate, file, line);
}
inline int __syncthreads_and(int predicate, const char* file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
  return braze::simt::runtime->barrier(0, 0, braze::simt::Reduction::kAnd, predicate, file, line);
}
inline int __syncthreads_or(int predicate, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
  return braze::simt::runtime->barrier(0, 0, braze::simt::Reduction::kOr, predicate, file, line);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  braze::simt::runtime->meet(braze::simt::Meeting::kSyncWarp, nullptr, mask);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) { braze::simt::runtime->yield(); }
inline void __trap() { braze::simt::runtime->fail("__trap()"); }

// ---- Warp collectives

namespace braze::simt {

inline unsigned ballot(unsigned mask, bool predicate) {
  Ballot part{predicate, 0};
  runtime->meet(Meeting::kBallot, &part, mask);
  return part.result;
}

template <class T>
inline T shuffle(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 32 or 64 bits");
  Shuffle part{source, 0, 0};
  __builtin_memcpy(&part.value, &value, sizeof(T));
  runtime->meet(Meeting::kShuffle, &part, mask);
  T result;
  __builtin_memcpy(&result, &part.result, sizeof(T));
  return result;
}

/// Once in a while something that a thread may spin on lets the others run.
inline void poll() {
  if (++runtime->polls % 64 == 0) runtime->yield();
}

}  // namespace braze::simt

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return braze::simt::ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) {
  return braze::simt::ballot(mask, predicate != 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return braze::simt::ballot(mask, predicate == 0) == 0;
}
inline unsigned __activemask() { return braze::simt::runtime->active_lanes(); }

template <class T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const unsigned self = braze::simt::runtime->self->lane, w = static_cast<unsigned>(width);
  return braze::simt::shuffle(mask, value,
                              (self & ~(w - 1)) | (static_cast<unsigned>(lane) & (w - 1)));
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const unsigned self = braze::simt::runtime->self->lane, w = static_cast<unsigned>(width);
  const unsigned source = self ^ static_cast<unsigned>(bits);
  return braze::simt::shuffle(mask, value, source < (self & ~(w - 1)) + w ? source : self);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned self = braze::simt::runtime->self->lane, w = static_cast<unsigned>(width);
  return braze::simt::shuffle(mask, value, (self & (w - 1)) >= delta ? self - delta : self);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned self = braze::simt::runtime->self->lane, w = static_cast<unsigned>(width);
  return braze::simt::shuffle(mask, value, (self & (w - 1)) + delta < w ? self + delta : self);
}

// ---- Atomics: fibers give way only where they say so

#define BRAZE_SIMT_ATOMIC(name, T, expression)  \
  inline T name(T* p, T x) {                    \
    braze::simt::poll();                        \
    const T old = *static_cast<volatile T*>(p); \
    *static_cast<volatile T*>(p) = expression;  \
    return old;                                 \
  }
#define BRAZE_SIMT_ATOMICS(T)                             \
  BRAZE_SIMT_ATOMIC(atomicMax, T, old < x ? x : old)      \
  BRAZE_SIMT_ATOMIC(atomicMin, T, x < old ? x : old)      \
  BRAZE_SIMT_ATOMIC(atomicAnd, T, old& x)                 \
  BRAZE_SIMT_ATOMIC(atomicOr, T, old | x)                 \
  BRAZE_SIMT_ATOMIC(atomicXor, T, old ^ x)                \
  inline T atomicCAS(T* p, T compare, T x) {              \
    braze::simt::poll();                                  \
    const T old = *static_cast<volatile T*>(p);           \
    if (old == compare) *static_cast<volatile T*>(p) = x; \
    return old;                                           \
  }
BRAZE_SIMT_ATOMICS(int)
BRAZE_SIMT_ATOMICS(unsigned)
BRAZE_SIMT_ATOMICS(unsigned long long)
BRAZE_SIMT_ATOMIC(atomicAdd, int, old + x)
BRAZE_SIMT_ATOMIC(atomicAdd, unsigned, old + x)
BRAZE_SIMT_ATOMIC(atomicAdd, unsigned long long, old + x)
BRAZE_SIMT_ATOMIC(atomicAdd, float, old + x)
BRAZE_SIMT_ATOMIC(atomicAdd, double, old + x)
BRAZE_SIMT_ATOMIC(atomicSub, int, old - x)
BRAZE_SIMT_ATOMIC(atomicSub, unsigned, old - x)
BRAZE_SIMT_ATOMIC(atomicExch, int, x)
BRAZE_SIMT_ATOMIC(atomicExch, unsigned, x)
BRAZE_SIMT_ATOMIC(atomicExch, unsigned long long, x)
BRAZE_SIMT_ATOMIC(atomicExch, float, x)
BRAZE_SIMT_ATOMIC(atomicInc, unsigned, old >= x ? 0 : old + 1)
BRAZE_SIMT_ATOMIC(atomicDec, unsigned, old == 0 || old > x ? x : old - 1)
#undef BRAZE_SIMT_ATOMICS
#undef BRAZE_SIMT_ATOMIC

// ---- Loads and bits

template <class T>
inline T __ldg(const T* p) {
  return *p;
}
template <class T>
inline T __ldcg(const T* p) {
  return *p;
}
template <class T>
inline T __ldcs(const T* p) {
  return *p;
}
template <class T>
inline void __stcg(T* p, T x) {
  *p = x;
}
template <class T>
inline void __stcs(T* p, T x) {
  *p = x;
}

#define BRAZE_SIMT_BITS(name, To, From)               \
  inline To name(From x) {                            \
    To y;                                             \
    static_assert(sizeof x == sizeof y, "same bits"); \
    __builtin_memcpy(&y, &x, sizeof y);               \
    return y;                                         \
  }
BRAZE_SIMT_BITS(__float_as_uint, unsigned, float)
BRAZE_SIMT_BITS(__float_as_int, int, float)
BRAZE_SIMT_BITS(__uint_as_float, float, unsigned)
BRAZE_SIMT_BITS(__int_as_float, float, int)
BRAZE_SIMT_BITS(__double_as_longlong, long long, double)
BRAZE_SIMT_BITS(__longlong_as_double, double, long long)
#undef BRAZE_SIMT_BITS

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
/// Byte i of the result is the one of {a, b} (a has 0 to 3) that nibble i of `selector` names.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned y = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 15u;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (nibble & 7u))) & 255u;
    if (nibble & 8u) byte = byte & 128u ? 255u : 0u;
    y |= byte << (8 * i);
  }
  return y;
}
/// The high (left) or low (right) half of {high, low} shifted by the low five bits of `shift`.
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long x = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(x << (shift & 31u) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long x = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(x >> (shift & 31u));
}

// ---- Arithmetic

#define BRAZE_SIMT_MINMAX(T)                                 \
  inline constexpr T min(T a, T b) { return b < a ? b : a; } \
  inline constexpr T max(T a, T b) { return a < b ? b : a; }
BRAZE_SIMT_MINMAX(int)
BRAZE_SIMT_MINMAX(unsigned)
BRAZE_SIMT_MINMAX(long)
BRAZE_SIMT_MINMAX(unsigned long)
BRAZE_SIMT_MINMAX(long long)
BRAZE_SIMT_MINMAX(unsigned long long)
#undef BRAZE_SIMT_MINMAX
// As CUDA has them: what is mixed is compared as unsigned.
#define BRAZE_SIMT_MINMAX(T, A, B)                                                       \
  inline constexpr T min(A a, B b) { return min(static_cast<T>(a), static_cast<T>(b)); } \
  inline constexpr T max(A a, B b) { return max(static_cast<T>(a), static_cast<T>(b)); }
BRAZE_SIMT_MINMAX(unsigned, int, unsigned)
BRAZE_SIMT_MINMAX(unsigned, unsigned, int)
BRAZE_SIMT_MINMAX(unsigned long long, long long, unsigned long long)
BRAZE_SIMT_MINMAX(unsigned long long, unsigned long long, long long)
#undef BRAZE_SIMT_MINMAX
inline float min(float a, float b) { return __builtin_fminf(a, b); }
inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
inline double min(double a, double b) { return __builtin_fmin(a, b); }
inline double max(double a, double b) { return __builtin_fmax(a, b); }

#define BRAZE_SIMT_FUNCTION(name)           \
  extern "C" float name##f(float) noexcept; \
  extern "C" double name(double) noexcept;  \
  inline float name(float x) { return name##f(x); }
BRAZE_SIMT_FUNCTION(exp)
BRAZE_SIMT_FUNCTION(exp2)
BRAZE_SIMT_FUNCTION(expm1)
BRAZE_SIMT_FUNCTION(log)
BRAZE_SIMT_FUNCTION(log2)
BRAZE_SIMT_FUNCTION(log10)
BRAZE_SIMT_FUNCTION(log1p)
BRAZE_SIMT_FUNCTION(sqrt)
BRAZE_SIMT_FUNCTION(cbrt)
BRAZE_SIMT_FUNCTION(sin)
BRAZE_SIMT_FUNCTION(cos)
BRAZE_SIMT_FUNCTION(tan)
BRAZE_SIMT_FUNCTION(asin)
BRAZE_SIMT_FUNCTION(acos)
BRAZE_SIMT_FUNCTION(atan)
BRAZE_SIMT_FUNCTION(sinh)
BRAZE_SIMT_FUNCTION(cosh)
BRAZE_SIMT_FUNCTION(tanh)
BRAZE_SIMT_FUNCTION(asinh)
BRAZE_SIMT_FUNCTION(acosh)
BRAZE_SIMT_FUNCTION(atanh)
BRAZE_SIMT_FUNCTION(erf)
BRAZE_SIMT_FUNCTION(erfc)
BRAZE_SIMT_FUNCTION(fabs)
BRAZE_SIMT_FUNCTION(floor)
BRAZE_SIMT_FUNCTION(ceil)
BRAZE_SIMT_FUNCTION(trunc)
BRAZE_SIMT_FUNCTION(round)
BRAZE_SIMT_FUNCTION(rint)
BRAZE_SIMT_FUNCTION(nearbyint)
#undef BRAZE_SIMT_FUNCTION
#define BRAZE_SIMT_FUNCTION(name)                  \
  extern "C" float name##f(float, float) noexcept; \
  extern "C" double name(double, double) noexcept; \
  inline float name(float x, float y) { return name##f(x, y); }
BRAZE_SIMT_FUNCTION(pow)
BRAZE_SIMT_FUNCTION(fmod)
BRAZE_SIMT_FUNCTION(fmin)
BRAZE_SIMT_FUNCTION(fmax)
BRAZE_SIMT_FUNCTION(atan2)
BRAZE_SIMT_FUNCTION(copysign)
BRAZE_SIMT_FUNCTION(remainder)
#undef BRAZE_SIMT_FUNCTION
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double fma(double, double, double) noexcept;
extern "C" float ldexpf(float, int) noexcept;
extern "C" int abs(int) noexcept;
extern "C" long long llabs(long long) noexcept;
inline long long abs(long long x) { return llabs(x); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbit(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }

/// To integers CUDA's conversions saturate, and NaN is 0.
inline int __float2int_rn(float x) {
  if (x != x) return 0;
  if (x >= 2147483648.0f) return 2147483647;
  if (x < -2147483648.0f) return -2147483647 - 1;
  return static_cast<int>(rintf(x));
}
inline int __float2int_rd(float x) { return __float2int_rn(floorf(x)); }
inline int __float2int_ru(float x) { return __float2int_rn(ceilf(x)); }
inline int __float2int_rz(float x) { return __float2int_rn(truncf(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

inline long long clock64() {
#if defined(__x86_64__)
  return static_cast<long long>(__builtin_ia32_rdtsc());
#else
  static long long ticks = 0;
  return ++ticks;
#endif
}
inline int clock() { return static_cast<int>(clock64()); }

extern "C" int printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
#define assert(condition) \
  ((condition) ? void() : ::braze::simt::runtime->fail("assertion failed: " #condition))
