#include "exec/cuda/cudnn.hpp"

#include <array>

#include "base/error.hpp"

namespace braze::cuda {

std::string Cudnn::describe(api::CudnnStatus status) const {
  std::array<char, 1024> detail{};
  get_last_error_string(detail.data(), detail.size() - 1);
  const char* name = get_error_string(status);
  const std::string text = name != nullptr ? name : fmt::format("cuDNN status {}", status);
  return detail[0] == '\0' ? text : fmt::format("{} ({})", text, detail.data());
}

std::shared_ptr<const Cudnn> open_cudnn(const SearchPath& search) {
  const Search found =
      open_library(Library::kCudnn, search, [](const OpenLibrary& library) -> std::string {
        if (library.version() >= kOldestCudnn) return "";
        return fmt::format("it is cuDNN {}; Braze needs {} or newer", to_string(library.version()),
                           to_string(kOldestCudnn));
      });
  if (found.library == nullptr) fail(ErrorCode::kDevice, "{}", found.explain(Library::kCudnn));
  auto cudnn = std::make_shared<Cudnn>();
  cudnn->library = found.library;
  cudnn->version = found.library->version();
  const char* missing = nullptr;
#define BRAZE_LOAD(member, name, result, parameters)                                       \
  cudnn->member = reinterpret_cast<decltype(cudnn->member)>(found.library->symbol(#name)); \
  if (cudnn->member == nullptr) missing = #name;
  BRAZE_CUDNN_FUNCTIONS(BRAZE_LOAD)
#undef BRAZE_LOAD
  if (missing != nullptr)
    fail(ErrorCode::kDevice, "cuDNN {} {} has no {}; it is not whole", to_string(cudnn->version),
         found.library->path().string(), missing);
  return cudnn;
}

}  // namespace braze::cuda
