// The bytes of constants, one after another, each 64-byte aligned. Tensors that share bytes are
// stored once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "braze/tensor.hpp"

namespace braze {

inline constexpr std::int64_t kBlobAlignment = 64;

class BlobWriter {
 public:
  struct Blob {
    Tensor tensor;
    std::int64_t offset = 0;
  };

  /// Where the tensor's bytes will be, from the first blob on.
  std::int64_t add(const Tensor& tensor);
  /// In order of offset, without overlap.
  [[nodiscard]] const std::vector<Blob>& blobs() const { return blobs_; }

 private:
  std::vector<Blob> blobs_;
  std::map<std::pair<const void*, std::size_t>, std::int64_t> known_;
  std::int64_t end_ = 0;
};

class BlobReader {
 public:
  /// `bytes` begin 64-byte aligned and live as long as `owner`.
  BlobReader(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}

  /// A tensor that shares the mapped bytes. kModelInvalid if they are not all there, not aligned,
  /// or a bool that is neither 0 nor 1.
  [[nodiscard]] Tensor tensor(DType dtype, const Shape& shape, std::int64_t offset) const;

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

/// kModelInvalid unless every extent is >= 0 and the elements (zero extents taken for 1) have fewer
/// than 2^47 bytes: no address space has more, and no sum of a few such sizes overflows.
void check_shape(std::string_view name, DType dtype, const Shape& shape);

}  // namespace braze
