#include "model/read_tensor.hpp"

#include <onnx/onnx.pb.h>

#include <limits>

#include "base/error.hpp"
#include "base/file.hpp"
#include "model/decode_tensor.hpp"
#include "model/encode_tensor.hpp"
#include "model/external_data.hpp"
#include "model/npy.hpp"

namespace braze {

Tensor parse_tensor_proto(std::span<const std::byte> bytes, const std::filesystem::path& folder,
                          const std::string& name) {
  onnx::TensorProto proto;
  const bool fits = bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (!fits || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      !proto.has_data_type()) {
    fail(ErrorCode::kInput, "'{}' is neither an .npy file nor an ONNX TensorProto", name);
  }
  model::ExternalData external(folder);
  try {
    return model::decode_tensor(proto, external, fmt::format("'{}'", name));
  } catch (const Exception& exception) {
    const ErrorCode code = exception.error().code;
    const bool wrong = code == ErrorCode::kModelInvalid || code == ErrorCode::kUnsupported;
    throw Exception(Error{wrong ? ErrorCode::kInput : code, exception.error().message});
  }
}

Tensor read_tensor_file(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file, ErrorCode::kInput);
  if (looks_like_npy(mapped->bytes())) return parse_npy(mapped->bytes(), mapped, file.string());
  return parse_tensor_proto(mapped->bytes(), file.parent_path(), file.string());
}

void write_tensor_file(const std::filesystem::path& file, const Tensor& tensor) {
  if (file.extension() == ".npy") return write_npy(file, tensor);
  if (file.extension() != ".pb") {
    fail(ErrorCode::kUsage, "cannot write '{}': expected a name that ends in .npy or .pb",
         file.string());
  }
  constexpr std::size_t kMost = std::numeric_limits<int>::max() - (1 << 20);
  if (tensor.bytes() > kMost) {
    fail(ErrorCode::kInput, "cannot write '{}': protobuf ends at 2 GB; .npy has no limit",
         file.string());
  }
  onnx::TensorProto proto;
  model::encode_tensor(tensor, file.stem().string(), proto);
  const std::string bytes = proto.SerializeAsString();
  write_file(file, std::as_bytes(std::span(bytes)));
}

}  // namespace braze
