// Every kind of kernel compiles for every architecture that an NVRTC is found for.
#include "kernels_cuda/conv_cases.hpp"
#include "kernels_cuda/nvrtc_for.hpp"
#include "kernels_cuda/representatives.hpp"

namespace braze::cuda::testing {
namespace {

/// A convolution by every family that takes it, in every type.
void add_convolutions(int sm, std::set<std::string>& sources) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    ConvCase c;
    c.compute = c.x_stored = c.y_stored = dtype;
    c.x = {1, 64, 28, 28};
    c.outputs = 64;
    c.after = 2;
    const Twin twin = conv_twin(c);
    for (const bool tf32 : {false, true}) {
      Device device = cuda_device(sm);
      device.tf32 = tf32;
      for (const Row& row : rows()) {
        const Node& anchor = twin.graph.node(twin.group.members[0].anchor);
        if (!row.family.epilogue || row.family.supports == nullptr ||
            !row.family.supports(twin.graph, anchor, device).ok)
          continue;
        Candidate candidate;
        if (row.family.candidates != nullptr)
          candidate = row.family.candidates(twin.graph, twin.group, device).front();
        const Plan plan = twin.plan(row, device, candidate);
        sources.insert(row.build(plan, plan.kernels[0]).source);
      }
    }
  }
}

class CudaSources : public ::testing::TestWithParam<int> {};

TEST_P(CudaSources, Compile) {
  const int sm = GetParam();
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(sm, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::set<std::string> sources;
  for (const Representative& each : representatives(sm)) sources.insert(each.kernel.source);
  add_convolutions(sm, sources);
  const std::vector<std::string> list(sources.begin(), sources.end());
  NvrtcCompiler compiler(nvrtc, sm, device_headers());
  EXPECT_EQ(compiler.compile(list).size(), list.size());
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaSources, ::testing::Values(70, 75, 80, 86, 89, 90),
                         [](const auto& one) { return "sm" + std::to_string(one.param); });

}  // namespace
}  // namespace braze::cuda::testing
