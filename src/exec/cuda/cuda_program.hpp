// A plan on a GPU, ready to run: kernels compiled, weights uploaded, memory reserved, all launches
// recorded as one CUDA graph.
#pragma once

#include <memory>
#include <mutex>

#include "exec/cuda/gpu.hpp"
#include "exec/cuda/staging.hpp"
#include "exec/program.hpp"

namespace braze::cuda {

class CudaProgram final : public Program {
 public:
  /// Emits and compiles every kernel of the plan, on up to `threads` threads (0: all). Without a
  /// GPU that is all, and without a compiler sources are emitted when they are asked for: run()
  /// then says so.
  CudaProgram(Plan plan, std::shared_ptr<Gpu> gpu, Compiler* compiler, int threads = 0);

  [[nodiscard]] const Plan& plan() const override { return plan_; }
  /// Threads that call at once take turns.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           std::span<double> seconds = {}) const override;
  [[nodiscard]] std::vector<Tensor> run_kernel(std::size_t k,
                                               std::span<const Tensor> values) const override;
  void time(std::span<const void* const> inputs, std::span<void* const> outputs,
            std::span<double> seconds, std::size_t runs) const override;
  /// Launches of a kernel one after another as in a network, each with weights that the last-level
  /// cache has kept only if it keeps those of the whole network.
  [[nodiscard]] std::unique_ptr<KernelTimer> timer(std::size_t k) const override;
  [[nodiscard]] int gpu() const override { return gpu_ != nullptr ? gpu_->index() : -1; }
  /// Everything is put into the caller's stream. Addresses that come a second time get a recording
  /// of their own, the first time they are copied from and to the program's.
  void run_on_gpu(std::span<const void* const> inputs, std::span<void* const> outputs,
                  void* stream) const override;
  void copy_from_gpu(std::span<const void* const> outputs, std::span<void* const> host,
                     void* stream) const override;
  void order_after(void* stream) const override;
  void order_before(void* stream) const override;
  void synchronize() const override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate_on_gpu(std::size_t bytes) const override;
  [[nodiscard]] std::string source(std::size_t k) const override;

 private:
  class Timer;
  /// Device addresses of one kernel's values, as its Address::Of asks for them.
  struct Operands {
    std::vector<std::byte*> inputs, outputs;
    std::byte* workspace = nullptr;
    std::vector<std::byte*> constants;  // empty: the program's own
  };
  /// A graph input or output on the device.
  struct Border {
    Memory device;
    std::size_t bytes = 0;
  };
  /// Where they are: in the program's memory, or in a caller's.
  struct Borders {
    std::vector<std::byte*> inputs, outputs;
    bool operator==(const Borders&) const = default;
  };
  /// A caller's addresses that were seen, and what reads and writes there once they came again.
  struct Guest {
    Borders borders;
    std::unique_ptr<Recording> recording;
  };

  void emit(int threads);
  void compile(Compiler& compiler);
  /// Makes what cuDNN runs ready. What it has no engine for, run_ourselves().
  void prepare_calls();
  /// Gives kernel k to one of our own families, and says so in the plan.
  void run_ourselves(std::size_t k, std::string why_not);
  void upload_constants();
  void reserve_values();      // arena, inputs, outputs
  void reserve_workspaces();  // by stream, as the kernels ask
  /// All kernels between these borders; notes them in recorded_.
  [[nodiscard]] std::unique_ptr<Recording> record(const Borders& borders,
                                                  std::vector<std::size_t>& recorded) const;
  [[nodiscard]] Borders own_borders() const;
  /// The recording for a caller's addresses; null: it is their first time, or they are not aligned,
  /// or there is none yet and none may be made.
  [[nodiscard]] Recording* recording_of(const Borders& borders, bool may_make) const;
  void require_gpu() const;
  /// Does `body`; errors of the device name the network, and how to find the kernel.
  template <class Body>
  void guard(const Body& body, bool step_by_step) const;
  /// Nothing to do: a result without elements.
  [[nodiscard]] bool is_empty(std::size_t k) const;
  [[nodiscard]] Step step(std::size_t k, const Operands& operands) const;
  /// "k3_conv_sm90 (conv1, relu1)"
  [[nodiscard]] std::string name_of(std::size_t k) const;
  [[nodiscard]] std::byte* address(const Address& address, std::size_t k,
                                   const Operands& operands) const;
  [[nodiscard]] std::byte* locate(ValueId id, const Borders& borders) const;
  void copy_in(std::span<const void* const> inputs) const;
  void copy_out(std::span<void* const> outputs) const;

  Plan plan_;
  std::shared_ptr<Gpu> gpu_;  // null: compiled only
  std::vector<Kernel> kernels_;
  std::vector<std::shared_ptr<const Module>> modules_;  // by kernel; null: host, or nothing to do
  std::vector<std::shared_ptr<const Call>> calls_;      // by kernel; null: not cuDNN's
  Memory weights_;                                      // all that is constant
  std::vector<std::vector<std::byte*>> constants_;      // in it, by kernel
  std::vector<std::vector<std::size_t>> constant_bytes_;
  std::vector<std::vector<std::byte*>>
      constant_inputs_;  // by kernel and input: where it is constant
  Memory arena_;
  std::vector<Memory> workspaces_;  // by stream
  std::vector<Border> inputs_, outputs_;
  std::vector<std::size_t> recorded_;  // the kernels that are steps of the recording
  std::unique_ptr<Recording> recording_;
  mutable std::vector<Guest> guests_;  // the latest last
  std::unique_ptr<Staging> staging_;
  mutable std::mutex mutex_;
};

}  // namespace braze::cuda
