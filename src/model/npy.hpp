// numpy's array files.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "braze/tensor.hpp"

namespace braze {

/// Reads an .npy file (format 1.0 to 3.0, little-endian, C or Fortran order). The elements are
/// mapped, not copied, where they are in C order. kInput for a missing file and for what is no such
/// array or has a dtype that Braze does not have; kIo if the file cannot be read.
Tensor read_npy(const std::filesystem::path& file);

/// The same from memory. The tensor shares `owner`, which keeps `bytes` alive; `name` is the file
/// in messages.
Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                 const std::string& name);

/// True if the bytes begin as an .npy file does.
bool looks_like_npy(std::span<const std::byte> bytes);

/// Writes an .npy file, format 1.0 (2.0 for a header above 64 kB). kInput for bfloat16, which numpy
/// does not have; kIo as FileWriter.
void write_npy(const std::filesystem::path& file, const Tensor& tensor);

}  // namespace braze
