// A GPU as the program runner sees it: memory, compiled kernels, and recorded sequences of
// launches.
//
// There are two: the real one over the CUDA driver API (driver_gpu.cpp), and an emulated one that
// the tests bring.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/kernel.hpp"

namespace braze::cuda {

/// Device memory. Freed with its last owner.
using Memory = std::shared_ptr<std::byte>;  // a device address: never dereferenced on the host

/// One compiled source, loaded on the GPU.
class Module {
 public:
  virtual ~Module() = default;
};

/// A kernel with all its addresses known.
struct Launch {
  const Kernel* kernel = nullptr;
  std::shared_ptr<const Module> module;
  std::vector<std::byte> parameters;  // Kernel::parameters with pointers and tensor maps filled in
};

/// Work on the host between launches: `run` is called when everything before it is done and its
/// inputs have been copied to the host.
struct HostStep {
  struct Copy {
    const void* device = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Copy> inputs, outputs;
  std::function<void(std::span<const void* const> inputs, std::span<void* const> outputs)> run;
};

struct Step {
  Launch launch;                   // kernel set: a launch,
  std::unique_ptr<HostStep> host;  // else this
};

/// Steps recorded once (as a CUDA graph) and run many times.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Enqueues all steps. kDevice naming the step if the device refuses or has been lost.
  virtual void run() = 0;
  /// Runs the steps one by one and waits; the time of each, in seconds, from device events.
  virtual void run_timed(std::span<double> seconds) = 0;
  /// `count` runs back to back after a warm-up; the time of each, in seconds, from device events.
  virtual void run_repeatedly(std::span<double> seconds) = 0;
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  /// The record to plan with.
  [[nodiscard]] virtual const Device& device() const = 0;
  /// kOutOfMemory naming `what` if the device has no `bytes` left. At least 256-byte aligned.
  virtual Memory allocate(std::size_t bytes, const std::string& what) = 0;
  /// Host memory that copies can be enqueued from and to (pinned).
  virtual std::shared_ptr<std::byte> allocate_host(std::size_t bytes) = 0;
  /// Enqueued in order with everything else; `host` must be from allocate_host.
  virtual void copy_in(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, std::size_t bytes) = 0;
  /// Waits for all that was enqueued. kDevice if any of it failed.
  virtual void wait() = 0;
  /// Loads what compile() made of a source.
  virtual std::shared_ptr<const Module> load(const std::string& image, const std::string& name) = 0;
  /// The 128 bytes of a TMA descriptor for memory at `address`.
  virtual std::array<std::byte, 128> encode(const TensorMap& map, void* address) = 0;
  virtual std::unique_ptr<Recording> record(std::vector<Step> steps) = 0;
};

/// Turns sources into images that Gpu::load takes, in parallel; equal sources are compiled once.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// One image for each source, in order. kInternal with the compiler's log if a source does not
  /// compile; kDevice if there is no compiler.
  virtual std::vector<std::string> compile(std::span<const std::string> sources) = 0;
};

}  // namespace braze::cuda
