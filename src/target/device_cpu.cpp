// The record of the CPU this process runs on.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "target/device.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace braze {
namespace {

/// First line of a file; "" if it cannot be read.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "1024K", "32M", "512" -> bytes; 0 if it is no size.
double parse_size(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!(number > 0)) return 0;
  return number * (*end == 'K' ? 1024.0 : *end == 'M' ? 1024.0 * 1024.0 : 1.0);
}

/// CPUs this process may run on, and no more than its control group's quota.
int usable_cpus() {
  int cpus = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = std::max(1, CPU_COUNT(&set));
  double quota = 0;
  double period = 0;
  std::ifstream limits(
      "/sys/fs/cgroup/cpu.max");  // "QUOTA PERIOD" in microseconds, or "max PERIOD"
  if (limits >> quota >> period && quota > 0 && period > 0) {
    cpus = std::min(cpus, std::max(1, static_cast<int>(std::ceil(quota / period))));
  }
  return cpus;
}

/// Bytes of the data or unified cache of a level; 0 if unknown.
double cache_size(int level) {
  const std::string root = "/sys/devices/system/cpu/cpu0/cache/index";
  for (int index = 0; index < 8; ++index) {
    const std::string dir = root + std::to_string(index);
    if (first_line(dir + "/level") != std::to_string(level)) continue;
    if (first_line(dir + "/type") == "Instruction") continue;
    return parse_size(first_line(dir + "/size"));
  }
  return 0;
}

/// Highest clock in Hz that the machine states.
double clock_hz() {
  const double khz =
      parse_size(first_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"));
  if (khz > 0) return khz * 1e3;
#if defined(__x86_64__)
  unsigned base_mhz = 0, max_mhz = 0, bus_mhz = 0, unused = 0;
  if (__get_cpuid(0x16, &base_mhz, &max_mhz, &bus_mhz, &unused) != 0 && max_mhz > 0) {
    return static_cast<double>(max_mhz) * 1e6;
  }
#endif
  std::ifstream info(
      "/proc/cpuinfo");  // a virtual machine shows the constant rate of its counter here
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("cpu MHz")) return parse_size(line.substr(line.find(':') + 1)) * 1e6;
  }
  return 2e9;
}

/// Of the last level, what one core can count on.
constexpr double kCacheOfCore = 4 * 1024 * 1024.0;

struct Isa {
  std::string name;
  double flops_per_cycle = 8;  // fp32, of one core
};

#if defined(__x86_64__)
/// AMD before family 0x1a runs a 512-bit multiply-add in two halves, and so does a part of Intel's
/// line.
bool full_width_avx512() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool amd = ebx == signature_AMD_ebx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  const unsigned family = ((eax >> 8) & 0xf) + ((eax >> 20) & 0xff);
  return !amd || family >= 0x1a;
}

/// What Highway demands of its AVX3 and AVX2 targets.
Isa best_isa() {
  __builtin_cpu_init();
  const auto has_avx2 = [] {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
           __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
  };
  const auto has_avx3 = [] {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512cd") != 0;
  };
  if (has_avx2() && has_avx3()) return {"AVX3", full_width_avx512() ? 64.0 : 32.0};
  if (has_avx2()) return {"AVX2", 32};
  return {"EMU128", 4};
}
#elif defined(__aarch64__)
Isa best_isa() { return {"NEON", 16}; }
#else
Isa best_isa() { return {"EMU128", 4}; }
#endif

/// The best set, or a lesser one that BRAZE_ISA asks for. What the machine cannot run is not
/// obeyed.
Isa chosen_isa() {
  Isa best = best_isa();
  const char* wish = std::getenv("BRAZE_ISA");
  const std::string name = wish == nullptr ? "" : wish;
  if (name == "AVX2" && best.name == "AVX3") return {"AVX2", 32};
  if (name == "EMU128" || name == "SCALAR") return {"EMU128", 4};
  return best;
}

}  // namespace

Device cpu_device(int threads) {
  const int usable = usable_cpus();
  const Isa isa = chosen_isa();
  const double clock = clock_hz();
  const double l2 = cache_size(2);
  const double l3 = cache_size(3);

  Device device;
  device.name = "cpu";
  device.kind = DeviceKind::kCpu;
  device.units = threads > 0 ? threads : usable;
  device.isa = isa.name;
  const double cores = std::min(device.units, usable);  // more workers than CPUs bring no rate
  device.onchip_bytes = l2 > 0 ? l2 : 256 * 1024.0;
  // A virtual machine sees the whole of a cache that it shares with others.
  device.cache_bytes = l3 > 0 ? std::min(l3, kCacheOfCore * usable)
                              : std::max(device.onchip_bytes, 2 * 1024 * 1024.0);
  // One core draws 10-25 GB/s from memory, a socket's channels saturate at several of them.
  device.dram_bandwidth = std::min(18e9 * cores, 100e9);
  // Bytes per cycle and core, sustained; of several workers, each reads what others have made.
  device.cache_bandwidth = (device.units > 1 ? 8 : 20) * clock * cores;
  device.onchip_bandwidth = 32 * clock * cores;
  device.flops_fp32 = isa.flops_per_cycle * clock * cores;
  device.flops_tf32 = device.flops_fp32;  // computed in fp32
  device.flops_fp16 = device.flops_fp32;
  device.ops_int8 = device.flops_fp32;
  // A loop that workers share: handing it out takes 1 us while they wait for one (after some 10 ms
  // they sleep: 100 us, once; bench/cpu/wake_bench.cpp), the rest is waiting for the slower one.
  device.launch_us = device.units > 1 ? 3 : 0.1;  // or a call
  device.barrier_us = device.units > 1 ? 1 : 0;
  return device;
}

}  // namespace braze
