#include "exec/cuda/devices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exec/cuda/cudnn.hpp"
#include "exec/cuda/driver_gpu.hpp"
#include "exec/cuda/nvrtc.hpp"

namespace braze::cuda {
namespace {

DeviceReport report_gpu(const Driver& driver, int index) {
  DeviceReport report{fmt::format("cuda:{}", index), false, ""};
  try {
    const GpuFacts facts = read_facts(driver, index);
    const Device device = device_of(facts);
    report.usable = true;
    report.detail = fmt::format(
        "{}, sm_{}, {:.1f} GiB at {:.0f} GB/s, {} multiprocessors, kernels "
        "of {}",
        facts.name, facts.sm, facts.memory_bytes / (1 << 30), facts.memory_bandwidth / 1e9,
        device.units, device.sm == 90 ? "sm_90a" : fmt::format("sm_{}", device.sm));
  } catch (const Exception& error) {
    report.detail = error.error().message;
  }
  return report;
}

/// "13.0 /usr/lib/libnvrtc.so.13 (dynamic linker)": which, and why that one.
std::string describe(const OpenLibrary& library) {
  return fmt::format("{} {} ({})", to_string(library.version()), library.path().string(),
                     library.origin());
}

DeviceReport report_library(const char* name, Library library, const SearchPath& search) {
  const Search found = open_library(library, search);
  if (found.library == nullptr) return {name, false, found.explain(library)};
  return {name, true, describe(*found.library)};
}

}  // namespace

std::vector<DeviceReport> report_devices(const SearchPath& search) {
  std::vector<DeviceReport> reports;
  Version version;  // of the driver; nothing: none
  try {
    const auto driver = open_driver(search);
    version = driver->version;
    reports.push_back({"cuda", true, "driver for CUDA " + describe(*driver->library)});
    for (int i = 0; i < driver->devices; ++i) reports.push_back(report_gpu(*driver, i));
  } catch (const Exception& error) {
    reports.push_back({"cuda", false, error.error().message});
  }
  try {
    const auto nvrtc = open_nvrtc(search, 0, version);
    reports.push_back({"nvrtc", true,
                       fmt::format("{}, compiles for sm_{}", describe(*nvrtc->library),
                                   fmt::join(nvrtc->archs, ", "))});
  } catch (const Exception& error) {
    reports.push_back({"nvrtc", false, error.error().message});
  }
  try {
    const auto cudnn = open_cudnn(search);
    reports.push_back({"cudnn", true, describe(*cudnn->library)});
  } catch (const Exception& error) {
    reports.push_back({"cudnn", false, error.error().message});
  }
  reports.push_back(report_library("cudart", Library::kCudart, search));
  return reports;
}

}  // namespace braze::cuda
