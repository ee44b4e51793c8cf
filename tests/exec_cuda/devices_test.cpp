// What `braze devices` says of CUDA.
#include "exec/cuda/devices.hpp"

#include <gmock/gmock.h>

#include "exec_cuda/fakes.hpp"

namespace braze::cuda {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> names(const std::vector<DeviceReport>& reports) {
  std::vector<std::string> result;
  for (const DeviceReport& report : reports)
    result.push_back(report.name + (report.usable ? " yes" : " no"));
  return result;
}

TEST(Devices, EverythingIsThere) {
  fake::State& driver = fake_driver();
  driver.version = 13000;
  driver.devices = 2;
  SearchPath search = only(fakes("driver"));
  search.environment = fakes("cuda13");
  const TemporaryFolder toolkit;
  std::filesystem::create_directory_symlink(BRAZE_FAKE_CUDNN, toolkit.path() / "lib64");
  search.toolkit = toolkit.path();
  const auto reports = report_devices(search);
  EXPECT_THAT(names(reports), testing::ElementsAre("cuda yes", "cuda:0 yes", "cuda:1 yes",
                                                   "nvrtc yes", "cudnn yes", "cudart yes"));
  EXPECT_THAT(reports[0].detail,
              AllOf(StartsWith("driver for CUDA 13.0 "), EndsWith("libcuda.so.1 (option)")));
  EXPECT_EQ(reports[1].detail,
            "Fake H200, sm_90, 1.0 GiB at 1000 GB/s, 66 multiprocessors, kernels of sm_90a");
  EXPECT_THAT(reports[3].detail,
              AllOf(StartsWith("13.3 "), HasSubstr("libnvrtc.so.13 (BRAZE_CUDA_PATH), "),
                    HasSubstr("compiles for sm_75, 80, 86, 89, 90, 100")));
  EXPECT_THAT(reports[4].detail,
              AllOf(StartsWith("9.8.1 "), EndsWith("libcudnn_graph.so.9 (toolkit)")));
  EXPECT_THAT(reports[5].detail, StartsWith("13.0 "));
  EXPECT_EQ(driver.contexts, 0);
}

TEST(Devices, NothingIsThere) {
  const TemporaryFolder empty;
  const auto reports = report_devices(only(empty.path()));
  EXPECT_THAT(names(reports), testing::ElementsAre("cuda no", "nvrtc no", "cudnn no", "cudart no"));
  for (const DeviceReport& report : reports)
    EXPECT_THAT(report.detail, AllOf(HasSubstr("was not found: there is no lib"),
                                     HasSubstr(empty.path().string())));
}

TEST(Devices, AnUnusableGpuSaysWhy) {
  fake_driver().sm = 52;
  const auto reports = report_devices(only(fakes("driver")));
  EXPECT_EQ(reports[1].name, "cuda:0");
  EXPECT_FALSE(reports[1].usable);
  EXPECT_EQ(reports[1].detail, "Fake H200 is sm_52; Braze needs sm_70 or newer");
}

}  // namespace
}  // namespace braze::cuda
