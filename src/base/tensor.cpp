#include "braze/tensor.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/error.hpp"

namespace braze {
namespace {

constexpr std::size_t kAlignment = 64;

std::shared_ptr<void> allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  void* data = std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr)
    fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes for a tensor", bytes);
  std::memset(data, 0, rounded);
  return {data, std::free};
}

}  // namespace

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      return 1;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
    case DType::kUInt16:
      return 2;
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kUInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kUInt64:
      return 8;
  }
  return 0;
}

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat64:
      return "double";
    case DType::kInt8:
      return "int8";
    case DType::kUInt8:
      return "uint8";
    case DType::kInt16:
      return "int16";
    case DType::kUInt16:
      return "uint16";
    case DType::kInt32:
      return "int32";
    case DType::kUInt32:
      return "uint32";
    case DType::kInt64:
      return "int64";
    case DType::kUInt64:
      return "uint64";
    case DType::kBool:
      return "bool";
  }
  return "?";
}

bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat64;
}

bool is_integer(DType dtype) { return !is_float(dtype) && dtype != DType::kBool; }

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) {
      fail(ErrorCode::kModelInvalid, "shape {} has a negative extent or more than 2^63 elements",
           to_string(shape));
    }
  }
  return count;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

Tensor Tensor::make(DType dtype, Shape shape) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  const auto count = static_cast<std::uint64_t>(tensor.count());
  if (count > std::numeric_limits<std::size_t>::max() / 16) {
    fail(ErrorCode::kOutOfMemory, "cannot allocate a tensor of shape {}", to_string(tensor.shape_));
  }
  auto owner = allocate(tensor.bytes());
  tensor.data_ = owner.get();
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::view(DType dtype, Shape shape, void* data) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.data_ = data;
  return tensor;
}

Tensor Tensor::share(DType dtype, Shape shape, std::shared_ptr<const void> owner,
                     const void* data) {
  Tensor tensor = view(dtype, std::move(shape),
                       const_cast<void*>(data));  // NOLINT: constness is the owner's promise
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::clone() const {
  Tensor copy = make(dtype_, shape_);
  if (bytes() != 0) std::memcpy(copy.data_, data_, bytes());
  return copy;
}

Tensor Tensor::reshaped(Shape shape) const {
  ensure(element_count(shape) == count(), "a reshaped tensor has as many elements as before");
  Tensor tensor = *this;
  tensor.shape_ = std::move(shape);
  return tensor;
}

}  // namespace braze
