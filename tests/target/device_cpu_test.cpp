#include <gtest/gtest.h>

#include <cstdlib>

#include "target/device.hpp"

namespace braze {
namespace {

TEST(CpuDevice, IsPlausible) {
  const Device device = cpu_device(0);
  EXPECT_EQ(device.name, "cpu");
  EXPECT_EQ(device.kind, DeviceKind::kCpu);
  EXPECT_GE(device.units, 1);
  EXPECT_FALSE(device.isa.empty());
  EXPECT_GE(device.onchip_bytes, 64 * 1024.0);
  EXPECT_GE(device.cache_bytes, device.onchip_bytes);
  EXPECT_GT(device.flops_fp32, 1e9);
  EXPECT_LT(device.flops_fp32 / device.units, 1e12);
  EXPECT_GT(device.dram_bandwidth, 1e9);
  EXPECT_GT(device.cache_bandwidth, device.dram_bandwidth);
  EXPECT_GT(device.onchip_bandwidth, device.cache_bandwidth);
}

TEST(CpuDevice, WorkersBeyondTheCpusAddNoRate) {
  const Device all = cpu_device(0);
  const Device one = cpu_device(1);
  const Device many = cpu_device(1000);
  EXPECT_EQ(one.units, 1);
  EXPECT_EQ(many.units, 1000);
  EXPECT_LE(one.flops_fp32, all.flops_fp32);
  EXPECT_EQ(many.flops_fp32, all.flops_fp32);
}

TEST(CpuDevice, ObeysAWishForALesserInstructionSetOnly) {
  const std::string best = cpu_device(1).isa;
  setenv("BRAZE_ISA", "EMU128", 1);
  EXPECT_EQ(cpu_device(1).isa, "EMU128");
  setenv("BRAZE_ISA", "no such set", 1);
  EXPECT_EQ(cpu_device(1).isa, best);
  setenv("BRAZE_ISA", "AVX2", 1);
  EXPECT_EQ(cpu_device(1).isa, best == "AVX3" ? "AVX2" : best);
  unsetenv("BRAZE_ISA");
}

}  // namespace
}  // namespace braze
