// Vectors of pairs. Compiled once per Highway target, hence the toggled guard.
#if defined(BRAZE_KERNELS_CPU_SIMD_PAIRS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef BRAZE_KERNELS_CPU_SIMD_PAIRS_HPP
#undef BRAZE_KERNELS_CPU_SIMD_PAIRS_HPP
#else
#define BRAZE_KERNELS_CPU_SIMD_PAIRS_HPP
#endif

#include <hwy/highway.h>

#include "kernels/cpu/simd.hpp"

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace braze::cpu::HWY_NAMESPACE {

/// to[2 i] = a[i], to[2 i + 1] = b[i].
template <class D>
HWY_INLINE void store_pairs(D d, hn::Vec<D> a, hn::Vec<D> b, hn::TFromD<D>* to) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4 && hn::MaxLanes(D{}) == 16) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    const __m512i first = hn::BitCast(hn::RebindToUnsigned<D>(), a).raw;
    const __m512i second = hn::BitCast(hn::RebindToUnsigned<D>(), b).raw;
    _mm512_storeu_si512(to, _mm512_permutex2var_epi32(first, low, second));
    _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi32(first, high, second));
    return;
  }
#endif
  hn::StoreInterleaved2(a, b, d, to);
}

/// a[i] = from[2 i], b[i] = from[2 i + 1].
template <class D>
HWY_INLINE void load_pairs(D d, const hn::TFromD<D>* from, hn::Vec<D>& a, hn::Vec<D>& b) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const auto low = hn::LoadU(d, from), high = hn::LoadU(d, from + hn::Lanes(d));
    a = hn::ConcatEven(d, high, low);
    b = hn::ConcatOdd(d, high, low);
  } else {
    hn::LoadInterleaved2(d, from, a, b);
  }
}

/// Likewise the first n of them; lanes / 2 <= n <= lanes. Four bytes each.
template <class D>
HWY_INLINE void load_pairs_n(D d, const hn::TFromD<D>* from, std::size_t n, hn::Vec<D>& a,
                             hn::Vec<D>& b) {
  const std::size_t lanes = hn::Lanes(d);
  const auto low = hn::LoadU(d, from), high = load_n(d, from + lanes, 2 * n - lanes);
  a = hn::ConcatEven(d, high, low);
  b = hn::ConcatOdd(d, high, low);
}

}  // namespace braze::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // not HWY_SCALAR
#endif  // guard
