// Whole networks on an emulated GPU: our own cases through the planner, the emitted kernels and the
// program, against the interpreter, at every precision and for every kind of GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "model/read_onnx.hpp"
#include "networks_cuda/emulated_machine.hpp"
#include "support/onnx_case.hpp"

namespace braze::test {
namespace {

struct Setting {
  std::filesystem::path folder;
  int sm = 80;
  Precision precision = Precision::kFp32;
};

void PrintTo(const Setting& one, std::ostream* out) { *out << one.folder.string(); }

std::string name_of(const Setting& one) {
  constexpr const char* kNames[] = {"fp32", "tf32", "fp16", "bf16"};
  return fmt::format("{}_sm{}_{}", one.folder.filename().string(), one.sm,
                     kNames[static_cast<std::size_t>(one.precision)]);
}

/// Every case once, in turns on another GPU and at another precision.
std::vector<Setting> settings() {
  const std::vector<std::pair<int, Precision>> kinds = {
      {80, Precision::kFp32}, {90, Precision::kFp16}, {75, Precision::kFp16},
      {80, Precision::kBf16}, {90, Precision::kTf32}, {80, Precision::kFp16}};
  std::vector<Setting> list;
  for (const auto& folder : find_cases(std::filesystem::path(BRAZE_TESTS_DIR) / "cases")) {
    const auto& [sm, precision] = kinds[list.size() % kinds.size()];
    list.push_back({folder, sm, precision});
  }
  return list;
}

class NetworkOnGpu : public ::testing::TestWithParam<Setting> {};

TEST_P(NetworkOnGpu, IsRight) {
  BRAZE_NEEDS_EMULATOR();
  const Setting& setting = GetParam();
  Options options;
  options.precision = setting.precision;
  std::optional<Model> model;
  try {
    model = compile_for(emulated(setting.sm, setting.precision),
                        read_onnx(setting.folder / "model.onnx"), options);
  } catch (const Exception& error) {
    const bool refused = error.error().code == ErrorCode::kUnsupported ||
                         error.error().code == ErrorCode::kInput ||
                         error.error().code == ErrorCode::kUsage;
    if (!refused) throw;
    GTEST_SKIP() << error.what();
  }
  const Result<VerifyReport> report = model->verify(random_inputs(*model), true);
  ASSERT_TRUE(report.ok()) << report.error().message;
  for (const Deviation& output : report->outputs)
    EXPECT_TRUE(output.ok) << output.what << " is off by " << output.max_error << ", allowed "
                           << output.allowed;
  for (const Deviation& kernel : report->kernels)
    EXPECT_TRUE(kernel.ok) << kernel.what << " is off by " << kernel.max_error << ", allowed "
                           << kernel.allowed;
}

INSTANTIATE_TEST_SUITE_P(Cases, NetworkOnGpu, ::testing::ValuesIn(settings()),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace braze::test
