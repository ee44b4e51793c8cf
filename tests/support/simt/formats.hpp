// The 16-bit formats, by their bits. C++17, and no header: kernels include this too.
#pragma once

namespace braze::simt {

inline unsigned bits_of(float x) {
  unsigned bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float value_of(unsigned bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

/// Exact. The product with 2^112 moves the exponent and makes subnormals normal.
inline float half_value(unsigned short x) {
  const unsigned magnitude = (x & 0x7fffu) << 13, sign = (x & 0x8000u) << 16;
  const unsigned infinite = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;  // or NaN
  return value_of(bits_of(value_of(magnitude) * 0x1p112f) | infinite | sign);
}

/// Rounds to nearest even; NaN gives 0x7fff, as the GPU does.
inline unsigned short half_bits(float x) {
  const unsigned bits = bits_of(x), magnitude = bits & 0x7fffffffu;
  const unsigned sign = bits >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);  // >= 65520
  if (magnitude < 0x38800000u)  // subnormal: the sum leaves multiples of 2^-24 in the low bits
    return static_cast<unsigned short>(sign |
                                       (bits_of(value_of(magnitude) + 0.5f) - bits_of(0.5f)));
  const unsigned rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<unsigned short>(sign | (rounded - 0x38000000u) >> 13);
}

inline float bfloat16_value(unsigned short x) { return value_of(static_cast<unsigned>(x) << 16); }

/// Rounds to nearest even; NaN gives 0x7fff, as the GPU does.
inline unsigned short bfloat16_bits(float x) {
  const unsigned bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// The bits with 10 bits of mantissa, ties away from zero.
inline unsigned tf32_bits(float x) {
  const unsigned bits = bits_of(x);
  if ((bits & 0x7fffffffu) >= 0x7f800000u) return bits;
  return (bits + 0x1000u) & ~0x1fffu;
}

}  // namespace braze::simt
