#include "model/decode_tensor.hpp"

#include <onnx/onnx.pb.h>

#include <bit>
#include <concepts>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "model/dtype.hpp"
#include "model/external_data.hpp"

namespace braze::model {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX's raw data is little-endian");

/// The dims, checked so that the number of bytes fits a size_t.
Shape checked_shape(const onnx::TensorProto& proto, DType dtype, const std::string& where) {
  Shape shape(proto.dims().begin(), proto.dims().end());
  std::int64_t bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      fail(ErrorCode::kModelInvalid, "{}: shape {} has a negative extent", where, to_string(shape));
    }
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      fail(ErrorCode::kModelInvalid, "{}: shape {} has more than 2^63 bytes", where,
           to_string(shape));
    }
  }
  return shape;
}

Tensor from_raw(onnx::TensorProto& proto, DType dtype, Shape shape, const std::string& where) {
  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  if (proto.raw_data().size() != bytes) {
    fail(ErrorCode::kModelInvalid, "{}: {} bytes of raw data, expected {} for {}{}", where,
         proto.raw_data().size(), bytes, to_string(dtype), to_string(shape));
  }
  const std::shared_ptr<const std::string> owner(proto.release_raw_data());
  if (bytes > 0 && reinterpret_cast<std::uintptr_t>(owner->data()) % size_of(dtype) == 0) {
    return Tensor::share(dtype, std::move(shape), owner, owner->data());
  }
  Tensor tensor = Tensor::make(dtype, std::move(shape));
  if (bytes > 0) std::memcpy(tensor.data(), owner->data(), bytes);
  return tensor;
}

/// Elements of a typed field, which is never narrower than the tensor's own type.
template <class To, class Field>
Tensor from_field(const Field& field, DType dtype, Shape shape, const std::string& where) {
  if (field.size() != element_count(shape)) {
    fail(ErrorCode::kModelInvalid, "{}: {} elements of data, expected {} for {}{}", where,
         field.size(), element_count(shape), to_string(dtype), to_string(shape));
  }
  Tensor tensor = Tensor::make(dtype, std::move(shape));
  To* out = tensor.as<To>();
  for (const auto value : field) {
    if constexpr (std::integral<To>) {
      if (!std::in_range<To>(value)) {
        fail(ErrorCode::kModelInvalid, "{}: element {} does not fit {}", where, value,
             to_string(dtype));
      }
    }
    *out++ = static_cast<To>(value);
  }
  return tensor;
}

Tensor from_typed(const onnx::TensorProto& proto, DType dtype, Shape shape,
                  const std::string& where) {
  const auto int32 = [&]<class To>(To /*type*/) {
    return from_field<To>(proto.int32_data(), dtype, shape, where);
  };
  switch (dtype) {
    case DType::kFloat32:
      return from_field<float>(proto.float_data(), dtype, shape, where);
    case DType::kFloat64:
      return from_field<double>(proto.double_data(), dtype, shape, where);
    case DType::kInt64:
      return from_field<std::int64_t>(proto.int64_data(), dtype, shape, where);
    case DType::kUInt32:
      return from_field<std::uint32_t>(proto.uint64_data(), dtype, shape, where);
    case DType::kUInt64:
      return from_field<std::uint64_t>(proto.uint64_data(), dtype, shape, where);
    case DType::kFloat16:
    case DType::kBFloat16:  // the bits
    case DType::kUInt16:
      return int32(std::uint16_t{});
    case DType::kInt8:
      return int32(std::int8_t{});
    case DType::kBool:
    case DType::kUInt8:
      return int32(std::uint8_t{});
    case DType::kInt16:
      return int32(std::int16_t{});
    case DType::kInt32:
      return int32(std::int32_t{});
  }
  fail(ErrorCode::kInternal, "unknown dtype {}", static_cast<int>(dtype));
}

}  // namespace

Tensor decode_tensor(onnx::TensorProto& proto, ExternalData& external, const std::string& where) {
  const DType dtype = dtype_of(proto.data_type(), where);
  Shape shape = checked_shape(proto, dtype, where);
  if (proto.has_segment()) {
    fail(ErrorCode::kUnsupported, "{}: tensors in segments are not supported", where);
  }
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    return external.read(proto, dtype, std::move(shape), where);
  }
  if (!proto.raw_data().empty()) return from_raw(proto, dtype, std::move(shape), where);
  return from_typed(proto, dtype, std::move(shape), where);
}

}  // namespace braze::model
