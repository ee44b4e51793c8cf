// The NVRTC that users would get for an architecture: sm_70 is compiled by NVRTC 12, which may lie
// beside NVRTC 13.
#pragma once

#include "base/error.hpp"
#include "exec/cuda/nvrtc.hpp"

namespace braze::cuda::testing {

/// Null, and why, where there is none.
inline std::shared_ptr<const Nvrtc> nvrtc_for(int sm, std::string& why) {
  try {
    return open_nvrtc(SearchPath::of_process(), sm);
  } catch (const Exception& failure) {
    why = failure.what();
    return nullptr;
  }
}

}  // namespace braze::cuda::testing
