#include "exec/logical.hpp"

#include <cstring>

namespace braze {
namespace {

/// Calls move(logical element, placed element) for every element.
template <class Move>
void for_each_element(const Shape& shape, const Placement& placement, const Move& move) {
  const std::int64_t count = element_count(shape);
  if (placement.layout == Layout::kModel) {
    for (std::int64_t i = 0; i < count; ++i) move(i, i);
    return;
  }
  const std::int64_t channels = shape[1];
  const std::int64_t pixels = count == 0 ? 0 : count / shape[0] / channels;
  std::int64_t logical = 0;
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < pixels; ++p)
        move(logical++, (n * pixels + p) * placement.pitch + c);
    }
  }
}

}  // namespace

std::vector<std::byte> to_placed(const Tensor& tensor, const Placement& placement) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(placement.bytes));
  const auto size = size_of(tensor.dtype());
  const auto* from = tensor.as<std::byte>();
  for_each_element(tensor.shape(), placement, [&](std::int64_t logical, std::int64_t placed) {
    std::memcpy(&bytes[static_cast<std::size_t>(placed) * size],
                from + static_cast<std::size_t>(logical) * size, size);
  });
  return bytes;
}

Tensor from_placed(const void* data, DType dtype, const Shape& shape, const Placement& placement) {
  Tensor tensor = Tensor::make(dtype, shape);
  const auto size = size_of(dtype);
  auto* to = tensor.as<std::byte>();
  for_each_element(shape, placement, [&](std::int64_t logical, std::int64_t placed) {
    std::memcpy(to + static_cast<std::size_t>(logical) * size,
                static_cast<const std::byte*>(data) + static_cast<std::size_t>(placed) * size,
                size);
  });
  return tensor;
}

}  // namespace braze
