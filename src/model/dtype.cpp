#include "model/dtype.hpp"

#include <iterator>

#include "base/error.hpp"

namespace braze::model {
namespace {

struct Row {
  const char* name;
  bool supported;
  DType dtype;
};

constexpr Row kNone{nullptr, false, {}};
constexpr Row has(const char* name, DType dtype) { return {name, true, dtype}; }
constexpr Row lacks(const char* name) { return {name, false, {}}; }

/// By ONNX's number.
constexpr Row kTypes[] = {
    kNone,
    has("float", DType::kFloat32),
    has("uint8", DType::kUInt8),
    has("int8", DType::kInt8),
    has("uint16", DType::kUInt16),
    has("int16", DType::kInt16),
    has("int32", DType::kInt32),
    has("int64", DType::kInt64),
    lacks("string"),
    has("bool", DType::kBool),
    has("float16", DType::kFloat16),
    has("double", DType::kFloat64),
    has("uint32", DType::kUInt32),
    has("uint64", DType::kUInt64),
    lacks("complex64"),
    lacks("complex128"),
    has("bfloat16", DType::kBFloat16),
    lacks("float8e4m3fn"),
    lacks("float8e4m3fnuz"),
    lacks("float8e5m2"),
    lacks("float8e5m2fnuz"),
    lacks("uint4"),
    lacks("int4"),
    lacks("float4e2m1"),
    lacks("float8e8m0"),
    lacks("uint2"),
    lacks("int2"),
};

}  // namespace

DType dtype_of(std::int64_t onnx_type, const std::string& where) {
  if (onnx_type <= 0 || onnx_type >= std::ssize(kTypes)) {
    fail(ErrorCode::kModelInvalid, "{}: {} is not the number of an element type", where, onnx_type);
  }
  const Row& row = kTypes[onnx_type];
  if (!row.supported) {
    fail(ErrorCode::kUnsupported, "{}: elements of type {} are not supported", where, row.name);
  }
  return row.dtype;
}

std::int32_t onnx_type_of(DType dtype) {
  for (std::int32_t i = 0; i < std::ssize(kTypes); ++i) {
    if (kTypes[i].supported && kTypes[i].dtype == dtype) return i;
  }
  fail(ErrorCode::kInternal, "ONNX has no dtype {}", to_string(dtype));
}

}  // namespace braze::model
