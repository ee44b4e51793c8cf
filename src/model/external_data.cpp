#include "model/external_data.hpp"

#include <onnx/onnx.pb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace braze::model {
namespace {

struct Range {
  std::string location;
  std::size_t offset = 0;
  std::optional<std::size_t> length;
};

std::size_t parse_size(const std::string& key, const std::string& text, const std::string& where) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) {
    fail(ErrorCode::kModelInvalid, "{}: external {} is '{}', expected a number", where, key, text);
  }
  return value;
}

Range parse_range(const onnx::TensorProto& proto, const std::string& where) {
  Range range;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") range.location = entry.value();
    if (entry.key() == "offset") range.offset = parse_size("offset", entry.value(), where);
    if (entry.key() == "length") range.length = parse_size("length", entry.value(), where);
  }
  if (range.location.empty()) {
    fail(ErrorCode::kModelInvalid, "{}: external data without a location", where);
  }
  return range;
}

/// A relative path that stays inside of the folder it starts from.
bool stays_inside(const std::filesystem::path& path) {
  return path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

}  // namespace

Tensor ExternalData::read(const onnx::TensorProto& proto, DType dtype, Shape shape,
                          const std::string& where) {
  const Range range = parse_range(proto, where);
  if (!stays_inside(range.location) || range.location.find('\0') != std::string::npos) {
    fail(ErrorCode::kModelInvalid,
         "{}: external location '{}' leaves the model's folder; expected a relative path without "
         "'..'",
         where, range.location);
  }
  std::shared_ptr<const MappedFile>& file = files_[range.location];
  if (file == nullptr) file = MappedFile::open(folder_ / range.location, ErrorCode::kModelInvalid);

  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  const std::size_t size = file->bytes().size();
  if (range.length.value_or(bytes) != bytes) {
    fail(ErrorCode::kModelInvalid, "{}: {} bytes of external data, expected {} for {}{}", where,
         *range.length, bytes, to_string(dtype), to_string(shape));
  }
  if (range.offset > size || bytes > size - range.offset) {
    fail(ErrorCode::kModelInvalid, "{}: external data is bytes {} to {} of '{}', which has only {}",
         where, range.offset, range.offset + bytes, file->path().string(), size);
  }
  const std::byte* data = file->bytes().data() + range.offset;
  if (bytes > 0 && reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0) {
    return Tensor::share(dtype, std::move(shape), file, data);
  }
  Tensor tensor = Tensor::make(dtype, std::move(shape));
  if (bytes > 0) std::memcpy(tensor.data(), data, bytes);
  return tensor;
}

}  // namespace braze::model
