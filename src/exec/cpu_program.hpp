// A plan on the CPU, ready to run: kernels built, weights packed, memory reserved.
#pragma once

#include <pthreadpool.h>

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "exec/program.hpp"
#include "kernels/cpu/kernel.hpp"

namespace braze {

class CpuProgram final : public Program {
 public:
  /// Builds every kernel of the plan. plan.device.units is the number of workers; 1 runs on the
  /// caller's thread.
  explicit CpuProgram(Plan plan);

  [[nodiscard]] const Plan& plan() const override { return plan_; }

  /// Allocates only when more threads call at once than ever before.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           std::span<double> seconds = {}) const override;
  [[nodiscard]] std::vector<Tensor> run_kernel(std::size_t k,
                                               std::span<const Tensor> values) const override;
  void time(std::span<const void* const> inputs, std::span<void* const> outputs,
            std::span<double> seconds, std::size_t runs) const override;
  [[nodiscard]] std::unique_ptr<KernelTimer> timer(std::size_t k) const override;

 private:
  class Timer;
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

  /// Takes a context that nobody uses, or makes one; given back when the Lease ends.
  class Lease {
   public:
    explicit Lease(const CpuProgram& program);
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease();
    Context* operator->() const { return context_.get(); }

   private:
    const CpuProgram& program_;
    std::unique_ptr<Context> context_;
  };

  [[nodiscard]] std::unique_ptr<Context> make_context() const;

  Plan plan_;
  std::shared_ptr<pthreadpool> pool_;  // null: one thread
  std::vector<Step> steps_;
  std::size_t workspace_bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::size_t contexts_ = 0;  // made so far; idle_ has room for all of them
  mutable std::vector<std::unique_ptr<Context>> idle_;
};

}  // namespace braze
