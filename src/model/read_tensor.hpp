// Tensors in files of their own: inputs, expected outputs, results.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "braze/tensor.hpp"

namespace braze {

/// Reads an .npy file or an ONNX TensorProto, whichever it is. kInput if the file is missing, or is
/// neither, or holds a dtype that Braze does not have; kIo if it cannot be read.
Tensor read_tensor_file(const std::filesystem::path& file);

/// Reads an ONNX TensorProto in memory; external data is looked for in `folder`. kInput; `name` is
/// the file in messages.
Tensor parse_tensor_proto(std::span<const std::byte> bytes, const std::filesystem::path& folder,
                          const std::string& name);

/// Writes by the file's extension: .npy, or .pb for a TensorProto. kUsage for others, kInput for
/// bfloat16 as .npy, kIo as FileWriter.
void write_tensor_file(const std::filesystem::path& file, const Tensor& tensor);

}  // namespace braze
