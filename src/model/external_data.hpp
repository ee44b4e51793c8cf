// Weights that lie in files beside the model.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "braze/tensor.hpp"

namespace onnx {
class TensorProto;
}

namespace braze::model {

/// The files that a model's tensors point into, each mapped once.
class ExternalData {
 public:
  /// Locations are relative to `folder`.
  explicit ExternalData(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// The tensor whose elements lie in a file: a view of the mapped file, or a copy where they are
  /// not aligned to their size. kModelInvalid for locations outside of the folder, missing files
  /// and ranges that do not fit the shape or the file; `where` begins the message.
  Tensor read(const onnx::TensorProto& proto, DType dtype, Shape shape, const std::string& where);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace braze::model
