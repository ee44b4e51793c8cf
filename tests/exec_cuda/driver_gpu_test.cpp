// A GPU over the driver API, with a driver that notes what it is asked.
#include "exec/cuda/driver_gpu.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "exec_cuda/fakes.hpp"

namespace braze::cuda {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

class DriverGpuTest : public testing::Test {
 protected:
  std::unique_ptr<DriverGpu> open(int index = 0) {
    return std::make_unique<DriverGpu>(only(fakes("driver")), index);
  }
  Error refused(int index = 0) {
    return error_of([&] { open(index); });
  }
  /// Steps of kernels named so, of one module.
  std::vector<Step> launches(DriverGpu& gpu, const std::vector<const char*>& entries) {
    const auto module = gpu.load("image", "test.cu");
    std::vector<Step> steps;
    for (const char* entry : entries) {
      Kernel& kernel = kernels_.emplace_back();
      kernel.entry = entry;
      Step step;
      step.launch = {&kernel, module, std::vector<std::byte>(16)};
      step.name = std::string("k_") + entry + " (node)";
      steps.push_back(std::move(step));
    }
    return steps;
  }
  std::vector<std::string> ran() {
    std::vector<std::string> names;
    for (const fake::Launched& launched : fake_.launched) names.push_back(launched.kernel);
    return names;
  }

  fake::State& fake_ = fake_driver();
  std::deque<Kernel> kernels_;
};

TEST_F(DriverGpuTest, RecordIsReadFromTheCard) {
  const auto gpu = open();
  const Device& device = gpu->device();
  EXPECT_EQ(device.name, "cuda:sm_90");
  EXPECT_EQ(device.sm, 90);
  EXPECT_EQ(gpu->sm(), 90);
  EXPECT_EQ(device.units, 66);
  EXPECT_EQ(device.onchip_bytes, 227 << 10);
  EXPECT_EQ(device.cache_bytes, 50 << 20);
  EXPECT_DOUBLE_EQ(device.dram_bandwidth, 2e9 * 500 * 0.88);
  EXPECT_DOUBLE_EQ(device.flops_fp16, cuda_device(90).flops_fp16 / 2);  // half of 132 SMs
}

TEST_F(DriverGpuTest, FamiliesOfOtherArchitectures) {
  const auto family = [](int sm) { return device_of({"GPU", sm, 0, 0, 0, 0, 0}).sm; };
  EXPECT_EQ(family(70), 70);
  EXPECT_EQ(family(72), 70);
  EXPECT_EQ(family(75), 75);
  EXPECT_EQ(family(87), 86);
  EXPECT_EQ(family(89), 89);
  EXPECT_EQ(family(100), 80);
  EXPECT_EQ(family(120), 80);
  EXPECT_EQ(device_of({"GPU", 120, 0, 0, 0, 0, 0}).name, "cuda:sm_120");
}

TEST_F(DriverGpuTest, ObeysAWishForKernelsOfAnOlderGpuOnly) {
  const auto family = [](const char* wish, int sm) {
    setenv("BRAZE_ISA", wish, 1);
    const Device device = device_of({"GPU", sm, 66, 0, 0, 0, 0});
    unsetenv("BRAZE_ISA");
    EXPECT_EQ(device.name, fmt::format("cuda:sm_{}", sm));
    EXPECT_DOUBLE_EQ(device.flops_fp16 / 66,
                     cuda_device(device.sm).flops_fp16 / cuda_device(device.sm).units);
    return device.sm;
  };
  EXPECT_EQ(family("sm_80", 90), 80);
  EXPECT_EQ(family("sm_80", 89), 80);
  EXPECT_EQ(family("sm_75", 120), 75);
  EXPECT_EQ(family("sm_72", 90), 70);
  EXPECT_EQ(family("sm_80", 75), 75);
  EXPECT_EQ(family("sm_120", 90), 90);
  EXPECT_EQ(family("sm_35", 90), 90);
  EXPECT_EQ(family("AVX2", 90), 90);
}

TEST_F(DriverGpuTest, NoDriver) {
  const TemporaryFolder empty;
  const Error error = error_of([&] { DriverGpu(only(empty.path()), 0); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_EQ(exit_code(error.code), 4);
  EXPECT_THAT(error.message, StartsWith("no GPU can be used: the CUDA driver was not found"));
}

TEST_F(DriverGpuTest, DriverTooOld) {
  fake_.version = 11040;
  const Error error = refused();
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("supports CUDA 11.4"), HasSubstr("CUDA 11.8 or newer")));
}

TEST_F(DriverGpuTest, DriverDoesNotStart) {
  fake_.errors["cuInit"] = 803;
  EXPECT_THAT(refused().message, HasSubstr("does not start: CUDA_ERROR_OTHER (as the test wants)"));
  fake_.errors["cuInit"] = api::kNoDevice;
  EXPECT_THAT(refused().message, HasSubstr("it finds no GPU"));
  fake_.errors.clear();
  fake_.devices = 0;
  EXPECT_THAT(refused().message, HasSubstr("it finds no GPU"));
}

TEST_F(DriverGpuTest, NoSuchGpu) {
  const Error error = refused(3);
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_EQ(error.message, "there is no cuda:3; there is only cuda:0");
  fake_.devices = 2;
  EXPECT_EQ(refused(2).message, "there is no cuda:2; there are cuda:0 to cuda:1");
}

TEST_F(DriverGpuTest, TooOldAGpu) {
  fake_.sm = 61;
  const Error error = refused();
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_EQ(error.message, "Fake H200 is sm_61; Braze needs sm_70 or newer");
  EXPECT_EQ(fake_.contexts, 0);
}

TEST_F(DriverGpuTest, OutOfMemoryNamesWhatItWasFor) {
  const auto gpu = open();
  const auto half = gpu->allocate(fake_.memory_bytes / 2, "weights");
  const Error error = error_of([&] { gpu->allocate(fake_.memory_bytes, "the arena"); });
  EXPECT_EQ(error.code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(
      error.message,
      "cuda:0 (Fake H200) has no 1024.0 MiB left for the arena: 512.0 of 1024.0 MiB are free");
  EXPECT_NO_THROW(gpu->allocate(100, "a little"));  // not lost
}

TEST_F(DriverGpuTest, MemoryOutlivesTheGpuAndIsFreed) {
  auto gpu = open();
  auto memory = gpu->allocate(1000, "values");
  auto nothing = gpu->allocate(0, "nothing");
  auto host = gpu->allocate_host(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 256, 0U);
  auto module = gpu->load("image", "a.cu");
  auto recording = gpu->record(launches(*gpu, {"a"}));
  gpu.reset();
  EXPECT_EQ(fake_.contexts, 1);
  memory.reset();
  nothing.reset();
  host.reset();
  module.reset();
  recording.reset();
  EXPECT_EQ(fake_.allocated, 0U);
  EXPECT_EQ(fake_.host_allocated, 0U);
  EXPECT_EQ(fake_.modules, 0);
  EXPECT_EQ(fake_.graphs, 0);
  EXPECT_EQ(fake_.executables, 0);
  EXPECT_EQ(fake_.streams, 0);
  EXPECT_EQ(fake_.contexts, 0);
  EXPECT_EQ(fake_.pushed, 0);
}

TEST_F(DriverGpuTest, CopiesBothWays) {
  const auto gpu = open();
  const auto device = gpu->allocate(8, "values");
  const auto host = gpu->allocate_host(16);
  std::memcpy(host.get(), "abcdefgh", 8);
  gpu->copy_in(device.get(), host.get(), 8);
  gpu->copy_out(host.get() + 8, device.get(), 8);
  gpu->copy_in(device.get(), host.get(), 0);
  gpu->wait();
  EXPECT_EQ(std::memcmp(host.get() + 8, "abcdefgh", 8), 0);
}

TEST_F(DriverGpuTest, LaunchesInOrderAsOneGraph) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "b", "c"});
  kernels_[1].grid = {7, 5, 3};
  kernels_[1].block = {128, 2, 1};
  kernels_[1].shared_bytes = 100 * 1024;
  kernels_[1].cluster = 2;
  steps[1].launch.parameters[3] = std::byte{42};
  const auto recording = gpu->record(std::move(steps));
  EXPECT_THAT(ran(), testing::IsEmpty());
  recording->run();
  recording->run();
  gpu->wait();
  EXPECT_THAT(ran(), testing::ElementsAre("a", "b", "c", "a", "b", "c"));
  const fake::Launched& b = fake_.launched[1];
  EXPECT_EQ(b.config.grid_x, 7U);
  EXPECT_EQ(b.config.grid_y, 5U);
  EXPECT_EQ(b.config.grid_z, 3U);
  EXPECT_EQ(b.config.block_x, 128U);
  EXPECT_EQ(b.config.block_y, 2U);
  EXPECT_EQ(b.config.shared_bytes, 100U * 1024);
  EXPECT_EQ(b.cluster, 2U);
  EXPECT_EQ(b.parameters[3], std::byte{42});
  EXPECT_EQ(fake_.launched[0].cluster, 1U);
  EXPECT_EQ(fake_.shared["b"], 100 * 1024);
  EXPECT_EQ(fake_.shared.count("a"), 0U);
  EXPECT_EQ(std::ranges::count(fake_.calls, "cuGraphLaunch"), 2);
  EXPECT_EQ(std::ranges::count(fake_.calls, "cuLaunchKernelEx"), 3);
}

TEST_F(DriverGpuTest, SharedMemoryIsTheMostThatAnyKernelOfAnEntryAsksFor) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "a", "a"});
  kernels_[0].shared_bytes = 60 << 10;
  kernels_[1].shared_bytes = 90 << 10;
  kernels_[2].shared_bytes = 70 << 10;
  const auto recording = gpu->record(std::move(steps));
  EXPECT_EQ(fake_.shared["a"], 90 << 10);
}

// What a block has without asking, 48 KiB, is shared with the kernel's static arrays.
TEST_F(DriverGpuTest, SharedMemoryIsAskedForHoweverLittle) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "b"});
  kernels_[0].shared_bytes = 48 << 10;
  kernels_[1].shared_bytes = 16;
  const auto recording = gpu->record(std::move(steps));
  EXPECT_EQ(fake_.shared["a"], 48 << 10);
  EXPECT_EQ(fake_.shared["b"], 16);
}

TEST_F(DriverGpuTest, OnlyKernelsAfterKernelsOverlap) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "b", "host", "c", "d"});
  for (Kernel& kernel : kernels_) kernel.overlaps = true;
  kernels_[4].overlaps = false;
  steps[2].launch = {};
  steps[2].host = std::make_unique<HostStep>();
  steps[2].host->run = [](auto, auto) {};
  const auto recording = gpu->record(std::move(steps));
  recording->run();
  ASSERT_EQ(fake_.launched.size(), 4U);
  EXPECT_FALSE(fake_.launched[0].overlaps);
  EXPECT_TRUE(fake_.launched[1].overlaps);
  EXPECT_FALSE(fake_.launched[2].overlaps);
  EXPECT_FALSE(fake_.launched[3].overlaps);
}

/// What a kernel was captured after.
const std::set<std::string>& after(const fake::State& state, const std::string& kernel) {
  return std::ranges::find(state.launched, kernel, &fake::Launched::kernel)->after;
}
bool overlaps(const fake::State& state, const std::string& kernel) {
  return std::ranges::find(state.launched, kernel, &fake::Launched::kernel)->overlaps;
}

TEST_F(DriverGpuTest, BranchesForkAndJoinByFullEdges) {
  const auto gpu = open();
  const int streams = fake_.streams;
  auto steps = launches(*gpu, {"a", "b", "c", "d", "e", "f", "g"});
  for (Kernel& kernel : kernels_) kernel.overlaps = true;
  //   a - c - e - f        b and d beside c; g waits for nothing and nothing waits for it
  //    `- b - d '
  steps[1].stream = 1;
  steps[1].waits = {0};
  steps[3].stream = 1;
  steps[4].waits = {3};
  steps[6].stream = 2;
  const auto recording = gpu->record(std::move(steps));
  EXPECT_EQ(fake_.streams, streams);
  EXPECT_EQ(fake_.events, 0);
  recording->run();
  gpu->wait();
  ASSERT_EQ(fake_.launched.size(), 7U);
  using Set = std::set<std::string>;
  EXPECT_EQ(after(fake_, "a"), Set{});
  EXPECT_EQ(after(fake_, "b"), Set{"a"});
  EXPECT_EQ(after(fake_, "c"), Set{"a"});
  EXPECT_EQ(after(fake_, "d"), Set{"b"});
  EXPECT_EQ(after(fake_, "e"), (Set{"c", "d"}));
  EXPECT_EQ(after(fake_, "f"), Set{"e"});
  EXPECT_EQ(after(fake_, "g"), Set{});
  // A kernel overlaps the one before it in its stream, if it waits for nothing else.
  for (const char* kernel : {"c", "d", "f"}) EXPECT_TRUE(overlaps(fake_, kernel)) << kernel;
  for (const char* kernel : {"a", "b", "e", "g"}) EXPECT_FALSE(overlaps(fake_, kernel)) << kernel;
}

TEST_F(DriverGpuTest, RandomBranchesKeepToWhatTheyWaitFor) {
  std::minstd_rand random(1);
  for (int round = 0; round < 50; ++round) {
    fake_.launched.clear();
    kernels_.clear();
    const auto gpu = open();
    std::vector<std::string> names;
    for (int i = 0; i < 12; ++i) names.push_back("k" + std::to_string(i));
    std::vector<const char*> entries;
    for (const std::string& name : names) entries.push_back(name.c_str());
    auto steps = launches(*gpu, entries);
    std::vector<std::set<std::size_t>> before(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      kernels_[i].overlaps = true;
      steps[i].stream = random() % 4;
      for (std::size_t other = 0; other < i; ++other) {
        const bool same = steps[other].stream == steps[i].stream;
        if (!same && random() % 4 == 0) steps[i].waits.push_back(other);
        if (same || (!steps[i].waits.empty() && steps[i].waits.back() == other))
          before[i].insert(other);
      }
    }
    const auto recording = gpu->record(std::move(steps));
    recording->run();
    gpu->wait();
    ASSERT_EQ(fake_.launched.size(), names.size());
    std::map<std::string, std::size_t> turn;
    for (const std::string& name : ran()) turn.emplace(name, turn.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (const std::size_t other : before[i]) EXPECT_LT(turn[names[other]], turn[names[i]]);
    }
  }
}

TEST_F(DriverGpuTest, HostStepsOfBranches) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "b", "host", "c"});
  for (Kernel& kernel : kernels_) kernel.overlaps = true;
  int calls = 0;
  steps[2].launch = {};
  steps[2].host = std::make_unique<HostStep>();
  steps[2].host->run = [&](auto, auto) { ++calls; };
  steps[2].stream = 1;
  steps[2].waits = {0};
  steps[3].stream = 1;
  const auto recording = gpu->record(std::move(steps));
  recording->run();
  gpu->wait();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(after(fake_, "c"), std::set<std::string>{""});
  EXPECT_FALSE(overlaps(fake_, "c"));
  EXPECT_TRUE(overlaps(fake_, "b"));
}

TEST_F(DriverGpuTest, NoOverlapBeforeSm90OrCuda12_3) {
  for (const auto& [sm, version] : {std::pair(89, 12080), std::pair(90, 12020)}) {
    fake_.sm = sm;
    fake_.version = version;
    fake_.launched.clear();
    const auto gpu = open();
    auto steps = launches(*gpu, {"a", "b"});
    for (Kernel& kernel : kernels_) kernel.overlaps = true;
    gpu->record(std::move(steps))->run();
    EXPECT_THAT(fake_.launched, Each(testing::Field(&fake::Launched::overlaps, false)));
    kernels_.clear();
  }
}

/// A host step that adds 1 to the first byte of its input.
std::unique_ptr<HostStep> add_one(const Memory& from, const Memory& to) {
  auto step = std::make_unique<HostStep>();
  step->inputs = {{from.get(), 8}, {nullptr, 0}};
  step->outputs = {{to.get(), 4}};
  step->run = [](std::span<const void* const> inputs, std::span<void* const> outputs) {
    std::memcpy(outputs[0], inputs[0], 4);
    ++*static_cast<char*>(outputs[0]);
  };
  return step;
}

TEST_F(DriverGpuTest, HostStepsWorkOnCopies) {
  const auto gpu = open();
  const auto a = gpu->allocate(8, "a");
  const auto b = gpu->allocate(8, "b");
  const auto host = gpu->allocate_host(8);
  std::vector<Step> steps(2);
  steps[0].host = add_one(a, b);
  steps[1].host = add_one(b, a);
  const auto recording = gpu->record(std::move(steps));
  std::memcpy(host.get(), "AZZZZZZZ", 8);
  gpu->copy_in(a.get(), host.get(), 8);
  recording->run();
  recording->run();
  gpu->copy_out(host.get(), a.get(), 8);
  gpu->wait();
  EXPECT_EQ(std::memcmp(host.get(), "EZZZZZZZ", 8), 0);
}

TEST_F(DriverGpuTest, WhatAHostStepThrowsIsThrownByWait) {
  const auto gpu = open();
  int later = 0;
  bool fails = true;
  std::vector<Step> steps(2);
  steps[0].host = std::make_unique<HostStep>();
  steps[0].host->run = [&](auto, auto) {
    if (fails) fail(ErrorCode::kInput, "index 7 is outside");
  };
  steps[1].host = std::make_unique<HostStep>();
  steps[1].host->run = [&](auto, auto) { ++later; };
  const auto recording = gpu->record(std::move(steps));
  recording->run();
  const Error error = error_of([&] { gpu->wait(); });
  EXPECT_EQ(error.code, ErrorCode::kInput);
  EXPECT_EQ(error.message, "index 7 is outside");
  EXPECT_EQ(later, 0);
  fails = false;
  recording->run();
  EXPECT_NO_THROW(gpu->wait());
  EXPECT_EQ(later, 1);
}

TEST_F(DriverGpuTest, TimesOfEachStep) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "b", "host"});
  for (Kernel& kernel : kernels_) kernel.overlaps = true;
  steps[2].launch = {};
  steps[2].host = std::make_unique<HostStep>();
  steps[2].host->run = [](auto, auto) {};
  const auto recording = gpu->record(std::move(steps));
  std::vector<double> seconds(3);
  recording->run_timed(seconds);
  EXPECT_THAT(seconds, Each(testing::DoubleNear(1e-3, 1e-7)));
  EXPECT_THAT(fake_.launched, Each(testing::Field(&fake::Launched::overlaps, false)));
  EXPECT_EQ(fake_.events, 0);
  EXPECT_EQ(fake_.executables, 1);
}

TEST_F(DriverGpuTest, TimesOfBranchesAreTakenOneByOne) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "b", "c"});
  steps[1].stream = 1;
  steps[1].waits = {0};
  steps[2].waits = {1};
  const auto recording = gpu->record(std::move(steps));
  std::vector<double> seconds(3);
  recording->run_timed(seconds);
  EXPECT_THAT(seconds, Each(testing::DoubleNear(1e-3, 1e-7)));
  // Each once to see that it runs, once for its time.
  EXPECT_THAT(ran(), testing::ElementsAre("a", "b", "c", "a", "b", "c"));
  recording->run_timed(seconds);
  EXPECT_EQ(fake_.launched.size(), 9U);
}

TEST_F(DriverGpuTest, AFailingStepIsNamedWhenStepsAreTimed) {
  const auto gpu = open();
  const auto recording = gpu->record(launches(*gpu, {"conv_a", "conv_b"}));
  fake_.fails_in = "conv_b";
  std::vector<double> seconds(2);
  const Error error = error_of([&] { recording->run_timed(seconds); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message, AllOf(StartsWith("cuda:0 (Fake H200) was lost: "),
                                   HasSubstr("while running k_conv_b (node)")));
}

TEST_F(DriverGpuTest, RepeatedRunsAreWarmedUpAndTimed) {
  const auto gpu = open();
  const auto recording = gpu->record(launches(*gpu, {"a"}));
  std::vector<double> seconds(5);
  recording->run_repeatedly(seconds, 1);
  EXPECT_THAT(seconds, Each(testing::DoubleNear(1e-3, 1e-7)));
  EXPECT_EQ(fake_.launched.size(), 15U);
  EXPECT_EQ(fake_.events, 0);
}

TEST_F(DriverGpuTest, RunsRecordedAsOneOverlapEachOther) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "b"});
  for (Kernel& kernel : kernels_) kernel.overlaps = true;
  const auto recording = gpu->record(std::move(steps));
  std::vector<double> seconds(5);
  recording->run_repeatedly(seconds, 3);
  EXPECT_THAT(seconds, Each(testing::DoubleNear(1e-3 / 3, 1e-7)));
  ASSERT_EQ(fake_.launched.size(), 15U * 3 * 2);
  for (std::size_t i = 0; i < fake_.launched.size(); ++i) {
    EXPECT_EQ(fake_.launched[i].kernel, i % 2 == 0 ? "a" : "b");
    EXPECT_EQ(fake_.launched[i].overlaps, i % 6 != 0) << i;
  }
  EXPECT_EQ(fake_.events, 0);
}

TEST_F(DriverGpuTest, ARunWithBranchesRecordedAgainWaitsForAllOfThem) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "b"});
  for (Kernel& kernel : kernels_) kernel.overlaps = true;
  steps[1].stream = 1;
  const auto recording = gpu->record(std::move(steps));
  std::vector<double> seconds(1);
  recording->run_repeatedly(seconds, 2);
  EXPECT_EQ(fake_.launched.size(), 11U * 2 * 2);
  for (const fake::Launched& launched : fake_.launched) EXPECT_FALSE(launched.overlaps);
  EXPECT_EQ(fake_.events, 0);
}

TEST_F(DriverGpuTest, StreamsOfOthersComeBeforeAndAfter) {
  const auto gpu = open();
  const Memory from = gpu->allocate(4, "a value");
  const Memory to = gpu->allocate(4, "a value");
  std::memcpy(from.get(), "abc", 4);
  fake_.calls.clear();
  int somewhere = 0;
  gpu->wait_for(&somewhere);
  gpu->copy_in_stream(&somewhere, to.get(), from.get(), 4);
  gpu->hold(&somewhere);
  const auto uninteresting = [](const std::string& call) {
    return call.starts_with("cuCtx") || call == "cuStreamGetId";
  };
  std::erase_if(fake_.calls, uninteresting);
  EXPECT_THAT(fake_.calls,
              testing::ElementsAre("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent",
                                   "cuMemcpyDtoDAsync_v2", "cuEventCreate", "cuEventRecord",
                                   "cuStreamWaitEvent"));
  EXPECT_STREQ(reinterpret_cast<const char*>(to.get()), "abc");
  fake_.errors["cuStreamWaitEvent"] = 400;
  EXPECT_THAT(error_of([&] { gpu->wait_for(&somewhere); }).message,
              HasSubstr("waiting for the caller's stream"));
}

TEST_F(DriverGpuTest, AStreamIsHeldOnlyIfThereIsSomethingElseToWaitFor) {
  const auto gpu = open();
  int a = 0;
  int b = 0;
  fake_.ids = {{&a, 1}, {&b, 2}};
  const Memory memory = gpu->allocate(4, "a value");
  const auto pinned = gpu->allocate_host(4);
  const auto events = [&](void* stream) {
    fake_.calls.clear();
    gpu->hold(stream);
    const auto count = std::ranges::count(fake_.calls, "cuEventRecord");
    EXPECT_EQ(std::ranges::count(fake_.calls, "cuStreamWaitEvent"), count);
    return count;
  };
  const auto recording = gpu->record({});
  EXPECT_EQ(events(&a), 1);
  EXPECT_EQ(events(&a), 0);
  recording->run_in(&a);
  gpu->wait_for(&a);
  EXPECT_EQ(events(&a), 0);  // what ran was put into that stream
  EXPECT_EQ(events(&b), 1);
  gpu->wait_for(&b);
  EXPECT_EQ(events(&b), 0);
  EXPECT_EQ(events(&a), 1);
  gpu->wait_for(&b);  // not the stream that was held
  EXPECT_EQ(events(&a), 1);
  gpu->copy_in(memory.get(), pinned.get(), 4);
  EXPECT_EQ(events(&a), 1);
  fake_.ids[&a] = 3;  // destroyed, and another one was made at its address
  EXPECT_EQ(events(&a), 1);
  fake_.errors["cuStreamGetId"] = 1;  // and of a driver that has none
  EXPECT_EQ(events(&a), 1);
  EXPECT_EQ(events(&a), 1);
}

TEST_F(DriverGpuTest, StreamsThatOthersCaptureAreKnown) {
  const auto gpu = open();
  int stream = 0;
  EXPECT_FALSE(gpu->is_captured(&stream));
  EXPECT_FALSE(gpu->is_captured(nullptr));
  fake_.captured = {&stream};
  EXPECT_TRUE(gpu->is_captured(&stream));
}

TEST_F(DriverGpuTest, WhatOthersCaptureGetsTheStepsOneByOne) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"a", "b", "c"});
  for (Kernel& kernel : kernels_) kernel.overlaps = true;
  steps[1].stream = 1;
  const auto recording = gpu->record(std::move(steps));
  int stream = 0;
  fake_.captured = {&stream};
  EXPECT_EQ(error_of([&] { recording->run_in(&stream); }).code, ErrorCode::kDevice);
  recording->capture_in(&stream);
  EXPECT_THAT(ran(), testing::ElementsAre("a", "b", "c"));
  for (const fake::Launched& launched : fake_.launched) {
    EXPECT_EQ(static_cast<void*>(launched.config.stream), &stream);
    EXPECT_EQ(launched.overlaps, launched.kernel != "a");
  }

  steps = launches(*gpu, {"a", "host"});
  steps[1].launch = {};
  steps[1].host = std::make_unique<HostStep>();
  steps[1].host->run = [](auto, auto) {};
  const auto on_host = gpu->record(std::move(steps));
  const Error error = error_of([&] { on_host->capture_in(&stream); });
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("k_host (node) runs on the host"));
  EXPECT_THAT(ran(), testing::ElementsAre("a", "b", "c"));
}

TEST_F(DriverGpuTest, NoStepsAreNoGraph) {
  const auto gpu = open();
  const auto recording = gpu->record({});
  recording->run();
  recording->run_timed({});
  gpu->wait();
  EXPECT_EQ(std::ranges::count(fake_.calls, "cuGraphLaunch"), 0);
}

TEST_F(DriverGpuTest, ARefusedLaunchNamesTheStep) {
  const auto gpu = open();
  fake_.errors["cuLaunchKernelEx"] = 701;
  const Error error = error_of([&] { gpu->record(launches(*gpu, {"conv_a"})); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("launching k_conv_a (node) as conv_a"), HasSubstr("grid 1x1x1")));
  EXPECT_EQ(fake_.graphs, 0);
  EXPECT_EQ(fake_.modules, 0);
  fake_.errors.clear();
  EXPECT_NO_THROW(gpu->record(launches(*gpu, {"conv_a"})));
}

TEST_F(DriverGpuTest, MoreSharedMemoryThanThereIs) {
  const auto gpu = open();
  auto steps = launches(*gpu, {"conv_a"});
  kernels_[0].shared_bytes = 300 << 10;
  fake_.errors["cuFuncSetAttribute"] = 1;
  EXPECT_THAT(error_of([&] { gpu->record(std::move(steps)); }).message,
              HasSubstr("asking for 307200 bytes of shared memory for conv_a"));
}

TEST_F(DriverGpuTest, BrokenImageAndAbsentKernel) {
  const auto gpu = open();
  const Error error = error_of([&] { gpu->load("broken", "conv_a.cu"); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message, HasSubstr("loading conv_a.cu: ptxas says no"));
  EXPECT_THAT(error_of([&] { gpu->record(launches(*gpu, {"absent"})); }).message,
              HasSubstr("looking for the kernel absent in test.cu"));
}

TEST_F(DriverGpuTest, ALostDeviceStaysLost) {
  auto gpu = open();
  auto memory = gpu->allocate(8, "values");
  auto recording = gpu->record(launches(*gpu, {"a"}));
  recording->run();
  fake_.errors["cuStreamSynchronize"] = api::kIllegalAddress;
  const Error first = error_of([&] { gpu->wait(); });
  EXPECT_EQ(first.code, ErrorCode::kDevice);
  EXPECT_THAT(first.message,
              AllOf(StartsWith("cuda:0 (Fake H200) was lost: CUDA_ERROR_ILLEGAL_ADDRESS"),
                    HasSubstr("while running kernels")));
  std::vector<double> seconds(1);
  const std::vector<Error> later = {
      error_of([&] { gpu->wait(); }),
      error_of([&] { recording->run(); }),
      error_of([&] { recording->run_timed(seconds); }),
      error_of([&] { recording->run_repeatedly(seconds, 1); }),
      error_of([&] { gpu->allocate(8, "more"); }),
      error_of([&] { gpu->allocate_host(8); }),
      error_of([&] { gpu->copy_in(memory.get(), "abcdefgh", 8); }),
      error_of([&] { gpu->load("image", "a.cu"); }),
      error_of([&] { gpu->encode({}, nullptr); }),
  };
  for (const Error& error : later) {
    EXPECT_EQ(error.code, ErrorCode::kDevice);
    EXPECT_EQ(error.message, first.message);
  }
}

TEST_F(DriverGpuTest, AnOrdinaryErrorLosesNothing) {
  const auto gpu = open();
  fake_.errors["cuGraphLaunch"] = 801;
  const auto recording = gpu->record(launches(*gpu, {"a"}));
  EXPECT_THAT(error_of([&] { recording->run(); }).message, HasSubstr("failed while launching"));
  fake_.errors.clear();
  EXPECT_NO_THROW(recording->run());
}

TEST_F(DriverGpuTest, TensorMaps) {
  const auto gpu = open();
  TensorMap map;
  map.extents = {64, 56, 56, 1};
  map.strides = {128, 7168, 401408};
  map.box = {32, 8, 8, 1};
  map.steps = {1, 1, 1, 1};
  map.swizzle_bytes = 64;
  int target = 0;
  const auto encoded = gpu->encode(map, &target);
  std::uint64_t address = 0;
  std::memcpy(&address, encoded.data(), 8);
  EXPECT_EQ(address, reinterpret_cast<std::uint64_t>(&target));
  EXPECT_EQ(fake_.last_map, "tiled type 6 rank 4 extent 64 box 32 swizzle 2");
  map.kind = TensorMap::Kind::kIm2col;
  map.dtype = DType::kFloat32;
  map.lower = {-1, -2};
  map.upper = {1, 0};
  map.channels = 16;
  map.pixels = 128;
  gpu->encode(map, &target);
  EXPECT_EQ(fake_.last_map, "im2col type 7 rank 4 corners -1 1 channels 16 pixels 128");
  fake_.errors["cuTensorMapEncodeIm2col"] = 1;
  EXPECT_THAT(error_of([&] { gpu->encode(map, &target); }).message,
              HasSubstr("encoding an im2col tensor map of extents [64, 56, 56, 1]"));
}

TEST_F(DriverGpuTest, ThreadsTakeTurns) {
  const auto gpu = open();
  EXPECT_EQ(fake_.pushed, 0);
  std::jthread([&] { gpu->wait(); }).join();
  EXPECT_EQ(fake_.pushed, 0);
  EXPECT_GT(std::ranges::count(fake_.calls, "cuCtxPushCurrent_v2"), 1);
}

}  // namespace
}  // namespace braze::cuda
