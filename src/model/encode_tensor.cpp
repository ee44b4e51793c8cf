#include "model/encode_tensor.hpp"

#include <onnx/onnx.pb.h>

#include "model/dtype.hpp"

namespace braze::model {

void encode_tensor(const Tensor& tensor, const std::string& name, onnx::TensorProto& proto) {
  if (!name.empty()) proto.set_name(name);
  proto.set_data_type(onnx_type_of(tensor.dtype()));
  for (const std::int64_t extent : tensor.shape()) proto.add_dims(extent);
  proto.set_raw_data(tensor.data(), tensor.bytes());
}

}  // namespace braze::model
