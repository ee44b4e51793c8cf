// Division by what the host knows.
#pragma once

#include "braze/device.cuh"
#include "braze/divisor.h"

namespace braze::device {

/// n / d. Index is u32, n then below 2^31, or i64.
template <class Index>
__device__ __forceinline__ Index quotient(Index n, const Divisor& d) {
  if constexpr (kSame<Index, u32>) {
    return __umulhi(n << 1, d.magic) >> d.shift;
  } else {
    return n / d.divisor;
  }
}

/// n becomes n / d; returns the rest.
template <class Index>
__device__ __forceinline__ int split_off(Index& n, const Divisor& d) {
  const Index q = quotient(n, d);
  const int rest = static_cast<int>(n - q * static_cast<Index>(d.divisor));
  n = q;
  return rest;
}

}  // namespace braze::device
