// What lies in the 128 bytes of an emulated TMA descriptor. C++17, and no header: kernels include
// this too.
#pragma once

namespace braze::simt {

struct TmaDescriptor {
  static constexpr unsigned kMagic = 0x42545a1du;
  unsigned magic;
  unsigned char rank, im2col, element_bytes, swizzle_bytes;
  unsigned char* address;
  unsigned long long strides[4];  // of axis 1 and up, bytes
  unsigned extents[5];            // innermost first, elements
  unsigned short box[5];
  unsigned char steps[5], padding[1];
  short lower[3], upper[3];
  unsigned short channels, pixels;
  unsigned char rest[28];
};
static_assert(sizeof(TmaDescriptor) == 128, "as CUtensorMap");

}  // namespace braze::simt
