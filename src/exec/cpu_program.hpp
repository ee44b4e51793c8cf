// A plan on the CPU, ready to run: kernels built, weights packed, memory reserved.
#pragma once

#include <pthreadpool.h>

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "kernels/cpu/kernel.hpp"
#include "plan/plan.hpp"

namespace braze {

class CpuProgram {
 public:
  /// Builds every kernel of the plan. plan.device.units is the number of workers; 1 runs on the
  /// caller's thread.
  explicit CpuProgram(Plan plan);

  [[nodiscard]] const Plan& plan() const { return plan_; }

  /// Runs all kernels. Pointers follow plan().graph.inputs and outputs; each has extent_bytes of
  /// its value's placement. Allocates only when more threads call at once than ever before.
  /// `seconds`, if not empty, gets the time of each kernel.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           std::span<double> seconds = {}) const;

  /// Runs one kernel on values in logical order (by ValueId; those the kernel reads must be
  /// defined); its outputs in logical order.
  [[nodiscard]] std::vector<Tensor> run_kernel(std::size_t k, std::span<const Tensor> values) const;

 private:
  struct Step {
    std::unique_ptr<cpu::Kernel> kernel;
    std::vector<Placement> inputs;  // where each pointer of the kernel comes from
    std::vector<Placement> outputs;
    std::vector<const void*> constants;  // per input: its bytes if constant, else null
  };
  /// Memory of one run at a time.
  struct Context {
    std::shared_ptr<std::byte> arena;
    std::shared_ptr<std::byte> workspace;
    std::vector<const void*> in;
    std::vector<void*> out;
  };

  [[nodiscard]] std::unique_ptr<Context> acquire() const;
  void release(std::unique_ptr<Context> context) const;
  [[nodiscard]] std::unique_ptr<Context> make_context() const;

  Plan plan_;
  std::shared_ptr<pthreadpool> pool_;  // null: one thread
  std::vector<Step> steps_;
  std::size_t workspace_bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> idle_;
};

}  // namespace braze
