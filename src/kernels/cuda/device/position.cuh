// Which elements of a result a thread makes.
#pragma once

#include "braze/epilogue.cuh"

namespace braze::device {

/// Group `number` of V channels of a pixel of the result. kPixelsTogether: pixels count fastest, as
/// they lie in model layout; else channels.
template <class Index, int V, bool kPixelsTogether>
__device__ __forceinline__ Position position_of(Index number, const OutputParameters& out) {
  const Index vectors = static_cast<Index>(ceil_div(out.channels, V));
  const Index pixels = static_cast<Index>(out.pixels);
  Position at;
  if constexpr (kPixelsTogether) {
    const Index line = number / pixels, n = line / vectors;
    at.pixel = static_cast<int>(number - line * pixels);
    at.channel = static_cast<int>(line - n * vectors) * V;
    at.n = static_cast<int>(n);
  } else {
    const Index line = number / vectors, n = line / pixels;
    at.channel = static_cast<int>(number - line * vectors) * V;
    at.pixel = static_cast<int>(line - n * pixels);
    at.n = static_cast<int>(n);
  }
  at.count = min(V, out.channels - at.channel);
  return at;
}

}  // namespace braze::device
