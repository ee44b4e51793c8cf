#include "machine.hpp"

#include <charconv>
#include <memory>
#include <string_view>

#include "base/error.hpp"
#include "exec/cpu_program.hpp"
#include "exec/cuda/cuda_program.hpp"
#include "exec/cuda/driver_gpu.hpp"
#include "exec/cuda/kernel_cache.hpp"
#include "exec/cuda/nvrtc.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cuda/families.hpp"

namespace braze {
namespace {

/// The number that `text` is all of, or -1.
int parse_number(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? number : -1;
}

std::unique_ptr<const Program> make_cuda_program(Plan plan, const Machine& machine,
                                                 const Options& options) {
  if (machine.compiler != nullptr)
    return std::make_unique<cuda::CudaProgram>(std::move(plan), machine.gpu, *machine.compiler);
  const cuda::SearchPath search = cuda::SearchPath::of_process();
  const auto* gpu = dynamic_cast<const cuda::DriverGpu*>(machine.gpu.get());
  const cuda::Version driver = gpu == nullptr ? cuda::Version{} : gpu->driver().version;
  auto compiler =
      std::make_unique<cuda::NvrtcCompiler>(cuda::open_nvrtc(search, machine.sm, driver),
                                            machine.sm, cuda::device_headers(), options.threads);
  const std::string identity = compiler->identity();
  cuda::KernelCache cache(cuda::cache_folder(options.cache_dir));
  cuda::CachingCompiler caching(std::move(compiler), identity, cache);
  auto program = std::make_unique<cuda::CudaProgram>(std::move(plan), machine.gpu, caching);
  cache.trim();
  return program;
}

/// GPU number `index`; errors name the option that asked for it.
std::shared_ptr<cuda::DriverGpu> open_gpu(std::string_view option, int index) {
  try {
    return std::make_shared<cuda::DriverGpu>(cuda::SearchPath::of_process(), index);
  } catch (const Exception& exception) {
    fail(exception.error().code, "device '{}': {}", option, exception.what());
  }
}

}  // namespace

Machine select_machine(const Options& options) {
  const std::string_view name = options.device;
  constexpr std::string_view kArchitecture = "cuda:sm_";
  if (options.threads < 0)
    fail(ErrorCode::kUsage, "threads is {}; expected 0 (all) or more", options.threads);
  if (name == "cpu") return {cpu_device(options.threads), cpu::registry(), nullptr, 0, nullptr};

  Machine machine{{}, cuda::registry(), nullptr, 0, nullptr};
  if (name.starts_with(kArchitecture) && parse_number(name.substr(kArchitecture.size())) >= 0) {
    machine.sm = parse_number(name.substr(kArchitecture.size()));
    machine.device = cuda_device(machine.sm);
  } else if (name == "cuda" || (name.starts_with("cuda:") && parse_number(name.substr(5)) >= 0)) {
    const int index = name == "cuda" ? 0 : parse_number(name.substr(5));
    std::shared_ptr<cuda::DriverGpu> gpu = open_gpu(name, index);
    machine.device = gpu->device();
    machine.sm = gpu->sm();
    machine.gpu = std::move(gpu);
  } else {
    fail(ErrorCode::kUsage, "device '{}' is unknown; expected cpu, cuda, cuda:N or cuda:sm_XX",
         name);
  }
  machine.device.tf32 = options.precision == Precision::kTf32;
  return machine;
}

std::string device_option(const Device& planned, const Options& options) {
  if (planned.kind == DeviceKind::kCpu) return "cpu";
  return options.device.starts_with("cuda") ? options.device : "cuda";
}

std::unique_ptr<const Program> make_program(Plan plan, const Machine& machine,
                                            const Options& options) {
  if (machine.device.kind == DeviceKind::kCpu) return std::make_unique<CpuProgram>(std::move(plan));
  return make_cuda_program(std::move(plan), machine, options);
}

}  // namespace braze
