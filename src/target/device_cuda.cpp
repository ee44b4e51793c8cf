// One representative GPU per architecture: what a plan for a GPU that is not here is made from.
// Rates are the vendor's dense peaks, but for sm_90, whose numbers were measured on an H200
// (bench/results). There a kernel in a network takes 0.2 to 0.4 us more than after itself, and none
// takes less than 1 us: estimates that were fitted to such times contain the kernel's beginning.
// Older GPUs do not overlap the kernels of a graph (programmatic dependent launch begins with
// sm_90): a whole launch is between them, which is all that is known of their shortest kernel.
#include <fmt/format.h>

#include <array>

#include "base/error.hpp"
#include "target/device.hpp"

namespace braze {
namespace {

struct Record {
  int sm;
  int multiprocessors;
  double shared_kib;  // of one block
  double l2_mib;
  double dram_gb_s, l2_gb_s;
  double fp32_tflops, tf32_tflops, fp16_tflops, int8_tops;
  double launch_us, kernel_us, barrier_us;
};

constexpr std::array kRecords = {
    Record{70, 80, 96, 6, 900, 2500, 15.7, 15.7, 125, 62, 2.0, 0, 1.5},        // V100
    Record{75, 40, 64, 4, 320, 1300, 8.1, 8.1, 65, 130, 2.0, 0, 1.5},          // T4
    Record{80, 108, 163, 40, 1555, 4500, 19.5, 156, 312, 624, 1.4, 0, 1.2},    // A100
    Record{86, 72, 99, 6, 600, 2000, 31.2, 62.5, 125, 250, 1.4, 0, 1.2},       // A10
    Record{89, 142, 99, 96, 864, 4000, 91.6, 183, 362, 733, 1.2, 0, 1.1},      // L40S
    Record{90, 132, 227, 60, 4300, 7400, 67, 395, 790, 1580, 0.3, 1.0, 0.95},  // H200
};

}  // namespace

Device cuda_device(int sm) {
  for (const Record& record : kRecords) {
    if (record.sm != sm) continue;
    Device device;
    device.name = fmt::format("cuda:sm_{}", sm);
    device.kind = DeviceKind::kCuda;
    device.sm = sm;
    device.units = record.multiprocessors;
    device.onchip_bytes = record.shared_kib * 1024;
    device.cache_bytes = record.l2_mib * 1024 * 1024;
    device.dram_bandwidth = record.dram_gb_s * 1e9;
    device.cache_bandwidth = record.l2_gb_s * 1e9;
    device.onchip_bandwidth = 128.0 * 1.6e9 * record.multiprocessors;  // 128 bytes per clock and SM
    device.flops_fp32 = record.fp32_tflops * 1e12;
    device.flops_tf32 = record.tf32_tflops * 1e12;
    device.flops_fp16 = record.fp16_tflops * 1e12;
    device.ops_int8 = record.int8_tops * 1e12;
    device.launch_us = record.launch_us;
    device.kernel_us = record.kernel_us;
    device.barrier_us = record.barrier_us;
    return device;
  }
  fail(ErrorCode::kDevice,
       "there is no device record for sm_{}; there are sm_70, sm_75, sm_80, sm_86, sm_89 and sm_90",
       sm);
}

std::string print(const Device& device) {
  return fmt::format(
      "name              {}\nunits             {}\non-chip           {:.0f} KiB\ncache             "
      "{:.1f} MiB\n"
      "memory bandwidth  {:.1f} GB/s\ncache bandwidth   {:.1f} GB/s\nfp32              {:.2f} "
      "TFLOP/s\n"
      "tf32              {:.2f} TFLOP/s\nfp16              {:.2f} TFLOP/s\nint8              "
      "{:.2f} TOP/s\n"
      "launch            {:.2f} us\nshortest kernel   {:.2f} us\nbarrier           {:.2f} us\n{}",
      device.name, device.units, device.onchip_bytes / 1024, device.cache_bytes / 1048576,
      device.dram_bandwidth / 1e9, device.cache_bandwidth / 1e9, device.flops_fp32 / 1e12,
      device.flops_tf32 / 1e12, device.flops_fp16 / 1e12, device.ops_int8 / 1e12, device.launch_us,
      device.kernel_us, device.barrier_us,
      device.isa.empty() ? "" : fmt::format("instruction set   {}\n", device.isa));
}

}  // namespace braze
