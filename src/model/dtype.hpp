// Element types as ONNX numbers them (TensorProto.DataType).
#pragma once

#include <cstdint>
#include <string>

#include "braze/tensor.hpp"

namespace braze::model {

/// kUnsupported for types that Braze does not have (string, complex, int4, float8), kModelInvalid
/// for numbers that are no type. `where` begins the message.
DType dtype_of(std::int64_t onnx_type, const std::string& where);

/// ONNX's number of a dtype.
std::int32_t onnx_type_of(DType dtype);

}  // namespace braze::model
