// A GPU on the CPU: runs what EmulatedCompiler made of CUDA sources. Slow, deterministic for a
// seed, and stricter than the real one.
//
//   EmulatedGpu gpu(80);
//   EmulatedCompiler compiler(80);
//
// Work is enqueued, and done by wait(), as late as possible: a copy that is not waited for is not
// there. Memory is NaN until it is written, and nothing is mapped around it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/cudnn_session.hpp"
#include "exec/cuda/gpu.hpp"
#include "support/simt/emulated_compiler.hpp"

namespace braze::test {

class EmulatedGpu : public cuda::Gpu {
 public:
  explicit EmulatedGpu(int sm = 90);
  ~EmulatedGpu() override;

  [[nodiscard]] const Device& device() const override { return device_; }
  cuda::Memory allocate(std::size_t bytes, const std::string& what) override;
  std::shared_ptr<std::byte> allocate_host(std::size_t bytes) override;
  void copy_in(void* device, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* device, std::size_t bytes) override;
  void copy_in_stream(void* stream, void* to, const void* from, std::size_t bytes) override;
  void wait_for(void* stream) override;
  void hold(void* stream) override;
  [[nodiscard]] bool is_captured(void* stream) override { return stream == captured_; }
  void wait() override;
  std::unique_ptr<cuda::Mark> make_mark() override;
  std::shared_ptr<const cuda::Module> load(const std::string& image,
                                           const std::string& name) override;
  std::array<std::byte, 128> encode(const cuda::TensorMap& map, void* address) override;
  cuda::Prepared prepare(const cuda::CudnnProblem& problem) override;
  std::unique_ptr<cuda::Recording> record(std::vector<cuda::Step> steps) override;

  /// The order of threads from here on; each launch takes another one. 1 at first, or what the
  /// environment's BRAZE_SIMT_SEED says.
  void set_seed(std::uint64_t seed);
  /// allocate() fails when more than this is in use.
  void set_capacity(std::size_t bytes);
  /// Streams of others: "hold 7", "copy in 7", "run in 7", "capture in 7", "wait for 7".
  [[nodiscard]] const std::vector<std::string>& streams() const;
  /// From here on this stream is captured; nullptr: none.
  void set_captured(void* stream) { captured_ = stream; }
  /// Copies from device memory to device memory so far.
  [[nodiscard]] std::size_t copies() const { return copies_; }
  /// Launches so far.
  [[nodiscard]] std::size_t launches() const;
  /// What prepare() asks; it is to work on host memory. Without one, prepare() fails.
  void set_cudnn(std::shared_ptr<const cuda::Cudnn> cudnn);

  struct State;

 private:
  Device device_;
  std::shared_ptr<State> state_;
  std::shared_ptr<cuda::CudnnSession> cudnn_;
  void* captured_ = nullptr;
  std::size_t copies_ = 0;
};

/// What a kernel does alone: compiles its source, places `inputs` and `outputs` (sizes and initial
/// contents: NaN where empty), constants and workspace, runs it once for each of `orders` seeds on
/// the same initial memory, and returns the outputs of each run. For tests of single kernels.
std::vector<std::vector<std::vector<std::byte>>> run_kernel(
    const cuda::Kernel& kernel, std::span<const std::vector<std::byte>> inputs,
    std::span<const std::size_t> output_bytes, int sm = 90, int orders = 1);

}  // namespace braze::test
