// The 16-bit floating point formats, by their bits.
#pragma once

#include <cstdint>

namespace braze {

/// IEEE binary16: 5 exponent bits, 10 mantissa bits.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  /// Rounds once, to nearest even; too large values become infinite.
  explicit Float16(double value);
  explicit operator double() const;
};

/// The upper half of a binary32: 8 exponent bits, 7 mantissa bits.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(double value);
  explicit operator double() const;
};

}  // namespace braze
