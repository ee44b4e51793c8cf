#include "exec/blobs.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace braze {

std::int64_t BlobWriter::add(const Tensor& tensor) {
  ensure(tensor.defined() || tensor.bytes() == 0, "a stored constant has bytes");
  if (tensor.bytes() == 0) return 0;
  const auto [known, added] = known_.try_emplace({tensor.data(), tensor.bytes()}, end_);
  if (added) {
    blobs_.push_back({tensor, end_});
    const auto bytes = static_cast<std::int64_t>(tensor.bytes());
    end_ = (end_ + bytes + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment;
  }
  return known->second;
}

Tensor BlobReader::tensor(DType dtype, const Shape& shape, std::int64_t offset) const {
  check_shape("constant", dtype, shape);
  const auto bytes = element_count(shape) * static_cast<std::int64_t>(size_of(dtype));
  const auto size = static_cast<std::int64_t>(bytes_.size());
  if (offset < 0 || offset % kBlobAlignment != 0 || offset > size || bytes > size - offset) {
    fail(ErrorCode::kModelInvalid,
         "a constant of {} bytes lies at offset {}, expected a multiple of {} within {} bytes",
         bytes, offset, kBlobAlignment, size);
  }
  const std::byte* data = bytes_.data() + offset;
  if (dtype == DType::kBool &&
      std::any_of(data, data + bytes, [](std::byte byte) { return byte > std::byte{1}; }))
    fail(ErrorCode::kModelInvalid, "a bool constant holds a byte that is neither 0 nor 1");
  return Tensor::share(dtype, shape, owner_, data);
}

void check_shape(std::string_view name, DType dtype, const Shape& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 47;
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : shape) {
    if (extent >= 0 && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes) &&
        bytes < kMost)
      continue;
    fail(ErrorCode::kModelInvalid,
         "'{}' has shape {}, expected extents >= 0 and less than 2^47 bytes", name,
         to_string(shape));
  }
}

}  // namespace braze
