// ONNX's TensorProto to a Tensor.
#pragma once

#include <string>

#include "braze/tensor.hpp"

namespace onnx {
class TensorProto;
}

namespace braze::model {

class ExternalData;

/// The tensor in `proto`, in whichever of ONNX's encodings: raw, typed or external. Raw bytes are
/// moved out of `proto`, not copied. Nothing is allocated before the number of elements is known to
/// be there. kModelInvalid where the encoding contradicts dims or data_type, kUnsupported for
/// dtypes that Braze does not have; `where` begins the message.
Tensor decode_tensor(onnx::TensorProto& proto, ExternalData& external, const std::string& where);

}  // namespace braze::model
