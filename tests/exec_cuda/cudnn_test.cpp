// cuDNN through a stand-in that holds descriptors to the rules: how it is opened, what it is asked,
// which engine is taken, and what is said when it refuses.
#include "exec/cuda/cudnn.hpp"

#include <gmock/gmock.h>

#include <deque>

#include "exec/cuda/cudnn_session.hpp"
#include "exec/cuda/driver_gpu.hpp"
#include "exec_cuda/fakes.hpp"
#include "support/fake_cudnn/fake_cudnn.hpp"
#include "support/simt/emulated_gpu.hpp"

namespace braze::cuda {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// The state of the fake cuDNN, as new.
fake::CudnnState& fake_cudnn() {
  const Search found = open_library(Library::kCudnn, only(BRAZE_FAKE_CUDNN));
  auto* get = reinterpret_cast<fake::CudnnState* (*)()>(found.library->symbol("fake_cudnn_state"));
  *get() = fake::CudnnState{};
  return *get();
}

TEST(Cudnn, IsOpened) {
  fake_cudnn();
  const auto cudnn = open_cudnn(only(BRAZE_FAKE_CUDNN));
  EXPECT_EQ(to_string(cudnn->version), "9.8.1");
}

TEST(Cudnn, IsNotThere) {
  const TemporaryFolder empty;
  const Error error = error_of([&] { open_cudnn(only(empty.path())); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_EQ(exit_code(error.code), 4);
  EXPECT_THAT(error.message, StartsWith("cuDNN was not found: there is no libcudnn_graph.so.9"));
}

TEST(Cudnn, IsTooOld) {
  const Error error = error_of([&] { open_cudnn(only(fakes("oldcudnn"))); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message, HasSubstr("it is cuDNN 8.9.7; Braze needs 9.0.0 or newer"));
}

TEST(Cudnn, IsNotWhole) {
  const TemporaryFolder root;
  std::filesystem::copy_file(fakes("cuda9") / "libcudnn_graph.so.9",
                             root.path() / "libcudnn_graph.so.9");
  const Error error = error_of([&] { open_cudnn(only(root.path())); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message, AllOf(StartsWith("cuDNN 9.0.0"), HasSubstr("has no cudnn")));
}

CudnnTensor tensor(DType dtype, std::vector<std::int64_t> extents) {
  const std::int64_t c = extents[1], w = extents[3], h = extents[2];
  return {dtype, extents, {h * w * c, 1, w * c, c}, 16, {}};
}

/// A convolution of [1, 8, 4, 5] by 16 filters, 3 x 3.
CudnnProblem conv(DType dtype = DType::kFloat16) {
  CudnnProblem problem;
  problem.x = tensor(dtype, {1, 8, 4, 5});
  problem.w = tensor(dtype, {16, 8, 3, 3});
  problem.y = tensor(dtype, {1, 16, 4, 5});
  problem.pads_begin = problem.pads_end = problem.strides = problem.dilations = {1, 1};
  return problem;
}
CudnnStep step(PointwiseMode mode) {
  CudnnStep result;
  result.mode = mode;
  return result;
}

/// Problems that no other test has prepared: what is found is kept for the process.
CudnnProblem another() {
  static std::int64_t filters = 1;
  ++filters;
  CudnnProblem problem = conv();
  problem.w = tensor(DType::kFloat16, {filters, 8, 3, 3});
  problem.y = tensor(DType::kFloat16, {1, filters, 4, 5});
  return problem;
}

class CudnnSessionTest : public testing::Test {
 protected:
  CudnnSessionTest() { gpu_->set_cudnn(open_cudnn(only(BRAZE_FAKE_CUDNN))); }
  ~CudnnSessionTest() override {
    gpu_ = nullptr;
    EXPECT_EQ(fake_.handles, 0);
    EXPECT_EQ(fake_.descriptors, 0);
  }
  fake::CudnnState& fake_ = fake_cudnn();
  std::unique_ptr<test::EmulatedGpu> gpu_ = std::make_unique<test::EmulatedGpu>(90);
};

TEST_F(CudnnSessionTest, AConvolutionWithItsEpilogueIsOneGraph) {
  CudnnProblem problem = conv();
  CudnnStep residual = step(PointwiseMode::kAdd), bias = residual;
  residual.operand = problem.y;
  bias.operand = tensor(DType::kFloat16, {1, 16, 1, 1});
  problem.steps = {residual, bias, step(PointwiseMode::kRelu)};
  EXPECT_NE(gpu_->prepare(problem).call, nullptr);
  EXPECT_THAT(fake_.graphs,
              ElementsAre("conv half[1,8,4,5] half[16,8,3,3] pads [1, 1] [1, 1] strides [1, 1] "
                          "dilations [1, 1] -> 1,16,4,5; add half[1,16,4,5]; add half[1,16,1,1]; "
                          "relu -> half[1,16,4,5]"));
}

TEST_F(CudnnSessionTest, BoundsAndSlopesAreToldExactly) {
  CudnnProblem problem = conv();
  CudnnStep clip = step(PointwiseMode::kRelu), leaky = clip;
  clip.lower = -1;
  clip.upper = 6;
  leaky.slope = 0.25;
  problem.steps = {clip, leaky, step(PointwiseMode::kSwish)};
  gpu_->prepare(problem);
  ASSERT_EQ(fake_.graphs.size(), 1U);
  EXPECT_THAT(fake_.graphs[0], HasSubstr("; relu(-1,6,0); relu(0,inf,0.25); swish -> half"));
}

TEST_F(CudnnSessionTest, TransposedConvolutionIsBackwardData) {
  CudnnProblem problem;
  problem.transposed = true;
  problem.x = tensor(DType::kBFloat16, {2, 6, 3, 3});
  problem.w = tensor(DType::kBFloat16, {6, 4, 2, 2});
  problem.y = tensor(DType::kBFloat16, {2, 4, 6, 6});
  problem.pads_begin = problem.pads_end = {0, 0};
  problem.strides = {2, 2};
  problem.dilations = {1, 1};
  EXPECT_NE(gpu_->prepare(problem).call, nullptr);
  EXPECT_THAT(fake_.graphs[0], StartsWith("conv' bfloat16[2,6,3,3] bfloat16[6,4,2,2]"));
}

TEST_F(CudnnSessionTest, TheFastestConfigurationIsTaken) {
  fake_.configs = {{.milliseconds = 40}, {}, {.mode = 2, .milliseconds = 30}};
  EXPECT_NE(gpu_->prepare(another()).call, nullptr);
  EXPECT_THAT(fake_.plans, ElementsAre(0, 1, 2));
  const CudnnProblem problem = another();
  fake_.plans.clear();
  const Prepared prepared = gpu_->prepare(problem);
  fake_.runs.clear();
  std::vector<Step> steps(1);
  std::vector<Memory> memory;
  steps[0].call = std::make_unique<CallStep>(CallStep{prepared.call, {}, nullptr});
  for (const std::size_t bytes : {1 << 12, 1 << 12, 1 << 12}) {
    memory.push_back(gpu_->allocate(bytes, "a value"));
    steps[0].call->operands.push_back(memory.back().get());
  }
  gpu_->record(std::move(steps))->run();
  gpu_->wait();
  EXPECT_THAT(fake_.runs, ElementsAre(1));
}

TEST_F(CudnnSessionTest, EqualProblemsAreSearchedForOnce) {
  fake_.configs = {{.milliseconds = 40}, {}};
  const CudnnProblem problem = another();
  EXPECT_NE(gpu_->prepare(problem).call, nullptr);
  EXPECT_NE(gpu_->prepare(problem).call, nullptr);
  EXPECT_THAT(fake_.plans, ElementsAre(0, 1));
  fake_.plans.clear();
  test::EmulatedGpu other(90);  // of the same name
  other.set_cudnn(open_cudnn(only(BRAZE_FAKE_CUDNN)));
  EXPECT_NE(other.prepare(problem).call, nullptr);
  EXPECT_THAT(fake_.plans, ElementsAre(1));
}

TEST_F(CudnnSessionTest, PrecisionThatWasAskedForIsKept) {
  using enum api::CudnnNumericalNote;
  const auto note = [](auto one) { return fake::CudnnConfig{.notes = {static_cast<int>(one)}}; };
  fake_.configs = {note(kTensorCore),
                   note(kDownConvertInputs),
                   note(kReducedPrecisionReduction),
                   note(kNondeterministic),
                   note(kFft),
                   note(kWinograd),
                   note(kWinogradTile6x6),
                   {}};
  const auto tried = [&](DType dtype, bool tf32) {
    fake_.plans.clear();
    CudnnProblem problem = conv(dtype);
    problem.tf32 = tf32;
    EXPECT_NE(gpu_->prepare(problem).call, nullptr);
    return fake_.plans;
  };
  EXPECT_THAT(tried(DType::kFloat32, false), ElementsAre(5, 7));
  EXPECT_THAT(tried(DType::kFloat32, true), ElementsAre(0, 5, 7));
  EXPECT_THAT(tried(DType::kBFloat16, false), ElementsAre(0, 7));
}

TEST_F(CudnnSessionTest, FewConfigurationsAreTriedAndFewerCompiled) {
  const int compiled = static_cast<int>(api::CudnnBehaviorNote::kRuntimeCompilation);
  fake_.configs.assign(5, {.behavior = {compiled}});
  fake_.configs.resize(20);
  EXPECT_NE(gpu_->prepare(another()).call, nullptr);
  EXPECT_THAT(fake_.plans, ElementsAre(0, 1, 5, 6, 7, 8, 9, 10));
}

TEST_F(CudnnSessionTest, WorkspaceIsLimited) {
  fake_.configs = {{.workspace_bytes = 65 << 20}, {.workspace_bytes = 3 << 20, .milliseconds = 2}};
  const Prepared prepared = gpu_->prepare(another());
  ASSERT_NE(prepared.call, nullptr) << prepared.why_not;
  EXPECT_EQ(prepared.call->workspace_bytes(), 3U << 20);
}

TEST_F(CudnnSessionTest, EnginesThatFailAreLeftOut) {
  fake_.configs = {{.plan_error = 3000}, {.run_error = 5000}, {.milliseconds = 2}};
  EXPECT_NE(gpu_->prepare(another()).call, nullptr);
  fake_.configs = {{.plan_error = 3000}};
  const Prepared none = gpu_->prepare(another());
  EXPECT_EQ(none.call, nullptr);
  EXPECT_EQ(none.why_not,
            "cuDNN 9.8.1 has no engine for it: CUDNN_STATUS_NOT_SUPPORTED (this engine does not do "
            "this problem)");
  fake_.configs = {{.run_error = 5000}};
  EXPECT_THAT(gpu_->prepare(another()).why_not, HasSubstr("this engine does not run"));
  fake_.configs.clear();
  EXPECT_THAT(gpu_->prepare(another()).why_not, HasSubstr("keeps the precision asked for"));
}

TEST_F(CudnnSessionTest, AGraphThatIsRefusedIsNoError) {
  fake_.errors["cudnnBackendFinalize"] = 3001;
  const Prepared prepared = gpu_->prepare(another());
  EXPECT_EQ(prepared.call, nullptr);
  EXPECT_THAT(prepared.why_not, HasSubstr("CUDNN_STATUS_NOT_SUPPORTED (as the test wants)"));
}

/// A driver whose graphs keep what cuDNN puts into them.
class CudnnOnDriverTest : public testing::Test {
 protected:
  CudnnOnDriverTest() {
    static std::deque<std::function<void()>> kept;
    const Search found = open_library(Library::kDriver, only(fakes("driver")));
    auto* launch = reinterpret_cast<int (*)(void*, void (*)(void*), void*)>(
        found.library->symbol("cuLaunchHostFunc"));
    cudnn_.enqueue = [launch](void* stream, std::function<void()> work) {
      launch(
          stream, [](void* one) { (*static_cast<std::function<void()>*>(one))(); },
          &kept.emplace_back(std::move(work)));
    };
    SearchPath search = only(fakes("driver"));
    search.environment = BRAZE_FAKE_CUDNN;
    gpu_ = std::make_unique<DriverGpu>(search, 0);
  }

  Step launch(const char* entry) {
    Kernel& kernel = kernels_.emplace_back();
    kernel.entry = entry;
    kernel.overlaps = true;
    Step result;
    result.name = entry;
    result.launch = {&kernel, gpu_->load("image", "test.cu"), std::vector<std::byte>(16)};
    return result;
  }
  Step call(const std::shared_ptr<const Call>& prepared) {
    Step result;
    result.name = "k1_cudnn (conv1, relu1)";
    result.call = std::make_unique<CallStep>(CallStep{prepared, {}, nullptr});
    for (int i = 0; i < 3; ++i) {
      memory_.push_back(gpu_->allocate(std::size_t{1} << 20, "a value"));
      result.call->operands.push_back(memory_.back().get());
    }
    return result;
  }

  fake::State& driver_ = fake_driver();
  fake::CudnnState& cudnn_ = fake_cudnn();
  std::unique_ptr<DriverGpu> gpu_;
  std::deque<Kernel> kernels_;
  std::vector<Memory> memory_;
};

TEST_F(CudnnOnDriverTest, CallsArePartOfTheGraphAndNothingOverlapsThem) {
  const Prepared prepared = gpu_->prepare(another());
  ASSERT_NE(prepared.call, nullptr) << prepared.why_not;
  driver_.launched.clear();
  cudnn_.runs.clear();
  std::vector<Step> steps;
  steps.push_back(launch("a"));
  steps.push_back(launch("b"));
  steps.push_back(call(prepared.call));
  steps.push_back(launch("c"));
  steps.push_back(launch("d"));
  const auto recording = gpu_->record(std::move(steps));
  driver_.launched.clear();
  cudnn_.runs.clear();
  recording->run();
  recording->run();
  gpu_->wait();
  EXPECT_GE(cudnn_.runs.size(), 2U);
  ASSERT_GE(driver_.launched.size(), 4U);
  const std::size_t first = driver_.launched.size() - 4;
  std::vector<std::string> overlap;
  for (std::size_t i = first; i < driver_.launched.size(); ++i)
    overlap.push_back(driver_.launched[i].kernel +
                      (driver_.launched[i].overlaps ? " overlaps" : " waits"));
  EXPECT_THAT(overlap, ElementsAre("a waits", "b overlaps", "c waits", "d overlaps"));
}

TEST_F(CudnnOnDriverTest, AFailureNamesTheKernel) {
  const Prepared prepared = gpu_->prepare(another());
  ASSERT_NE(prepared.call, nullptr) << prepared.why_not;
  cudnn_.errors["cudnnBackendExecute"] = 5000;
  std::vector<Step> steps;
  steps.push_back(call(prepared.call));
  const Error error = error_of([&] { gpu_->record(std::move(steps)); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_EQ(exit_code(error.code), 4);
  EXPECT_EQ(error.message,
            "running k1_cudnn (conv1, relu1): cuDNN 9.8.1 refuses: CUDNN_STATUS_OTHER (as the test "
            "wants)");
  EXPECT_EQ(driver_.graphs, 0);
}

TEST_F(CudnnOnDriverTest, CudnnThatDoesNotStart) {
  cudnn_.errors["cudnnCreate"] = 1001;
  const Error error = error_of([&] { gpu_->prepare(another()); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message, AllOf(StartsWith("cuDNN 9.8.1"), HasSubstr("does not start")));
}

TEST_F(CudnnOnDriverTest, NoCudnn) {
  DriverGpu gpu(only(fakes("driver")), 0);
  const Error error = error_of([&] { gpu.prepare(another()); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_THAT(error.message, StartsWith("cuDNN was not found"));
}

TEST_F(CudnnOnDriverTest, WhatIsLeftIsReleased) {
  gpu_->prepare(another());
  EXPECT_EQ(cudnn_.handles, 1);
  gpu_ = nullptr;
  EXPECT_EQ(cudnn_.handles, 0);
  EXPECT_EQ(cudnn_.descriptors, 0);
  EXPECT_EQ(driver_.contexts, 0);
  EXPECT_EQ(driver_.pushed, 0);
}

}  // namespace
}  // namespace braze::cuda
