// cuDNN, loaded.
#pragma once

#include <memory>
#include <string>

#include "exec/cuda/cudnn_api.hpp"
#include "exec/cuda/library.hpp"

namespace braze::cuda {

/// With 9.0 the graph API became a library of its own.
inline constexpr Version kOldestCudnn = {9, 0, 0};

struct Cudnn : api::CudnnTable {
  std::shared_ptr<const OpenLibrary> library;
  Version version;

  /// "CUDNN_STATUS_NOT_SUPPORTED (what it says of the last error)"
  [[nodiscard]] std::string describe(api::CudnnStatus status) const;
};

/// Opens cuDNN; starts nothing on any GPU. kDevice if it is not found, too old, or not whole.
std::shared_ptr<const Cudnn> open_cudnn(const SearchPath& search);

}  // namespace braze::cuda
