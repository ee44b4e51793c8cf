// Compiles CUDA sources for the emulated GPU, with the g++ of the machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exec/cuda/gpu.hpp"

namespace braze::test {

/// Ends the test as skipped, visibly, where there is no g++.
#define BRAZE_NEEDS_EMULATOR()                       \
  if (!::braze::test::EmulatedCompiler::available()) \
  GTEST_SKIP() << "kernels are emulated with g++, which was not found"

/// An image is the path of a shared library. They are kept beside the test's executable, in
/// simt-cache/, under a hash of everything that they are made of.
class EmulatedCompiler : public cuda::Compiler {
 public:
  /// Kernels see __CUDA_ARCH__ = 10 sm, and the library's device headers.
  explicit EmulatedCompiler(int sm = 90) : EmulatedCompiler(sm, cuda::device_headers()) {}
  EmulatedCompiler(int sm, std::vector<cuda::DeviceHeader> headers);

  static bool available();

  std::vector<std::string> compile(std::span<const std::string> sources) override;

 private:
  /// The text that is compiled: the source and a table of its kernels.
  [[nodiscard]] std::filesystem::path image_of(const std::string& text) const;

  int sm_;
  std::vector<cuda::DeviceHeader> headers_;
  std::filesystem::path cache_, include_;
};

}  // namespace braze::test
