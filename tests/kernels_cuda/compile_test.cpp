// Every kind of kernel compiles for every architecture that an NVRTC is found for.
#include "kernels_cuda/nvrtc_for.hpp"
#include "kernels_cuda/representatives.hpp"

namespace braze::cuda::testing {
namespace {

class CudaSources : public ::testing::TestWithParam<int> {};

TEST_P(CudaSources, Compile) {
  const int sm = GetParam();
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(sm, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::set<std::string> sources;
  for (const Representative& each : representatives(sm)) sources.insert(each.kernel.source);
  const std::vector<std::string> list(sources.begin(), sources.end());
  NvrtcCompiler compiler(nvrtc, sm, device_headers());
  EXPECT_EQ(compiler.compile(list).size(), list.size());
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaSources, ::testing::Values(70, 75, 80, 86, 89, 90),
                         [](const auto& one) { return "sm" + std::to_string(one.param); });

}  // namespace
}  // namespace braze::cuda::testing
