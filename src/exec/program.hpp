// A plan that is ready to run, on whichever device.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace braze {

class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  virtual ~Program() = default;

  [[nodiscard]] virtual const Plan& plan() const = 0;

  /// Runs all kernels. Pointers are to host memory and follow plan().graph.inputs and outputs; each
  /// has extent_bytes of its value's placement. Throws what a kernel or the device throws; the
  /// outputs are undefined then. `seconds`, if not empty, gets the time of each kernel. Threads may
  /// call at once.
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::span<double> seconds = {}) const = 0;

  /// Runs one kernel on values in logical order (by ValueId; those the kernel reads must be
  /// defined); its outputs in logical order.
  [[nodiscard]] virtual std::vector<Tensor> run_kernel(std::size_t k,
                                                       std::span<const Tensor> values) const = 0;

  /// The time of each of seconds.size() runs after a few to warm up, without copies from and to the
  /// host where the device has memory of its own.
  virtual void time(std::span<const void* const> inputs, std::span<void* const> outputs,
                    std::span<double> seconds) const = 0;

  /// The source a kernel was compiled from; empty where there is none.
  [[nodiscard]] virtual std::string source(std::size_t k) const { return std::string(k * 0, ' '); }
};

}  // namespace braze
