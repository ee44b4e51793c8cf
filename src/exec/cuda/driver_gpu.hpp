// A GPU over the CUDA driver API.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "exec/cuda/driver.hpp"
#include "exec/cuda/gpu.hpp"

namespace braze::cuda {

/// The record of a GPU from what it says of itself; what it does not say is the nearest
/// checked-in record's, scaled by the number of multiprocessors. `device.sm` is what kernel
/// families may use: the newest known that the GPU runs, 80 for one newer than all, or an older one
/// that BRAZE_ISA asks for. kDevice below sm_70.
Device device_of(const GpuFacts& facts);

/// One stream: what is enqueued by several threads runs one after the other.
class DriverGpu final : public Gpu {
 public:
  /// kDevice: no driver, too old, no GPU `index`, or one below sm_70.
  DriverGpu(const SearchPath& search, int index);
  ~DriverGpu() override;

  /// The real one: 120 where device().sm is 80.
  [[nodiscard]] int sm() const { return context_->facts().sm; }
  [[nodiscard]] const std::string& name() const { return context_->facts().name; }
  [[nodiscard]] const Driver& driver() const { return context_->driver(); }

  [[nodiscard]] int index() const override { return index_; }
  [[nodiscard]] const Device& device() const override { return device_; }
  Memory allocate(std::size_t bytes, const std::string& what) override;
  std::shared_ptr<std::byte> allocate_host(std::size_t bytes) override;
  void copy_in(void* device, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* device, std::size_t bytes) override;
  void copy_in_stream(void* stream, void* to, const void* from, std::size_t bytes) override;
  void wait_for(void* stream) override;
  void hold(void* stream) override;
  [[nodiscard]] bool is_captured(void* stream) override;
  void wait() override;
  std::unique_ptr<Mark> make_mark() override;
  std::shared_ptr<const cuda::Module> load(const std::string& image,
                                           const std::string& name) override;
  std::array<std::byte, 128> encode(const TensorMap& map, void* address) override;
  Prepared prepare(const CudnnProblem& problem) override;
  std::unique_ptr<Recording> record(std::vector<Step> steps) override;

 private:
  /// The number that no other stream of the process has or had; nothing if the driver has none.
  [[nodiscard]] std::optional<unsigned long long> id_of(void* stream) const;

  std::shared_ptr<const GpuContext> context_;
  std::shared_ptr<class HostErrors> host_errors_;
  Device device_;
  int index_;
  std::unique_ptr<class OwnedEvent> fork_, join_;  // from and to the streams of others
  /// The stream that the work of ours, unless context_->touched(), is all before.
  std::optional<unsigned long long> held_;
  SearchPath search_;
  std::mutex mutex_;
  std::shared_ptr<class CudnnSession> cudnn_;  // null: nothing was prepared yet
};

/// What a host step of a recording threw, kept until the next wait.
class HostErrors {
 public:
  /// Keeps the first.
  void set(std::exception_ptr error);
  [[nodiscard]] bool pending() const;
  /// Throws what was kept, once.
  void rethrow();

 private:
  mutable std::mutex mutex_;
  std::exception_ptr error_;
};

/// A compiled source on a GPU, with the functions that were asked of it.
class DriverModule final : public cuda::Module {
 public:
  DriverModule(std::shared_ptr<const GpuContext> context, const std::string& image,
               std::string name);
  DriverModule(const DriverModule&) = delete;
  DriverModule& operator=(const DriverModule&) = delete;
  ~DriverModule() override;

  /// The kernel's function, allowed to have the kernel's shared memory and cluster. kDevice if the
  /// device has less.
  [[nodiscard]] api::Function function(const Kernel& kernel) const;

 private:
  struct Entry {
    api::Function function = nullptr;
    std::uint32_t shared_bytes = 0;  // allowed so far
  };
  std::shared_ptr<const GpuContext> context_;
  std::string name_;
  api::Module module_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Entry> entries_;
};

/// An event, destroyed on the way out.
class OwnedEvent {
 public:
  OwnedEvent(std::shared_ptr<const GpuContext> context, unsigned flags);
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  ~OwnedEvent();
  [[nodiscard]] api::Event get() const { return event_; }

 private:
  std::shared_ptr<const GpuContext> context_;
  api::Event event_ = nullptr;
};

/// Pinned host memory, freed with its last owner. kOutOfMemory if the host has no more.
std::shared_ptr<std::byte> pin_memory(const std::shared_ptr<const GpuContext>& context,
                                      std::size_t bytes);

/// Steps as a CUDA graph, made by capturing the stream.
std::unique_ptr<Recording> record_steps(std::shared_ptr<const GpuContext> context,
                                        std::shared_ptr<HostErrors> host_errors,
                                        std::vector<Step> steps);

}  // namespace braze::cuda
