// What memory is filled with before kernels are timed on it.
#pragma once

#include <cstddef>
#include <span>

#include "braze/tensor.hpp"

namespace braze {

/// Floats uniform in [-1, 1), the same at every call; everything else zero, which is a legal index.
void fill_with_numbers(std::span<std::byte> bytes, DType dtype);

}  // namespace braze
