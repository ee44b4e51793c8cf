// A machine whose GPU is emulated.
#pragma once

#include "kernels/cuda/families.hpp"
#include "machine.hpp"
#include "support/simt/emulated_gpu.hpp"

namespace braze::test {

/// A machine with an emulated GPU of this architecture.
inline Machine emulated(int sm, Precision precision) {
  Machine machine{cuda_device(sm), cuda::registry(), std::make_shared<EmulatedGpu>(sm), sm,
                  std::make_shared<EmulatedCompiler>(sm)};
  machine.device.tf32 = precision == Precision::kTf32;
  return machine;
}

}  // namespace braze::test
