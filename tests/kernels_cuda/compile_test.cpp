// Every kind of kernel compiles for every architecture that NVRTC knows.
#include "exec/cuda/nvrtc.hpp"
#include "kernels_cuda/representatives.hpp"

namespace braze::cuda::testing {
namespace {

TEST(CudaSources, CompileForEveryArchitecture) {
  std::shared_ptr<const Nvrtc> nvrtc;
  try {
    nvrtc = open_nvrtc(SearchPath::of_process());
  } catch (const Exception& failure) {
    GTEST_SKIP() << failure.what();
  }
  for (const int sm : {70, 75, 80, 86, 89, 90}) {
    if (std::find(nvrtc->archs.begin(), nvrtc->archs.end(), sm) == nvrtc->archs.end()) continue;
    std::set<std::string> sources;
    for (const Representative& each : representatives(sm)) sources.insert(each.kernel.source);
    const std::vector<std::string> list(sources.begin(), sources.end());
    NvrtcCompiler compiler(nvrtc, sm, device_headers());
    EXPECT_EQ(compiler.compile(list).size(), list.size());
  }
}

}  // namespace
}  // namespace braze::cuda::testing
