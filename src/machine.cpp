#include "machine.hpp"

#include <charconv>
#include <fstream>
#include <memory>
#include <string_view>

#include "base/error.hpp"
#include "exec/cpu_program.hpp"
#include "exec/cuda/cuda_program.hpp"
#include "exec/cuda/cudnn.hpp"
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
  if (options.plan_only && machine.gpu == nullptr)
    return std::make_unique<cuda::CudaProgram>(std::move(plan), nullptr, nullptr);
  if (machine.compiler != nullptr)
    return std::make_unique<cuda::CudaProgram>(std::move(plan), machine.gpu,
                                               machine.compiler.get());
  const cuda::SearchPath search = cuda::SearchPath::of_process();
  const auto* gpu = dynamic_cast<const cuda::DriverGpu*>(machine.gpu.get());
  const cuda::Version driver = gpu == nullptr ? cuda::Version{} : gpu->driver().version;
  auto compiler =
      std::make_unique<cuda::NvrtcCompiler>(cuda::open_nvrtc(search, machine.sm, driver),
                                            machine.sm, cuda::device_headers(), options.threads);
  const std::string identity = compiler->identity();
  cuda::KernelCache cache(cuda::cache_folder(options.cache_dir));
  cuda::CachingCompiler caching(std::move(compiler), identity, cache);
  auto program =
      std::make_unique<cuda::CudaProgram>(std::move(plan), machine.gpu, &caching, options.threads);
  cache.trim();
  return program;
}

/// "AMD EPYC 9B14 96-Core Processor", as the kernel calls it.
std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t:", line.find(':'));
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "CPU";
}

/// kDevice, and why, if there is no cuDNN. Opened here, so that this is known before anything long.
void require_cudnn() {
  try {
    (void)cuda::open_cudnn(cuda::SearchPath::of_process());
  } catch (const Exception& exception) {
    fail(exception.error().code, "backend cudnn: {}", exception.what());
  }
}

bool has_cudnn() {
  try {
    return cuda::open_cudnn(cuda::SearchPath::of_process()) != nullptr;
  } catch (const Exception&) {
    return false;
  }
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
  Machine machine;
  if (name == "cpu") {
    machine.device = cpu_device(options.threads);
    machine.device.max_error = options.max_error;
    machine.registry = cpu::registry();
    machine.name =
        fmt::format("{}, {} threads, {}", cpu_model(), machine.device.units, machine.device.isa);
    return machine;
  }
  const bool cudnn = options.backend == Backend::kCudnn;
  machine.registry = cudnn ? cuda::registry_with_cudnn() : cuda::registry();
  if (name.starts_with(kArchitecture) && parse_number(name.substr(kArchitecture.size())) >= 0) {
    machine.sm = parse_number(name.substr(kArchitecture.size()));
    try {
      machine.device = cuda_device(machine.sm);
    } catch (const Exception& exception) {
      fail(ErrorCode::kUsage, "device '{}': {}", name, exception.what());
    }
    if (cudnn)
      fail(ErrorCode::kUsage,
           "backend cudnn chooses by measuring on a GPU; device '{}' names an architecture", name);
  } else if (name == "cuda" || (name.starts_with("cuda:") && parse_number(name.substr(5)) >= 0)) {
    const int index = name == "cuda" ? 0 : parse_number(name.substr(5));
    std::shared_ptr<cuda::DriverGpu> gpu = open_gpu(name, index);
    machine.device = gpu->device();
    machine.sm = gpu->sm();
    machine.name =
        fmt::format("{}, sm_{}, {} multiprocessors", gpu->name(), machine.sm, machine.device.units);
    machine.gpu = std::move(gpu);
    if (cudnn) require_cudnn();
    if (options.backend == Backend::kAuto && has_cudnn()) {
      machine.registry = cuda::registry_offering_cudnn();
      machine.alternatives = {{"cudnn", cuda::cudnn_takes}};
    }
  } else {
    fail(ErrorCode::kUsage, "device '{}' is unknown; expected cpu, cuda, cuda:N or cuda:sm_XX",
         name);
  }
  machine.device.tf32 = options.precision == Precision::kTf32;
  machine.device.max_error = options.max_error;
  return machine;
}

Machine machine_of_engine(const Device& planned, const Options& options) {
  Options mine = options;
  mine.device = "cpu";
  if (planned.kind == DeviceKind::kCuda) {
    mine.device = options.device.starts_with("cuda") ? options.device : "cuda";
    if (options.plan_only) mine.device = fmt::format("cuda:sm_{}", planned.sm);
  }
  Machine machine = select_machine(mine);
  if (machine.device.sm != planned.sm)
    fail(ErrorCode::kDevice,
         "the engine was compiled for the kernels of sm_{}; {} runs those of sm_{}: compile the "
         "model again for it",
         planned.sm, mine.device, machine.device.sm);
  machine.device.tf32 = planned.tf32;
  machine.device.max_error = planned.max_error;
  if (options.plan_only && planned.kind == DeviceKind::kCuda) {
    machine.device.name = planned.name;
    machine.device.units = planned.units;
  }
  return machine;
}

std::unique_ptr<const Program> make_program(Plan plan, const Machine& machine,
                                            const Options& options) {
  if (machine.device.kind == DeviceKind::kCpu) return std::make_unique<CpuProgram>(std::move(plan));
  return make_cuda_program(std::move(plan), machine, options);
}

}  // namespace braze
