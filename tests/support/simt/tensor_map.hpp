// TMA descriptors of the emulated GPU.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/cuda/kernel.hpp"

namespace braze::simt {

/// kInternal naming what the CUDA driver would refuse.
std::array<std::byte, 128> encode(const cuda::TensorMap& map, void* address);

}  // namespace braze::simt
