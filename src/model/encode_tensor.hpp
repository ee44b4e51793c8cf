// A Tensor to ONNX's TensorProto.
#pragma once

#include <string>

#include "braze/tensor.hpp"

namespace onnx {
class TensorProto;
}

namespace braze::model {

/// Fills an empty proto, with raw data.
void encode_tensor(const Tensor& tensor, const std::string& name, onnx::TensorProto& proto);

}  // namespace braze::model
