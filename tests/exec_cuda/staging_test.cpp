// Copies through a few chunks of pinned memory, with a driver whose copies are done at once and
// with a GPU whose copies are done as late as possible.
#include "exec/cuda/staging.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "exec/cuda/driver_gpu.hpp"
#include "exec_cuda/fakes.hpp"
#include "support/simt/emulated_gpu.hpp"

namespace braze::cuda {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Tensors of these sizes there and back.
void expect_round_trip(Gpu& gpu, Staging& staging, const std::vector<std::size_t>& sizes) {
  std::vector<Memory> device;
  std::vector<std::vector<std::byte>> sent, got;
  for (const std::size_t size : sizes) {
    device.push_back(gpu.allocate(size, "values"));
    sent.push_back(random_bytes(size, static_cast<unsigned>(size)));
    got.emplace_back(size);
    std::vector<std::byte> passing = sent.back();
    staging.to_device(device.back().get(), passing.data(), size);
    std::fill(passing.begin(), passing.end(), std::byte{0});  // it has been read
  }
  for (std::size_t i = 0; i < sizes.size(); ++i)
    staging.to_host(got[i].data(), device[i].get(), sizes[i]);
  staging.finish();
  for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(sent[i], got[i]) << sizes[i];
}

const std::vector<std::size_t> kSizes = {0, 1, 255, 256, 257, 5000, 1024, 4096, 3, 20000, 0, 777};

TEST(Staging, TensorsOfAnySizeComeBackWhole) {
  fake_driver();
  DriverGpu driver(only(fakes("driver")), 0);
  test::EmulatedGpu emulated;
  for (Gpu* gpu : std::initializer_list<Gpu*>{&driver, &emulated}) {
    for (const std::size_t chunks : {1U, 2U, 4U}) {
      Staging staging(*gpu, 1024, chunks);
      for (int round = 0; round < 3; ++round) expect_round_trip(*gpu, staging, kSizes);
    }
  }
}

TEST(Staging, PinsNoMoreThanItsChunks) {
  fake::State& fake = fake_driver();
  DriverGpu gpu(only(fakes("driver")), 0);
  Staging staging(gpu, 1024, 3);
  expect_round_trip(gpu, staging, {100'000});
  EXPECT_EQ(fake.host_allocated, 3072U);
}

TEST(Staging, SmallTensorsTravelInOneChunk) {
  fake::State& fake = fake_driver();
  DriverGpu gpu(only(fakes("driver")), 0);
  Staging staging(gpu, 4096, 3);
  std::vector<std::byte> host(64);
  const Memory device = gpu.allocate(64, "values");
  for (int i = 0; i < 8; ++i) staging.to_host(host.data(), device.get(), 64);
  staging.finish();
  EXPECT_EQ(std::ranges::count(fake.calls, "cuEventSynchronize"), 1);
}

TEST(Staging, ALostDeviceIsToldAndWhatWasOnItsWayForgotten) {
  fake::State& fake = fake_driver();
  DriverGpu gpu(only(fakes("driver")), 0);
  Staging staging(gpu, 1024, 2);
  std::vector<std::byte> host(64, std::byte{1});
  const Memory device = gpu.allocate(64, "values");
  staging.to_host(host.data(), device.get(), 64);
  fake.errors["cuEventSynchronize"] = api::kIllegalAddress;
  EXPECT_EQ(error_of([&] { staging.finish(); }).code, ErrorCode::kDevice);
  staging.drop();
  fake.errors.clear();
  EXPECT_EQ(host[0], std::byte{1});
}

}  // namespace
}  // namespace braze::cuda
