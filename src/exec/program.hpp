// A plan that is ready to run, on whichever device.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace braze {

/// Runs kernels on memory of their own, which is filled with numbers in [-1, 1).
class KernelTimer {
 public:
  KernelTimer() = default;
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;
  virtual ~KernelTimer() = default;
  /// Seconds of each of seconds.size() runs of kernel k. Throws what the kernel or the device
  /// throws.
  virtual void time(std::size_t k, std::span<double> seconds) = 0;
};

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

  /// seconds.size() times after a few runs to warm up, each the mean of `runs` that follow each
  /// other, without copies from and to the host where the device has memory of its own.
  virtual void time(std::span<const void* const> inputs, std::span<void* const> outputs,
                    std::span<double> seconds, std::size_t runs) const = 0;

  /// For kernels whose groups are kernel k's. The program outlives it.
  [[nodiscard]] virtual std::unique_ptr<KernelTimer> timer(std::size_t k) const = 0;

  /// The number of the GPU that it runs on; -1: none.
  [[nodiscard]] virtual int gpu() const { return -1; }
  /// run() on device memory, of a program on a GPU: begins after what is in `stream`, which waits
  /// for it; the caller does not.
  virtual void run_on_gpu(std::span<const void* const> inputs, std::span<void* const> outputs,
                          void* stream) const;
  /// Copies outputs that are there to the host's, after what is in `stream`, and waits for them.
  virtual void copy_from_gpu(std::span<const void* const> outputs, std::span<void* const> host,
                             void* stream) const;
  /// The next runs begin after all that is in `stream` by now.
  virtual void order_after(void* stream) const;
  /// What is put into `stream` from now on begins after all runs so far.
  virtual void order_before(void* stream) const;
  /// Waits for all runs. Throws what went wrong in them.
  virtual void synchronize() const;
  /// `bytes` of memory there, with anything in it.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_on_gpu(std::size_t bytes) const;

  /// The source a kernel was compiled from; empty where there is none.
  [[nodiscard]] virtual std::string source(std::size_t k) const { return std::string(k * 0, ' '); }
};

}  // namespace braze
