// Weights on their way into a packed constant.
#pragma once

#include <cstddef>

#include "braze/tensor.hpp"

namespace braze::cuda {

/// To the nearest float with a mantissa of 10 bits, ties away from zero, as cvt.rna.tf32 does.
float rounded_to_tf32(float x);

/// Writes x as fp16, bf16 or fp32; `tf32`: fp32 that is rounded to tf32.
void write_element(std::byte* to, float x, DType dtype, bool tf32);

}  // namespace braze::cuda
