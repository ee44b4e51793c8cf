// What the planner knows of a device: a plain record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "braze/tensor.hpp"

namespace braze {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

/// Rates are per second for the whole device, sizes in bytes, times in microseconds.
struct Device {
  std::string name;  // "cpu", "cuda:sm_90"
  DeviceKind kind = DeviceKind::kCpu;
  int sm = 0;                   // CUDA: 90 for sm_90
  int units = 1;                // CPU: worker threads; CUDA: SMs
  double onchip_bytes = 0;      // CPU: L2 of one core; CUDA: shared memory of one block
  double cache_bytes = 0;       // CPU: L3; CUDA: L2
  double dram_bandwidth = 0;    // bytes/s
  double cache_bandwidth = 0;   // bytes/s, from cache_bytes
  double onchip_bandwidth = 0;  // bytes/s, from onchip_bytes
  double flops_fp32 = 0;        // operations/s; a multiply-add is two
  double flops_tf32 = 0;
  double flops_fp16 = 0;
  double ops_int8 = 0;
  double launch_us = 0;   // CPU: waking the workers for a parallel loop; CUDA: between two kernels
                          // of a graph
  double kernel_us = 0;   // the shortest kernel, from the end of the one before
  double barrier_us = 0;  // grid-wide barrier inside a kernel
  bool tf32 = false;      // CUDA: fp32 products may be rounded to tf32 (--precision tf32)
  double max_error = 1e-4;  // largest error of an output, as a fraction of its range, that a faster
                            // algorithm may bring
  std::string isa;          // CPU: Highway target that will run, e.g. "AVX3"; "" on CUDA
};

/// The CPU this process runs on, with `threads` workers (0: all it may use). Read from the machine;
/// never fails: what cannot be read gets a conservative value.
Device cpu_device(int threads);

/// The checked-in record of a GPU: 70, 75, 80, 86, 89, 90. kUnsupported listing them for any other.
Device cuda_device(int sm);

/// One line per field, with units.
std::string print(const Device& device);

}  // namespace braze
