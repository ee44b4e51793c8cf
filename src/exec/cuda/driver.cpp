#include "exec/cuda/driver.hpp"

#include <array>

namespace braze::cuda {
namespace {

/// Errors after which the context refuses everything.
bool is_sticky(api::Result result) {
  switch (result) {
    case api::kEccUncorrectable:
    case api::kNvlinkUncorrectable:
    case api::kContained:
    case api::kIllegalAddress:
    case api::kLaunchTimeout:
    case api::kContextIsDestroyed:
    case api::kAssert:
    case api::kTensorMemoryLeak:
    case api::kMpsClientTerminated:
    case api::kUnknown:
      return true;
    default:
      return result >= api::kHardwareStackError && result <= api::kLaunchFailed;
  }
}

constexpr const char* kNoGpu = "it finds no GPU that it can use";

}  // namespace

std::string Driver::describe(api::Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (get_error_name(result, &name) != api::kSuccess || name == nullptr)
    return fmt::format("CUDA error {}", result);
  if (get_error_string(result, &text) != api::kSuccess || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

std::shared_ptr<const Driver> open_driver(const SearchPath& search) {
  const Search found = open_library(Library::kDriver, search);
  if (found.library == nullptr)
    fail(ErrorCode::kDevice, "no GPU can be used: {}", found.explain(Library::kDriver));
  auto driver = std::make_shared<Driver>();
  driver->library = found.library;
  driver->version = found.library->version();
  const std::string path = found.library->path().string();
  if (driver->version < kOldestDriver)
    fail(ErrorCode::kDevice,
         "the CUDA driver {} supports CUDA {}; Braze needs a driver for CUDA {} or newer", path,
         to_string(driver->version), to_string(kOldestDriver));
  const char* missing = nullptr;
#define BRAZE_LOAD(member, name, parameters)                                                 \
  driver->member = reinterpret_cast<decltype(driver->member)>(found.library->symbol(#name)); \
  if (driver->member == nullptr) missing = #name;
  BRAZE_OPTIONAL_DRIVER_FUNCTIONS(BRAZE_LOAD)
  missing = nullptr;  // a driver without those is none the worse
  BRAZE_DRIVER_FUNCTIONS(BRAZE_LOAD)
#undef BRAZE_LOAD
  if (missing != nullptr)
    fail(ErrorCode::kDevice, "the CUDA driver {} has no {}; it is not a whole driver for CUDA {}",
         path, missing, to_string(driver->version));
  const api::Result begun = driver->init(0);
  if (begun != api::kSuccess)
    fail(ErrorCode::kDevice, "the CUDA driver {} does not start: {}", path,
         begun == api::kNoDevice ? kNoGpu : driver->describe(begun));
  if (driver->device_get_count(&driver->devices) != api::kSuccess || driver->devices == 0)
    fail(ErrorCode::kDevice, "the CUDA driver {} is here, but {}", path, kNoGpu);
  return driver;
}

GpuFacts read_facts(const Driver& driver, int index) {
  if (index < 0 || index >= driver.devices)
    fail(ErrorCode::kDevice, "there is no cuda:{}; there {}", index,
         driver.devices == 1 ? "is only cuda:0"
                             : fmt::format("are cuda:0 to cuda:{}", driver.devices - 1));
  api::DeviceId device = 0;
  const api::Result result = driver.device_get(&device, index);
  if (result != api::kSuccess)
    fail(ErrorCode::kDevice, "cuda:{} cannot be used: {}", index, driver.describe(result));
  const auto read = [&](api::DeviceAttribute attribute) {
    int value = 0;
    return driver.device_get_attribute(&value, attribute, device) == api::kSuccess ? value : 0;
  };
  GpuFacts facts;
  std::array<char, 256> name{};
  if (driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device) ==
      api::kSuccess)
    facts.name = name.data();
  using enum api::DeviceAttribute;
  facts.sm = read(kCapabilityMajor) * 10 + read(kCapabilityMinor);
  facts.multiprocessors = read(kMultiprocessorCount);
  facts.shared_bytes = read(kSharedBytesOfBlock);
  facts.l2_bytes = read(kL2Bytes);
  // Twice: both edges of the clock carry data.
  facts.memory_bandwidth = 2.0 * read(kMemoryClockKhz) * 1e3 * read(kMemoryBusBits) / 8;
  std::size_t bytes = 0;
  if (driver.device_total_mem(&bytes, device) == api::kSuccess)
    facts.memory_bytes = static_cast<double>(bytes);
  return facts;
}

GpuContext::GpuContext(std::shared_ptr<const Driver> driver, int index)
    : driver_(std::move(driver)), facts_(read_facts(*driver_, index)) {
  name_ = fmt::format("cuda:{} ({})", index, facts_.name);
  check(driver_->device_get(&device_, index), "opening it");
  check(driver_->device_primary_ctx_retain(&context_, device_), "making a context");
  api::Result result = driver_->ctx_push_current(context_);
  if (result == api::kSuccess) {
    result = driver_->stream_create(&stream_, api::kStreamNonBlocking);
    api::Context popped = nullptr;
    driver_->ctx_pop_current(&popped);
  }
  if (result == api::kSuccess) return;
  driver_->device_primary_ctx_release(device_);
  refuse(result, "making a stream");
}

GpuContext::~GpuContext() {
  {
    const Current current(*this, std::nothrow);
    if (current.active()) driver_->stream_destroy(stream_);
  }
  driver_->device_primary_ctx_release(device_);
}

GpuContext::Current::Current(const GpuContext& context)
    : context_(context),
      result_((context.check_alive(), context.driver_->ctx_push_current(context.context_))) {
  context.check(result_, "entering its context");
}

GpuContext::Current::Current(const GpuContext& context, std::nothrow_t)
    : context_(context), result_(context.driver_->ctx_push_current(context.context_)) {}

GpuContext::Current::~Current() {
  api::Context popped = nullptr;
  if (active()) context_.driver_->ctx_pop_current(&popped);
}

void GpuContext::check_alive() const {
  if (!lost_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  fail(ErrorCode::kDevice, "{} was lost: {}; only a new process can use it again", name_, loss_);
}

void GpuContext::refuse(api::Result result, const std::string& doing) const {
  check_alive();
  if (result == api::kOutOfMemory) {
    std::size_t unused = 0;
    std::size_t total = 0;
    driver_->mem_get_info(&unused, &total);
    fail(ErrorCode::kOutOfMemory, "{} ran out of memory while {}: {:.1f} of {:.1f} MiB are free",
         name_, doing, static_cast<double>(unused) / 1048576, static_cast<double>(total) / 1048576);
  }
  if (is_sticky(result)) {
    const std::lock_guard lock(mutex_);
    if (loss_.empty()) loss_ = fmt::format("{} while {}", driver_->describe(result), doing);
    lost_.store(true, std::memory_order_release);
  }
  check_alive();
  fail(ErrorCode::kDevice, "{} failed while {}: {}", name_, doing, driver_->describe(result));
}

}  // namespace braze::cuda
