#include "exec/cuda/driver_gpu.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include "exec/cuda/cudnn_session.hpp"

namespace braze::cuda {
namespace {

/// Blocks of a cluster that every GPU with clusters runs.
constexpr std::uint32_t kPortableCluster = 8;
/// What copies reach of clock times width (an H200: 4.3 of 4.9 TB/s).
constexpr double kReachableBandwidth = 0.88;

api::DeviceAddress address_of(const void* device) {
  return reinterpret_cast<api::DeviceAddress>(device);
}

api::MapType map_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return api::MapType::kFloat16;
    case DType::kBFloat16:
      return api::MapType::kBfloat16;
    case DType::kFloat32:
      return api::MapType::kFloat32;
    case DType::kInt32:
      return api::MapType::kInt32;
    case DType::kInt8:
    case DType::kUInt8:
      return api::MapType::kUint8;
    default:
      fail(ErrorCode::kInternal, "a tensor map of {} was asked for", to_string(dtype));
  }
}

api::MapSwizzle map_swizzle(std::uint32_t bytes) {
  switch (bytes) {
    case 0:
      return api::MapSwizzle::kNone;
    case 32:
      return api::MapSwizzle::k32;
    case 64:
      return api::MapSwizzle::k64;
    case 128:
      return api::MapSwizzle::k128;
    default:
      fail(ErrorCode::kInternal, "a tensor map with a swizzle of {} bytes was asked for", bytes);
  }
}

/// 80 if BRAZE_ISA is "sm_80"; no limit if it names no GPU, or one that Braze does not know.
int wished_sm() {
  constexpr int kAny = std::numeric_limits<int>::max();
  const char* wish = std::getenv("BRAZE_ISA");
  const std::string_view name = wish == nullptr ? "" : wish;
  int sm = 0;
  if (!name.starts_with("sm_")) return kAny;
  std::from_chars(name.data() + 3, name.data() + name.size(), sm);
  return sm >= 70 ? sm : kAny;
}

}  // namespace

Device device_of(const GpuFacts& facts) {
  constexpr std::array kKnown = {90, 89, 86, 80, 75, 70};
  if (facts.sm < 70)
    fail(ErrorCode::kDevice, "{} is sm_{}; Braze needs sm_70 or newer", facts.name, facts.sm);
  // Past 90 only what every GPU since sm_80 runs can be relied on.
  const int most = std::min(facts.sm > 90 ? 80 : facts.sm, wished_sm());
  const int sm = *std::ranges::find_if(kKnown, [&](int k) { return k <= most; });
  Device device = cuda_device(sm);
  device.name = fmt::format("cuda:sm_{}", facts.sm);
  if (facts.multiprocessors > 0) {
    const double scale = static_cast<double>(facts.multiprocessors) / device.units;
    device.units = facts.multiprocessors;
    for (double* rate : {&device.flops_fp32, &device.flops_tf32, &device.flops_fp16,
                         &device.ops_int8, &device.cache_bandwidth, &device.onchip_bandwidth})
      *rate *= scale;
  }
  if (facts.shared_bytes > 0) device.onchip_bytes = facts.shared_bytes;
  if (facts.l2_bytes > 0) device.cache_bytes = facts.l2_bytes;
  if (facts.memory_bandwidth > 0)
    device.dram_bandwidth = facts.memory_bandwidth * kReachableBandwidth;
  return device;
}

DriverGpu::DriverGpu(const SearchPath& search, int index)
    : host_errors_(std::make_shared<HostErrors>()), index_(index), search_(search) {
  auto driver = open_driver(search);
  device_ = device_of(read_facts(*driver, index));
  context_ = std::make_shared<const GpuContext>(std::move(driver), index);
}

DriverGpu::~DriverGpu() = default;

Memory DriverGpu::allocate(std::size_t bytes, const std::string& what) {
  const GpuContext::Current current(*context_);
  api::DeviceAddress address = 0;
  const api::Result result =
      context_->driver().mem_alloc(&address, std::max<std::size_t>(bytes, 1));
  if (result == api::kOutOfMemory) {
    std::size_t unused = 0;
    std::size_t total = 0;
    context_->driver().mem_get_info(&unused, &total);
    fail(ErrorCode::kOutOfMemory, "{} has no {:.1f} MiB left for {}: {:.1f} of {:.1f} MiB are free",
         context_->name(), static_cast<double>(bytes) / 1048576, what,
         static_cast<double>(unused) / 1048576, static_cast<double>(total) / 1048576);
  }
  context_->check(result, "allocating {} bytes for {}", bytes, what);
  return {std::bit_cast<std::byte*>(address), [context = context_](std::byte* memory) {
            const GpuContext::Current current(*context, std::nothrow);
            if (current.active()) context->driver().mem_free(address_of(memory));
          }};
}

std::shared_ptr<std::byte> pin_memory(const std::shared_ptr<const GpuContext>& context,
                                      std::size_t bytes) {
  const GpuContext::Current current(*context);
  void* memory = nullptr;
  const api::Result result = context->driver().mem_host_alloc(
      &memory, std::max<std::size_t>(bytes, 1), api::kHostAllocPortable);
  if (result == api::kOutOfMemory)
    fail(ErrorCode::kOutOfMemory, "the host has no {} bytes left to pin for copies from and to {}",
         bytes, context->name());
  context->check(result, "pinning {} bytes of host memory", bytes);
  return {static_cast<std::byte*>(memory), [context](std::byte* pinned) {
            const GpuContext::Current active(*context, std::nothrow);
            if (active.active()) context->driver().mem_free_host(pinned);
          }};
}

std::shared_ptr<std::byte> DriverGpu::allocate_host(std::size_t bytes) {
  return pin_memory(context_, bytes);
}

void DriverGpu::copy_in(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  const GpuContext::Current current(*context_);
  context_->check(
      context_->driver().memcpy_to_device(address_of(device), host, bytes, context_->stream()),
      "copying {} bytes to it", bytes);
}

void DriverGpu::copy_out(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return;
  const GpuContext::Current current(*context_);
  context_->check(
      context_->driver().memcpy_to_host(host, address_of(device), bytes, context_->stream()),
      "copying {} bytes from it", bytes);
}

void DriverGpu::copy_in_stream(void* stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const GpuContext::Current current(*context_);
  context_->check(context_->driver().memcpy_on_device(address_of(to), address_of(from), bytes,
                                                      static_cast<api::Stream>(stream)),
                  "copying {} bytes on it", bytes);
}

std::optional<unsigned long long> DriverGpu::id_of(void* stream) const {
  const Driver& driver = context_->driver();
  unsigned long long id = 0;
  if (driver.stream_get_id == nullptr ||
      driver.stream_get_id(static_cast<api::Stream>(stream), &id) != api::kSuccess)
    return std::nullopt;
  return id;
}

bool DriverGpu::is_captured(void* stream) {
  if (stream == nullptr) return false;  // the default stream cannot be
  const GpuContext::Current current(*context_);
  api::CaptureStatus status = api::CaptureStatus::kNone;
  context_->check(context_->driver().stream_is_capturing(static_cast<api::Stream>(stream), &status),
                  "looking at the caller's stream");
  return status != api::CaptureStatus::kNone;
}

void DriverGpu::wait_for(void* stream) {
  const std::lock_guard lock(mutex_);
  if (fork_ == nullptr) fork_ = std::make_unique<OwnedEvent>(context_, api::kEventDisableTiming);
  const GpuContext::Current current(*context_);
  const Driver& driver = context_->driver();
  context_->check(driver.event_record(fork_->get(), static_cast<api::Stream>(stream)),
                  "recording an event in the caller's stream");
  context_->check(driver.stream_wait_event(context_->untouched_stream(), fork_->get(), 0),
                  "waiting for the caller's stream");
  if (const auto id = id_of(stream); !id || id != held_) context_->touched() = true;
}

void DriverGpu::hold(void* stream) {
  const std::lock_guard lock(mutex_);
  if (join_ == nullptr) join_ = std::make_unique<OwnedEvent>(context_, api::kEventDisableTiming);
  const GpuContext::Current current(*context_);
  const Driver& driver = context_->driver();
  const auto id = id_of(stream);
  if (id && id == held_ && !context_->touched()) return;
  held_.reset();
  context_->touched() = false;
  context_->check(driver.event_record(join_->get(), context_->untouched_stream()),
                  "recording an event");
  context_->check(driver.stream_wait_event(static_cast<api::Stream>(stream), join_->get(), 0),
                  "making the caller's stream wait");
  held_ = id;
}

void DriverGpu::wait() {
  const GpuContext::Current current(*context_);
  context_->check(context_->driver().stream_synchronize(context_->untouched_stream()),
                  "running kernels");
  host_errors_->rethrow();
}

OwnedEvent::OwnedEvent(std::shared_ptr<const GpuContext> context, unsigned flags)
    : context_(std::move(context)) {
  const GpuContext::Current current(*context_);
  context_->check(context_->driver().event_create(&event_, flags), "making an event");
}

OwnedEvent::~OwnedEvent() {
  const GpuContext::Current current(*context_, std::nothrow);
  if (current.active()) context_->driver().event_destroy(event_);
}

namespace {

class DriverMark final : public Mark {
 public:
  explicit DriverMark(const std::shared_ptr<const GpuContext>& context)
      : context_(context), event_(context, api::kEventDisableTiming) {}
  void set() override {
    const GpuContext::Current current(*context_);
    context_->check(context_->driver().event_record(event_.get(), context_->stream()),
                    "recording an event");
  }
  void wait() override {
    const GpuContext::Current current(*context_);
    context_->check(context_->driver().event_synchronize(event_.get()), "running kernels");
  }

 private:
  std::shared_ptr<const GpuContext> context_;
  OwnedEvent event_;
};

}  // namespace

std::unique_ptr<Mark> DriverGpu::make_mark() { return std::make_unique<DriverMark>(context_); }

std::shared_ptr<const cuda::Module> DriverGpu::load(const std::string& image,
                                                    const std::string& name) {
  return std::make_shared<DriverModule>(context_, image, name);
}

std::array<std::byte, 128> DriverGpu::encode(const TensorMap& map, void* address) {
  const Driver& driver = context_->driver();
  if (driver.tensor_map_encode_tiled == nullptr || driver.tensor_map_encode_im2col == nullptr)
    fail(ErrorCode::kDevice, "the CUDA driver supports CUDA {}; sm_90 needs CUDA 12.0 or newer",
         to_string(driver.version));
  const GpuContext::Current current(*context_);
  const auto rank = static_cast<std::uint32_t>(map.extents.size());
  ensure(map.strides.size() + 1 == rank && map.steps.size() == rank,
         "a tensor map has a stride for every axis but the innermost, and a step for each");
  api::TensorMap encoded{};
  if (map.kind == TensorMap::Kind::kTiled) {
    ensure(map.box.size() == rank, "a tiled tensor map has a box extent for each axis");
    context_->check(
        driver.tensor_map_encode_tiled(
            &encoded, map_type(map.dtype), rank, address, map.extents.data(), map.strides.data(),
            map.box.data(), map.steps.data(), api::MapInterleave::kNone,
            map_swizzle(map.swizzle_bytes), api::MapPromotion::k128, api::MapFill::kZero),
        "encoding a tiled tensor map of extents {}, strides {}, box {}", map.extents, map.strides,
        map.box);
  } else {
    ensure(map.lower.size() + 2 == rank && map.upper.size() + 2 == rank,
           "an im2col tensor map has corners for every spatial axis");
    context_->check(
        driver.tensor_map_encode_im2col(
            &encoded, map_type(map.dtype), rank, address, map.extents.data(), map.strides.data(),
            map.lower.data(), map.upper.data(), map.channels, map.pixels, map.steps.data(),
            api::MapInterleave::kNone, map_swizzle(map.swizzle_bytes), api::MapPromotion::k128,
            api::MapFill::kZero),
        "encoding an im2col tensor map of extents {}, strides {}, corners {} and {}, {} channels, "
        "{} pixels",
        map.extents, map.strides, map.lower, map.upper, map.channels, map.pixels);
  }
  return std::bit_cast<std::array<std::byte, 128>>(encoded);
}

Prepared DriverGpu::prepare(const CudnnProblem& problem) {
  const auto session = [this] {
    const std::lock_guard lock(mutex_);
    if (cudnn_ == nullptr) {
      const auto enter = [context = context_]() -> std::shared_ptr<void> {
        return std::make_shared<GpuContext::Current>(*context);
      };
      cudnn_ = CudnnSession::open(open_cudnn(search_), {enter, context_->facts().name});
    }
    return cudnn_;
  }();
  return session->prepare(problem, *this);
}

std::unique_ptr<Recording> DriverGpu::record(std::vector<Step> steps) {
  return record_steps(context_, host_errors_, std::move(steps));
}

DriverModule::DriverModule(std::shared_ptr<const GpuContext> context, const std::string& image,
                           std::string name)
    : context_(std::move(context)), name_(std::move(name)) {
  const GpuContext::Current current(*context_);
  std::array<char, 4096> log{};
  std::array options = {api::JitOption::kErrorLogBuffer, api::JitOption::kErrorLogBytes};
  std::array<void*, 2> values = {log.data(), std::bit_cast<void*>(log.size() - 1)};
  // PTX ends with its zero: c_str() has one.
  const api::Result result = context_->driver().module_load_data(
      &module_, image.c_str(), static_cast<unsigned>(options.size()), options.data(),
      values.data());
  context_->check(result, "loading {}{}{}", name_, log[0] == '\0' ? "" : ": ", log.data());
}

DriverModule::~DriverModule() {
  const GpuContext::Current current(*context_, std::nothrow);
  if (current.active()) context_->driver().module_unload(module_);
}

api::Function DriverModule::function(const Kernel& kernel) const {
  const GpuContext::Current current(*context_);
  const Driver& driver = context_->driver();
  const std::lock_guard lock(mutex_);
  const auto [found, added] = entries_.try_emplace(kernel.entry);
  Entry& entry = found->second;
  if (added) {
    const api::Result result =
        driver.module_get_function(&entry.function, module_, kernel.entry.c_str());
    if (result != api::kSuccess) entries_.erase(found);
    context_->check(result, "looking for the kernel {} in {}", kernel.entry, name_);
  }
  // Also below 48 KiB, to which static shared memory counts too.
  if (kernel.shared_bytes > entry.shared_bytes) {
    context_->check(
        driver.func_set_attribute(entry.function, api::FunctionAttribute::kMaxDynamicSharedBytes,
                                  static_cast<int>(kernel.shared_bytes)),
        "asking for {} bytes of shared memory for {}", kernel.shared_bytes, kernel.entry);
    entry.shared_bytes = kernel.shared_bytes;
  }
  if (kernel.cluster > kPortableCluster)
    context_->check(driver.func_set_attribute(entry.function,
                                              api::FunctionAttribute::kNonPortableClusterSize, 1),
                    "asking for clusters of {} blocks for {}", kernel.cluster, kernel.entry);
  return entry.function;
}

void HostErrors::set(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
}

bool HostErrors::pending() const {
  const std::lock_guard lock(mutex_);
  return error_ != nullptr;
}

void HostErrors::rethrow() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = std::exchange(error_, nullptr);
  }
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace braze::cuda
