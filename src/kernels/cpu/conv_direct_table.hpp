// Fills a table of inner loops with every shape whose accumulators fit the registers.
#pragma once

#include <utility>

#include "kernels/cpu/conv_direct.hpp"

namespace braze::cpu {

/// Most broadcasts beside NV vectors: NV * B accumulators, NV loaded vectors and a broadcast at a
/// time.
constexpr int conv_broadcasts(int registers, int vectors) {
  const int most = (registers - vectors - 1) / vectors;
  return most < kConvMaxBroadcasts ? most : kConvMaxBroadcasts;
}

/// table[nv][b] = Tile<b, nv>::kFn for each nv of Vectors.
template <template <int, int> class Tile, int Registers, int... Vectors>
constexpr void fill_table(ConvTileTable& table) {
  const auto fill_row = [&table]<int NV, int... B>(std::integral_constant<int, NV>,
                                                   std::integer_sequence<int, B...>) {
    ((table[NV][B + 1] = Tile<B + 1, NV>::kFn), ...);
  };
  (fill_row(std::integral_constant<int, Vectors>{},
            std::make_integer_sequence<int, conv_broadcasts(Registers, Vectors)>{}),
   ...);
}

}  // namespace braze::cpu
