#include "support/simt/tensor_map.hpp"

#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "support/simt/tma.hpp"

namespace braze::simt {

namespace {

void require(bool holds, const char* what) {
  if (!holds) fail(ErrorCode::kInternal, "TMA descriptor: {}", what);
}

}  // namespace

std::array<std::byte, 128> encode(const cuda::TensorMap& map, void* address) {
  const bool im2col = map.kind == cuda::TensorMap::Kind::kIm2col;
  const std::size_t rank = map.extents.size(), bytes = size_of(map.dtype);
  require(rank >= (im2col ? 3u : 1u) && rank <= 5, "1 to 5 axes (im2col: 3 to 5)");
  require(map.strides.size() == rank - 1, "a stride for each axis but the innermost");
  require(reinterpret_cast<std::uintptr_t>(address) % 16 == 0, "address aligned to 16 bytes");
  require(map.steps.empty() || map.steps.size() == rank, "an element stride for each axis");
  TmaDescriptor d{};
  d.magic = TmaDescriptor::kMagic;
  d.rank = static_cast<unsigned char>(rank);
  d.im2col = im2col ? 1 : 0;
  d.element_bytes = static_cast<unsigned char>(bytes);
  d.swizzle_bytes = static_cast<unsigned char>(map.swizzle_bytes);
  d.address = static_cast<unsigned char*>(address);
  for (std::size_t i = 0; i < rank; ++i) {
    require(map.extents[i] >= 1 && map.extents[i] <= 0xffffffffu, "extents of 1 to 2^32 - 1");
    d.extents[i] = static_cast<unsigned>(map.extents[i]);
    const std::uint32_t step = map.steps.empty() ? 1 : map.steps[i];
    require(step >= 1 && step <= 8, "element strides of 1 to 8");
    d.steps[i] = static_cast<unsigned char>(step);
    if (i > 0) {
      const std::uint64_t stride = map.strides[i - 1];
      require(stride % 16 == 0 && stride < std::uint64_t{1} << 40,
              "strides of multiples of 16 bytes below 2^40");
      d.strides[i - 1] = stride;
    }
  }
  std::uint64_t inner = 0;
  if (im2col) {
    require(map.lower.size() == rank - 2 && map.upper.size() == rank - 2,
            "a corner for each axis between the innermost and the outermost");
    const int limit = rank == 3 ? 32768 : (rank == 4 ? 128 : 16);
    for (std::size_t i = 0; i < rank - 2; ++i) {
      require(map.lower[i] >= -limit && map.lower[i] < limit && map.upper[i] >= -limit &&
                  map.upper[i] < limit,
              "corners within 16 (3 axes), 8 (4 axes) or 5 bits (5 axes)");
      d.lower[i] = static_cast<short>(map.lower[i]);
      d.upper[i] = static_cast<short>(map.upper[i]);
    }
    require(map.channels >= 1 && map.channels <= 256 && map.pixels >= 1 && map.pixels <= 1024,
            "1 to 256 channels and 1 to 1024 pixels for each column");
    d.channels = static_cast<unsigned short>(map.channels);
    d.pixels = static_cast<unsigned short>(map.pixels);
    inner = map.channels * bytes;
  } else {
    require(map.box.size() == rank, "a box extent for each axis");
    for (std::size_t i = 0; i < rank; ++i) {
      require(map.box[i] >= 1 && map.box[i] <= 256, "box extents of 1 to 256");
      d.box[i] = static_cast<unsigned short>(map.box[i]);
    }
    inner = map.box[0] * bytes;
  }
  require(inner % 16 == 0, "a box whose rows are multiples of 16 bytes");
  const std::uint32_t swizzle = map.swizzle_bytes;
  require(swizzle == 0 || swizzle == 32 || swizzle == 64 || swizzle == 128,
          "a swizzle of 0, 32, 64 or 128 bytes");
  require(swizzle == 0 || inner == swizzle, "rows of the box as long as the swizzle");
  std::array<std::byte, 128> result{};
  std::memcpy(result.data(), &d, sizeof d);
  return result;
}

}  // namespace braze::simt
