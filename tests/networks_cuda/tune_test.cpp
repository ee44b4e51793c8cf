// Tuning on a GPU: candidates of all kernels are compiled at once, launched one after another with
// weights of their own, and the fastest is in the plan. Times are those that a fake clock gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "exec/cuda/cudnn.hpp"
#include "exec/tuner.hpp"
#include "kernels/cuda/families.hpp"
#include "passes/net.hpp"
#include "support/simt/emulated_gpu.hpp"
#include "support/temporary_folder.hpp"
#include "tune.hpp"

namespace braze::test {
namespace {

using ::testing::HasSubstr;

/// What the fake clock says of one launch: the more blocks, the longer, whatever they do.
double fake_us(const cuda::Kernel& kernel) {
  return 10.0 * kernel.grid.x * kernel.grid.y * kernel.grid.z;
}

/// Records what it was asked to record, and gives a recording of n launches n times fake_us.
class FakeRecording final : public cuda::Recording {
 public:
  FakeRecording(EmulatedGpu& gpu, std::unique_ptr<cuda::Recording> real, double us)
      : gpu_(gpu), real_(std::move(real)), us_(us) {}
  void run() override { real_->run(); }
  void run_in(void* stream) override { real_->run_in(stream); }
  void capture_in(void* stream) override { real_->capture_in(stream); }
  void run_timed(std::span<double> seconds) override { real_->run_timed(seconds); }
  void run_repeatedly(std::span<double> seconds, std::size_t) override {
    real_->run();
    gpu_.wait();
    std::ranges::fill(seconds, us_ * 1e-6);
  }

 private:
  EmulatedGpu& gpu_;
  std::unique_ptr<cuda::Recording> real_;
  double us_;
};

class FakeClockGpu final : public EmulatedGpu {
 public:
  using EmulatedGpu::EmulatedGpu;
  std::unique_ptr<cuda::Recording> record(std::vector<cuda::Step> steps) override {
    double us = 0;
    std::set<std::vector<std::byte>> parameters;
    for (const cuda::Step& step : steps) {
      us += step.call != nullptr ? 1 : 0;  // cuDNN is fast
      if (step.launch.kernel == nullptr) continue;
      us += fake_us(*step.launch.kernel);
      parameters.insert(step.launch.parameters);
      if (step.launch.kernel->source.find(refused) != std::string::npos && !refused.empty() &&
          steps.size() > 1 && steps[0].launch.kernel == steps[1].launch.kernel)
        fail(ErrorCode::kDevice, "no");
    }
    recorded.push_back({steps.size(), parameters.size()});
    return std::make_unique<FakeRecording>(*this, EmulatedGpu::record(std::move(steps)), us);
  }

  struct Recorded {
    std::size_t launches, different;
  };
  std::vector<Recorded> recorded;
  std::string refused;  // kernels whose sources have this in them do not run
};

class CountingCompiler final : public EmulatedCompiler {
 public:
  using EmulatedCompiler::EmulatedCompiler;
  std::vector<std::string> compile(std::span<const std::string> sources) override {
    ++batches;
    return EmulatedCompiler::compile(sources);
  }
  int batches = 0;
};

/// Two convolutions, one of them twice.
Graph network() {
  Net net;
  ValueId v = net.input("x", {1, 32, 6, 6});
  v = net.unary("relu0", UnaryFn::kRelu, net.conv("conv0", v, 32, window2d(3, 1)));
  v = net.unary("relu1", UnaryFn::kRelu, net.conv("conv1", v, 64, window2d(1)));
  v = net.unary("relu2", UnaryFn::kRelu, net.conv("conv2", v, 32, window2d(1)));
  v = net.unary("relu3", UnaryFn::kRelu, net.conv("conv3", v, 64, window2d(1)));
  net.output(v);
  return net.graph;
}

class TuneOnGpu : public ::testing::Test {
 protected:
  TuneOnGpu() {
    options_.cache_dir = folder_.path();
    options_.precision = Precision::kFp16;
    options_.nhwc_io = true;
    options_.compute_dtype_io = true;
    options_.fusion = Fusion::kEpilogue;  // each convolution is a problem of its own
    machine_.device = cuda_device(80);
    machine_.registry = cuda::registry();
    machine_.gpu = gpu_;
    machine_.sm = 80;
    machine_.compiler = compiler_;
    machine_.name = "emulated";
    tuning_.candidates = 3;
  }

  const TemporaryFolder folder_;
  std::shared_ptr<FakeClockGpu> gpu_ = std::make_shared<FakeClockGpu>(80);
  std::shared_ptr<CountingCompiler> compiler_ = std::make_shared<CountingCompiler>(80);
  Machine machine_;
  Options options_;
  TuneOptions tuning_;
};

TEST_F(TuneOnGpu, TheFastestCandidateIsInThePlan) {
  BRAZE_NEEDS_EMULATOR();
  std::vector<std::string> shown;
  options_.progress = [&](const std::string& text) { shown.push_back(text); };
  const TuneReport report = tune_for(machine_, network(), options_, tuning_);
  EXPECT_TRUE(report.finished);
  EXPECT_FALSE(report.same_plan);
  ASSERT_EQ(report.problems.size(), 3U);
  EXPECT_EQ(report.problems[1].kernels.size(), 2U);  // conv1 and conv3
  for (const TunedProblem& problem : report.problems) {
    SCOPED_TRACE(problem.estimated + " -> " + problem.tuned);
    EXPECT_EQ(problem.measured, 3U);
    EXPECT_GT(problem.tuned_us, 0);
    EXPECT_LE(problem.tuned_us, problem.estimated_us * 1.01);
  }
  EXPECT_THAT(shown, ::testing::Contains(HasSubstr("measuring kernel problem 2 of 3")));
  EXPECT_EQ(compiler_->batches, 3);  // candidates; two whole plans

  const Model tuned = compile_for(machine_, network(), options_);
  for (const KernelSummary& kernel : tuned.plan().kernels) EXPECT_TRUE(kernel.measured);
  EXPECT_EQ(tuned.plan().kernels[0].est_us, report.problems[0].tuned_us);
  const Result<VerifyReport> verified = tuned.verify(random_inputs(tuned), true);
  ASSERT_TRUE(verified.ok()) << verified.error().message;
  EXPECT_TRUE(verified->ok());

  const int batches = compiler_->batches;
  const TuneReport again = tune_for(machine_, network(), options_, tuning_);
  for (const TunedProblem& problem : again.problems) EXPECT_EQ(problem.measured, 0U);
  EXPECT_EQ(compiler_->batches - batches, 2);
}

TEST_F(TuneOnGpu, LaunchesFollowOneAnotherWithWeightsOfTheirOwnIfTheCacheIsSmall) {
  BRAZE_NEEDS_EMULATOR();
  const auto timings = [this] {
    gpu_->recorded.clear();
    tune_for(machine_, network(), options_, tuning_);
    std::vector<FakeClockGpu::Recorded> found;
    for (const auto& one : gpu_->recorded) {
      if (one.launches == 20) found.push_back(one);
    }
    std::filesystem::remove(options_.cache_dir / "tuning.db");
    return found;
  };
  std::vector<FakeClockGpu::Recorded> large = timings();
  ASSERT_EQ(large.size(), 9U);
  for (const auto& one : large) EXPECT_EQ(one.different, 1U);
  machine_.device.cache_bytes = 1000;
  const std::vector<FakeClockGpu::Recorded> small = timings();
  ASSERT_EQ(small.size(), 9U);
  for (const auto& one : small) EXPECT_EQ(one.different, 20U);
}

TEST_F(TuneOnGpu, AKernelThatDoesNotRunIsPassedOver) {
  BRAZE_NEEDS_EMULATOR();
  gpu_->refused = "product_sm80";
  tuning_.exhaustive = true;
  const TuneReport some = tune_for(machine_, network(), options_, tuning_);
  EXPECT_TRUE(some.finished);
  for (const TunedProblem& problem : some.problems) {
    EXPECT_GT(problem.measured, 0U);
    EXPECT_EQ(problem.tuned.find("conv_sm80"), std::string::npos) << problem.tuned;
  }
  const TuneReport again = tune_for(machine_, network(), options_, tuning_);
  for (const TunedProblem& problem : again.problems) EXPECT_EQ(problem.measured, 0U);
}

TEST_F(TuneOnGpu, WithAnAlternativeConvolutionsAreMeasuredWhileCompiling) {
  BRAZE_NEEDS_EMULATOR();
  machine_.alternatives = {
      {"conv_direct_cuda", [](const Plan&, const Group&) { return Support::yes(); }}};
  std::vector<std::string> shown;
  options_.progress = [&](const std::string& text) { shown.push_back(text); };
  const Model model = compile_for(machine_, network(), options_);
  for (const KernelSummary& kernel : model.plan().kernels) EXPECT_TRUE(kernel.measured);
  EXPECT_FALSE(shown.empty());
  shown.clear();
  const Model again = compile_for(machine_, network(), options_);
  EXPECT_TRUE(shown.empty());
  for (std::size_t k = 0; k < model.plan().kernels.size(); ++k)
    EXPECT_EQ(again.plan().kernels[k].detail, model.plan().kernels[k].detail);
}

cuda::SearchPath fake_cudnn() {
  cuda::SearchPath path;
  path.option = BRAZE_FAKE_CUDNN;
  path.linker = false;
  path.toolkit.clear();
  return path;
}

TEST_F(TuneOnGpu, CudnnRunsWhatItRunsFaster) {
  BRAZE_NEEDS_EMULATOR();
  machine_.registry = cuda::registry_offering_cudnn();
  machine_.alternatives = {{"cudnn", cuda::cudnn_takes}};
  gpu_->set_cudnn(cuda::open_cudnn(fake_cudnn()));
  const Model model = compile_for(machine_, network(), options_);
  for (const KernelSummary& kernel : model.plan().kernels) {
    EXPECT_EQ(kernel.backend, "cudnn");
    EXPECT_TRUE(kernel.measured);
  }
  const Result<VerifyReport> verified = model.verify(random_inputs(model), true);
  ASSERT_TRUE(verified.ok()) << verified.error().message;
  EXPECT_TRUE(verified->ok());

  machine_.registry = cuda::registry();  // --backend braze, the same database
  machine_.alternatives.clear();
  const Model own = compile_for(machine_, network(), options_);
  for (const KernelSummary& kernel : own.plan().kernels) {
    EXPECT_EQ(kernel.backend, "cuda");
    EXPECT_TRUE(kernel.measured);
  }
}

TEST_F(TuneOnGpu, ACudnnThatDoesNotWorkCostsAWarning) {
  BRAZE_NEEDS_EMULATOR();
  machine_.registry = cuda::registry_offering_cudnn();
  machine_.alternatives = {{"cudnn", cuda::cudnn_takes}};
  const Model model = compile_for(machine_, network(), options_);
  for (const KernelSummary& kernel : model.plan().kernels) EXPECT_EQ(kernel.backend, "cuda");
  ASSERT_EQ(model.plan().warnings.size(), 1U);
  EXPECT_THAT(model.plan().warnings[0], HasSubstr("no cuDNN"));
}

TEST_F(TuneOnGpu, StoppedItKeepsWholeProblems) {
  BRAZE_NEEDS_EMULATOR();
  int asked = 0;
  tuning_.stop = [&asked] { return ++asked > 6; };  // once before, three in each problem
  const TuneReport report = tune_for(machine_, network(), options_, tuning_);
  EXPECT_FALSE(report.finished);
  EXPECT_EQ(report.problems[0].measured, 3U);
  EXPECT_EQ(report.problems[1].measured, 0U);
  EXPECT_EQ(report.tuned_us, 0);
  tuning_.stop = nullptr;
  bool compares = false;
  options_.progress = [&](const std::string& text) {
    compares = compares || text == "measuring the network with both plans";
  };
  tuning_.stop = [&] { return compares; };
  const TuneReport compared = tune_for(machine_, network(), options_, tuning_);
  EXPECT_TRUE(compares);
  EXPECT_FALSE(compared.finished);
  EXPECT_EQ(compared.problems[2].measured, 3U);
  EXPECT_EQ(compared.tuned_us, 0);
  tuning_.stop = nullptr;
  const TuneReport rest = tune_for(machine_, network(), options_, tuning_);
  EXPECT_TRUE(rest.finished);
  EXPECT_EQ(rest.problems[0].measured, 0U);
  EXPECT_EQ(rest.problems[1].measured, 0U);
}

}  // namespace
}  // namespace braze::test
