// What of CUDA is here: GPUs, and the libraries that Braze opens.
#pragma once

#include <vector>

#include "braze/braze.hpp"
#include "exec/cuda/library.hpp"

namespace braze::cuda {

/// Rows "cuda" (the driver), "cuda:0" and on (GPUs), "nvrtc", "cudnn", "cudart": each says what was
/// found, or why not. Never throws but for lack of memory; makes no context on any GPU.
std::vector<DeviceReport> report_devices(const SearchPath& search);

}  // namespace braze::cuda
