// The CUDA driver, loaded; and one GPU's primary context in it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "base/error.hpp"
#include "exec/cuda/api.hpp"
#include "exec/cuda/library.hpp"

namespace braze::cuda {

/// cuLaunchKernelEx came with 11.8.
inline constexpr Version kOldestDriver = {11, 8};

struct Driver : api::DriverTable {
  std::shared_ptr<const OpenLibrary> library;
  Version version;  // of CUDA that it supports
  int devices = 0;

  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
  [[nodiscard]] std::string describe(api::Result result) const;
};

/// Opens and initialises the driver. kDevice if it is not found, too old, or has no GPU.
std::shared_ptr<const Driver> open_driver(const SearchPath& search);

/// What a GPU says of itself.
struct GpuFacts {
  std::string name;  // "NVIDIA H200"
  int sm = 0;        // 90
  int multiprocessors = 0;
  double shared_bytes = 0;  // of one block, with opt-in
  double l2_bytes = 0;
  double memory_bytes = 0;
  double memory_bandwidth = 0;  // bytes/s, clock times width; 0: not told
};

/// kDevice if there is no GPU `index`.
GpuFacts read_facts(const Driver& driver, int index);

/// A GPU's primary context, retained, and a stream in it. After an error that ends the context
/// (illegal address, launch failure, ECC ...) every check says that the device was lost.
class GpuContext {
 public:
  /// kDevice if the GPU does not exist or cannot be used.
  GpuContext(std::shared_ptr<const Driver> driver, int index);
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;
  ~GpuContext();

  [[nodiscard]] const Driver& driver() const { return *driver_; }
  [[nodiscard]] const GpuFacts& facts() const { return facts_; }
  /// The stream, to enqueue something in it.
  [[nodiscard]] api::Stream stream() const {
    touched_.store(true, std::memory_order_relaxed);
    return stream_;
  }
  /// The same, for waits that enqueue nothing of their own.
  [[nodiscard]] api::Stream untouched_stream() const { return stream_; }
  /// True if somebody asked for stream() since this was cleared.
  [[nodiscard]] std::atomic<bool>& touched() const { return touched_; }
  /// "cuda:0 (NVIDIA H200)"
  [[nodiscard]] const std::string& name() const { return name_; }

  /// kDevice if the device was lost earlier.
  void check_alive() const;
  /// kDevice naming what was being done ("loading conv1") if `result` is an error; kOutOfMemory if
  /// that is the error.
  template <class... Args>
  void check(api::Result result, fmt::format_string<Args...> doing, Args&&... args) const {
    if (result != api::kSuccess) refuse(result, fmt::format(doing, std::forward<Args>(args)...));
  }

  /// Makes the context current on this thread for a scope.
  class Current {
   public:
    /// kDevice if the device was lost.
    explicit Current(const GpuContext& context);
    /// For destructors: not active() if the driver refuses.
    Current(const GpuContext& context, std::nothrow_t);
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current();
    [[nodiscard]] bool active() const { return result_ == api::kSuccess; }

   private:
    const GpuContext& context_;
    api::Result result_;
  };

 private:
  [[noreturn]] void refuse(api::Result result, const std::string& doing) const;

  std::shared_ptr<const Driver> driver_;
  GpuFacts facts_;
  std::string name_;
  api::DeviceId device_ = 0;
  api::Context context_ = nullptr;
  api::Stream stream_ = nullptr;
  mutable std::atomic<bool> touched_ = false;
  mutable std::atomic<bool> lost_ = false;
  mutable std::mutex mutex_;
  mutable std::string loss_;  // how it was lost
};

}  // namespace braze::cuda
