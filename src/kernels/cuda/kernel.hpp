// What a kernel is on a GPU: emitted source, and how to launch it.
//
// A kernel template is a header of device/, embedded in the library. What is emitted for a planned
// kernel is a translation unit of a few lines: its includes, its epilogue, and one extern "C" entry
// that instantiates the template. Extents, strides, bounds and slopes are run-time parameters, so
// kernels of different sizes often share one source, which is compiled once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/kernel.hpp"
#include "kernels/cuda/cudnn_problem.hpp"
#include "plan/plan.hpp"

namespace braze::cuda {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// The eight bytes at `at` in Kernel::parameters hold this address.
struct Pointer {
  std::size_t at = 0;
  Address address;
};

/// A TMA descriptor (CUtensorMap, 128 bytes, 64-byte aligned) at `at` in Kernel::parameters.
struct TensorMap {
  enum class Kind : std::uint8_t { kTiled, kIm2col };
  std::size_t at = 0;
  Address address;
  Kind kind = Kind::kTiled;
  DType dtype = DType::kFloat16;
  std::vector<std::uint64_t> extents;      // innermost first, elements
  std::vector<std::uint64_t> strides;      // of all but the innermost, bytes, multiples of 16
  std::vector<std::uint32_t> box;          // tiled: elements of each axis
  std::vector<std::uint32_t> steps;        // element strides of each axis (1: dense)
  std::vector<int> lower, upper;           // im2col: corners of the pixel box, innermost axis first
  std::uint32_t channels = 0, pixels = 0;  // im2col: per column
  std::uint32_t swizzle_bytes = 0;         // 0, 32, 64 or 128
};

/// A planned kernel, ready for a device of its sm.
struct Kernel {
  std::string source;  // the emitted translation unit
  std::string entry;   // extern "C" __global__ void entry(const __grid_constant__ Parameters)
  Dim3 grid, block;
  std::uint32_t cluster = 1;          // blocks of a cluster, along x
  std::uint32_t shared_bytes = 0;     // dynamic shared memory
  std::vector<std::byte> parameters;  // the one argument, by value
  std::vector<Pointer> pointers;
  std::vector<TensorMap> maps;
  std::vector<std::vector<std::byte>> constants;  // packed, uploaded once, each 256-byte aligned
  std::size_t workspace_bytes = 0;                // shared by all kernels of a program; not zeroed
  bool overlaps = false;  // begins before its predecessor has ended and waits for it itself
                          // (programmatic dependent launch)
  /// Instead of source and launch: a call of cuDNN, which fills in workspace_bytes when it is made
  /// ready on a device.
  std::optional<CudnnProblem> cudnn;
  /// Instead of all the above: runs on the host, on copies of its inputs and outputs.
  std::unique_ptr<cpu::Kernel> host;
};

/// Copies a parameter block and notes where its pointers are.
class Parameters {
 public:
  template <class Block>
  explicit Parameters(const Block& block)
      : begin_(reinterpret_cast<const std::byte*>(&block)), bytes_(begin_, begin_ + sizeof(Block)) {
    static_assert(std::is_trivially_copyable_v<Block>);
  }
  /// `member` is a pointer member of the block passed in.
  template <class T>
  void point(T* const& member, const Address& address) {
    const auto at = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&member) - begin_);
    pointers_.push_back({at, address});
  }
  [[nodiscard]] std::size_t offset_of(const void* member) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(member) - begin_);
  }
  void move_to(Kernel& kernel) {
    kernel.parameters = std::move(bytes_);
    kernel.pointers = std::move(pointers_);
  }

 private:
  const std::byte* begin_;
  std::vector<std::byte> bytes_;
  std::vector<Pointer> pointers_;
};

using Build = Kernel (*)(const Plan& plan, const KernelPlan& kernel);

/// A header of device/, as the compiler sees it.
struct DeviceHeader {
  const char* name;  // as it is included: "braze/conv_sm80.cuh"
  const char* text;
};
/// All headers of device/, embedded when the library was built.
const std::vector<DeviceHeader>& device_headers();

}  // namespace braze::cuda
