// A plan on a GPU, ready to run: kernels compiled, weights uploaded, memory reserved, all launches
// recorded as one CUDA graph.
#pragma once

#include <memory>
#include <mutex>

#include "exec/cuda/gpu.hpp"
#include "exec/program.hpp"

namespace braze::cuda {

class CudaProgram final : public Program {
 public:
  /// Emits and compiles every kernel of the plan. Without a GPU that is all: run() then says so.
  CudaProgram(Plan plan, std::shared_ptr<Gpu> gpu, Compiler& compiler);

  [[nodiscard]] const Plan& plan() const override { return plan_; }
  /// Threads that call at once take turns.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           std::span<double> seconds = {}) const override;
  [[nodiscard]] std::vector<Tensor> run_kernel(std::size_t k,
                                               std::span<const Tensor> values) const override;
  void time(std::span<const void* const> inputs, std::span<void* const> outputs,
            std::span<double> seconds) const override;
  [[nodiscard]] std::string source(std::size_t k) const override { return kernels_[k].source; }

 private:
  /// Device addresses of one kernel's values, as its Address::Of asks for them.
  struct Operands {
    std::vector<std::byte*> inputs, outputs;
    std::byte* workspace = nullptr;
  };
  /// A graph input or output: on the device, and where copies to and from it begin and end.
  struct Border {
    Memory device;
    std::shared_ptr<std::byte> host;
    std::size_t bytes = 0;
  };

  void compile(Compiler& compiler);
  void upload_constants();
  void reserve();
  void require_gpu() const;
  /// Nothing to do: a result without elements.
  [[nodiscard]] bool is_empty(std::size_t k) const;
  [[nodiscard]] Step step(std::size_t k, const Operands& operands) const;
  [[nodiscard]] std::byte* address(const Address& address, std::size_t k,
                                   const Operands& operands) const;
  [[nodiscard]] std::byte* locate(ValueId id) const;
  void copy_in(std::span<const void* const> inputs) const;
  void copy_out(std::span<void* const> outputs) const;

  Plan plan_;
  std::shared_ptr<Gpu> gpu_;  // null: compiled only
  std::vector<Kernel> kernels_;
  std::vector<std::shared_ptr<const Module>> modules_;  // by kernel; null: host, or nothing to do
  std::vector<std::vector<Memory>> constants_;          // by kernel
  std::vector<std::vector<Memory>> constant_inputs_;    // by kernel and input: where it is constant
  Memory arena_, workspace_;
  std::vector<Border> inputs_, outputs_;
  std::vector<std::size_t> recorded_;  // the kernels that are steps of the recording
  std::unique_ptr<Recording> recording_;
  mutable std::mutex mutex_;
};

}  // namespace braze::cuda
