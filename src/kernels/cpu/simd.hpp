// What the vector kernels share. Compiled once per Highway target (see isa.hpp), hence the toggled
// guard.
#if defined(BRAZE_KERNELS_CPU_SIMD_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef BRAZE_KERNELS_CPU_SIMD_HPP
#undef BRAZE_KERNELS_CPU_SIMD_HPP
#else
#define BRAZE_KERNELS_CPU_SIMD_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

/// After a lambda's parameters: inlined, and compiled for the target of the function around it.
#define BRAZE_INLINE HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The target's whole vector of floats.
using F32 = hn::ScalableTag<float>;
using Vec32 = hn::Vec<F32>;
inline constexpr F32 kF32{};
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(F32{}));

/// Vector registers of the target: bounds how many accumulators a kernel may hold.
#if HWY_TARGET == HWY_AVX2
inline constexpr int kRegisters = 16;
#elif HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
inline constexpr int kRegisters = 8;
#else
inline constexpr int kRegisters = 32;
#endif

/// f(integral_constant 0) ... f(integral_constant N - 1), unrolled by the compiler.
template <int N, class F>
HWY_INLINE void unroll([[maybe_unused]] F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) BRAZE_INLINE {
    (f(std::integral_constant<int, I>{}), ...);
  }(std::make_integer_sequence<int, N>{});
}

/// True where a masked access touches only the elements of the mask.
inline constexpr bool kExactMasks = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

/// The first n lanes from memory, the others zero. Reads n elements only. 0 <= n <= lanes.
template <class D>
HWY_INLINE hn::Vec<D> load_n(D d, const hn::TFromD<D>* p, std::size_t n) {
  if constexpr (kExactMasks && sizeof(hn::TFromD<D>) >= 4) {
    return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  } else {
    alignas(64) hn::TFromD<D> lanes[hn::MaxLanes(D{})] = {};
    for (std::size_t i = 0; i < n; ++i) lanes[i] = p[i];
    return hn::Load(d, lanes);
  }
}

/// Stores the first n lanes and touches nothing behind them. 0 <= n <= lanes.
template <class D>
HWY_INLINE void store_n(hn::Vec<D> v, D d, hn::TFromD<D>* p, std::size_t n) {
  if constexpr (kExactMasks && sizeof(hn::TFromD<D>) >= 4) {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
  } else {
    alignas(64) hn::TFromD<D> lanes[hn::MaxLanes(D{})];
    hn::Store(v, d, lanes);
    for (std::size_t i = 0; i < n; ++i) p[i] = lanes[i];
  }
}

/// Keeps a loaded vector in its register: compilers like to load it again for every use. Costs no
/// instruction.
template <class V>
HWY_INLINE void pin([[maybe_unused]] V& v) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  asm("" : "+v"(v.raw));
#endif
}

/// max(x, bound) and min(x, bound) where x = NaN gives NaN: x86 returns the second operand if
/// either is NaN, Arm the NaN.
template <class V>
HWY_INLINE V max_keep_nan(V x, V bound) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#else
  return hn::Max(bound, x);
#endif
}
template <class V>
HWY_INLINE V min_keep_nan(V x, V bound) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
#else
  return hn::Min(bound, x);
#endif
}

/// Clamps a matrix of vectors in place, NaN kept. An infinite bound costs nothing.
template <class V, std::size_t R, std::size_t C>
HWY_INLINE void clamp_keep_nan(V (&v)[R][C], float lo, float hi) {
  const hn::DFromV<V> d;
  const auto each = [&](auto f) BRAZE_INLINE {
    unroll<static_cast<int>(R)>([&](auto i) BRAZE_INLINE {
      unroll<static_cast<int>(C)>([&](auto j) BRAZE_INLINE { v[i][j] = f(v[i][j]); });
    });
  };
  if (lo > -std::numeric_limits<float>::infinity()) {
    const V low = hn::Set(d, lo);
    each([&](V x) BRAZE_INLINE { return max_keep_nan(x, low); });
  }
  if (hi < std::numeric_limits<float>::infinity()) {
    const V high = hn::Set(d, hi);
    each([&](V x) BRAZE_INLINE { return min_keep_nan(x, high); });
  }
}

}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
