// A divisor that the host prepares: kernels divide by it with one multiplication.
#pragma once

namespace braze::device {

/// n / divisor = (2 n magic / 2^32) >> shift for all n below 2^31.
struct Divisor {
  int divisor;
  unsigned magic, shift;
};

}  // namespace braze::device
