// libFuzzer: bytes of a tensor file, .npy or TensorProto.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "base/error.hpp"
#include "model/npy.hpp"
#include "model/read_tensor.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto owner = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  const auto bytes = std::as_bytes(std::span(*owner));
  try {
    if (braze::looks_like_npy(bytes)) {
      (void)braze::parse_npy(bytes, owner, "fuzz");
    } else {
      (void)braze::parse_tensor_proto(bytes, "/nonexistent", "fuzz");
    }
  } catch (const braze::Exception& exception) {
    if (exception.error().code != braze::ErrorCode::kInput) std::abort();
  }
  return 0;
}
