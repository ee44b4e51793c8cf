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

/// A library's call for one problem, made ready: its algorithm is chosen.
class Call {
 public:
  virtual ~Call() = default;
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  /// Puts it on a stream; `operands` as addresses_of() the problem orders them. kDevice with the
  /// library's words if it refuses.
  virtual void enqueue(std::span<void* const> operands, void* workspace, void* stream) const = 0;
};
struct Prepared {
  std::shared_ptr<const Call> call;  // null: the library does not do it,
  std::string why_not;               // and this is why
};

struct CallStep {
  std::shared_ptr<const Call> call;
  std::vector<void*> operands;
  void* workspace = nullptr;
};

/// Steps of one stream run one after another; of other streams, only those that it waits for are
/// known to be done before a step begins. Everything a step waits for comes before it.
struct Step {
  Launch launch;                   // kernel set: a launch,
  std::unique_ptr<HostStep> host;  // else this,
  std::unique_ptr<CallStep> call;  // or this
  std::string name;                // for people: the kernel and its nodes
  std::size_t stream = 0;
  std::vector<std::size_t> waits;  // steps of other streams
};

/// Steps recorded once (as a CUDA graph) and run many times.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Enqueues all steps. kDevice if the device refuses or has been lost.
  virtual void run() = 0;
  /// The same in somebody else's stream of this GPU's primary context.
  virtual void run_in(void* stream) = 0;
  /// The same in one that is_captured(): a graph cannot be launched there, so the steps are
  /// enqueued one after another. kUnsupported if there are some on the host.
  virtual void capture_in(void* stream) = 0;
  /// Runs the steps one by one, on one stream, and waits; the time of each, in seconds, from device
  /// events. An error names the step that it ended.
  virtual void run_timed(std::span<double> seconds) = 0;
  /// Runs back to back after a warm-up; times in seconds from device events, each the mean of
  /// `runs` that are recorded as one.
  virtual void run_repeatedly(std::span<double> seconds, std::size_t runs) = 0;
};

/// A point in the order of all that is enqueued.
class Mark {
 public:
  virtual ~Mark() = default;
  /// It is here, after what has been enqueued so far.
  virtual void set() = 0;
  /// Waits until the point last set is reached. kDevice if the device was lost before.
  virtual void wait() = 0;
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  /// Its number among the machine's.
  [[nodiscard]] virtual int index() const { return 0; }
  /// The record to plan with.
  [[nodiscard]] virtual const Device& device() const = 0;
  /// kOutOfMemory naming `what` if the device has no `bytes` left. At least 256-byte aligned.
  virtual Memory allocate(std::size_t bytes, const std::string& what) = 0;
  /// Host memory that copies can be enqueued from and to (pinned).
  virtual std::shared_ptr<std::byte> allocate_host(std::size_t bytes) = 0;
  /// Enqueued in order with everything else; `host` must be from allocate_host.
  virtual void copy_in(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, std::size_t bytes) = 0;
  /// From device memory to device memory, in somebody else's stream.
  virtual void copy_in_stream(void* stream, void* to, const void* from, std::size_t bytes) = 0;
  /// What is enqueued from now on begins after all that is in `stream`: somebody else's, of this
  /// GPU's primary context.
  virtual void wait_for(void* stream) = 0;
  /// What is put into `stream` from now on begins after all that was enqueued here. Costs nothing
  /// if all of that was waited for in that very stream.
  virtual void hold(void* stream) = 0;
  /// True while somebody records a graph of what is put into `stream`.
  [[nodiscard]] virtual bool is_captured(void* stream) = 0;
  /// Waits for all that was enqueued. kDevice if any of it failed.
  virtual void wait() = 0;
  virtual std::unique_ptr<Mark> make_mark() = 0;
  /// Loads what compile() made of a source.
  virtual std::shared_ptr<const Module> load(const std::string& image, const std::string& name) = 0;
  /// The 128 bytes of a TMA descriptor for memory at `address`.
  virtual std::array<std::byte, 128> encode(const TensorMap& map, void* address) = 0;
  /// Makes a convolution ready for cuDNN, which is opened by the first call: chooses its engine by
  /// measuring. kDevice if there is no cuDNN that can be used.
  virtual Prepared prepare(const CudnnProblem& problem) = 0;
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
