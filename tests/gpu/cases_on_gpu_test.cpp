// Our own cases on a real GPU, at every precision. Skipped, visibly, where there is none.
#include <gtest/gtest.h>

#include "gpu/on_gpu.hpp"
#include "support/onnx_case.hpp"

namespace braze::test {
namespace {

class CasesOnGpu : public ::testing::TestWithParam<Precision> {};

TEST_P(CasesOnGpu, AreRight) {
  BRAZE_NEEDS_GPU();
  Options options;
  options.device = "cuda";
  options.precision = GetParam();
  int verified = 0;
  for (const auto& folder : find_cases(cases_folder())) {
    SCOPED_TRACE(folder.filename().string());
    const Result<Model> model = compile(folder / "model.onnx", options);
    if (!model.ok()) {
      EXPECT_NE(exit_code(model.error().code), 4) << model.error().message;
      continue;  // refused, on every device
    }
    const Result<VerifyReport> report = model->verify(random_inputs(*model), true);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->ok());
    ++verified;
  }
  EXPECT_GT(verified, 100);
}

std::string name_of(const ::testing::TestParamInfo<Precision>& one) {
  constexpr const char* kNames[] = {"fp32", "tf32", "fp16", "bf16"};
  return kNames[static_cast<std::size_t>(one.param)];
}

INSTANTIATE_TEST_SUITE_P(Precisions, CasesOnGpu,
                         ::testing::Values(Precision::kFp32, Precision::kTf32, Precision::kFp16,
                                           Precision::kBf16),
                         name_of);

}  // namespace
}  // namespace braze::test
