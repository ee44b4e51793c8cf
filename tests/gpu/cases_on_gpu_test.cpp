// Our own cases on a real GPU, at every precision. Skipped, visibly, where there is none.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "gpu/on_gpu.hpp"
#include "support/onnx_case.hpp"

namespace braze::test {
namespace {

class CasesOnGpu : public ::testing::TestWithParam<Precision> {};

enum class Outcome { kVerified, kRefused, kWrong };

/// What became of a case; a failure names it.
Outcome check_case(const std::filesystem::path& folder, const Options& options) {
  const Result<Model> model = compile(folder / "model.onnx", options);
  if (!model.ok()) {  // refused, on every device
    EXPECT_NE(exit_code(model.error().code), 4) << folder << ": " << model.error().message;
    return Outcome::kRefused;
  }
  const Result<VerifyReport> report = model->verify(random_inputs(*model), true);
  if (report.ok() && report->ok()) return Outcome::kVerified;
  ADD_FAILURE() << folder << ": " << (report.ok() ? "wrong" : report.error().message);
  return Outcome::kWrong;
}

TEST_P(CasesOnGpu, AreRight) {
  BRAZE_NEEDS_GPU();
  Options options;
  options.device = "cuda";
  options.precision = GetParam();
  const std::vector<std::filesystem::path> folders = find_cases(cases_folder());
  std::atomic<std::size_t> next = 0;
  std::atomic<int> verified = 0;
  const auto work = [&] {  // most of the time is compiling
    for (std::size_t i = next++; i < folders.size(); i = next++) {
      if (check_case(folders[i], options) == Outcome::kVerified) ++verified;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
      threads.emplace_back(work);
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
