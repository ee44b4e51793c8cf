// Networks whose convolutions go to cuDNN: a stand-in that computes what its descriptors say, on an
// emulated GPU, against the interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "exec/cuda/cudnn.hpp"
#include "exec/engine_file.hpp"
#include "model/read_onnx.hpp"
#include "networks_cuda/emulated_machine.hpp"
#include "passes/net.hpp"
#include "support/fake_cudnn/fake_cudnn.hpp"
#include "support/onnx_case.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

cuda::SearchPath search() {
  cuda::SearchPath path;
  path.option = BRAZE_FAKE_CUDNN;
  path.linker = false;
  path.toolkit.clear();
  return path;
}

/// The state of the fake cuDNN, as new.
cuda::fake::CudnnState& fake_cudnn() {
  const cuda::Search found = cuda::open_library(cuda::Library::kCudnn, search());
  auto* get =
      reinterpret_cast<cuda::fake::CudnnState* (*)()>(found.library->symbol("fake_cudnn_state"));
  *get() = cuda::fake::CudnnState{};
  return *get();
}

Machine emulated_with_cudnn(int sm, Precision precision) {
  Machine machine = emulated(sm, precision);
  machine.registry = cuda::registry_with_cudnn();
  std::dynamic_pointer_cast<EmulatedGpu>(machine.gpu)->set_cudnn(cuda::open_cudnn(search()));
  return machine;
}

std::vector<std::string> backends_of(const Model& model) {
  std::vector<std::string> backends;
  for (const KernelSummary& kernel : model.plan().kernels) backends.push_back(kernel.backend);
  return backends;
}

void expect_right(const Model& model) {
  const Result<VerifyReport> report = model.verify(random_inputs(model), true);
  ASSERT_TRUE(report.ok()) << report.error().message;
  for (const std::vector<Deviation>* list : {&report->outputs, &report->kernels})
    for (const Deviation& one : *list)
      EXPECT_TRUE(one.ok) << one.what << " is off by " << one.max_error << ", allowed "
                          << one.allowed;
}

struct Setting {
  std::filesystem::path folder;
  Precision precision = Precision::kFp32;
  bool nhwc = false;
};
void PrintTo(const Setting& one, std::ostream* out) { *out << one.folder.string(); }

/// Every case once, in turns at another precision, and in both layouts.
std::vector<Setting> settings() {
  constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kFp16, Precision::kTf32,
                                       Precision::kBf16, Precision::kFp32};
  std::vector<Setting> list;
  for (const auto& folder : find_cases(std::filesystem::path(BRAZE_TESTS_DIR) / "cases"))
    list.push_back({folder, kPrecisions[list.size() % 5], list.size() % 2 == 0});
  return list;
}

class CaseOnCudnn : public ::testing::TestWithParam<Setting> {};

bool has_convolution(const Graph& graph, const std::vector<std::string>& nodes) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) {
    const Node& node = graph.node(id);
    const bool convolves = node.kind() == OpKind::kConv || node.kind() == OpKind::kConvTranspose ||
                           node.kind() == OpKind::kQLinearConv;
    return convolves && std::ranges::find(nodes, node.id) != nodes.end();
  });
}

/// And every convolution is cuDNN's, or the plan says why not.
TEST_P(CaseOnCudnn, IsRight) {
  BRAZE_NEEDS_EMULATOR();
  fake_cudnn();
  Options options;
  options.precision = GetParam().precision;
  options.nhwc_io = options.compute_dtype_io = GetParam().nhwc;
  Graph graph;
  std::optional<Model> model;
  try {
    graph = read_onnx(GetParam().folder / "model.onnx");
    model = compile_for(emulated_with_cudnn(90, options.precision), graph, options);
  } catch (const Exception& error) {
    const bool refused = error.error().code == ErrorCode::kUnsupported ||
                         error.error().code == ErrorCode::kInput ||
                         error.error().code == ErrorCode::kUsage;
    if (!refused) throw;
    GTEST_SKIP() << error.what();
  }
  const auto& plan = model->plan();
  const auto says_why = [&](const KernelSummary& kernel) {
    return std::ranges::any_of(plan.not_fused, [&](const NotFused& refusal) {
      return refusal.rule.starts_with("cudnn-") &&
             std::ranges::find(kernel.nodes, refusal.nodes.at(0)) != kernel.nodes.end();
    });
  };
  for (const KernelSummary& kernel : plan.kernels)
    EXPECT_TRUE(kernel.backend == "cudnn" || !has_convolution(graph, kernel.nodes) ||
                says_why(kernel))
        << kernel.name;
  expect_right(*model);
}

INSTANTIATE_TEST_SUITE_P(Cases, CaseOnCudnn, ::testing::ValuesIn(settings()),
                         [](const auto& one) { return one.param.folder.filename().string(); });

/// Two convolutions with relu, channels-last without and within.
Net two_convs() {
  Net net(5);
  ValueId y = net.conv("a", net.input("x", {1, 8, 5, 5}), 8, window2d(3, 1));
  y = net.unary("ra", UnaryFn::kRelu, y);
  net.output(net.unary("rb", UnaryFn::kRelu, net.conv("b", y, 16, window2d(1))));
  return net;
}
Options nhwc() {
  Options options;
  options.nhwc_io = true;
  return options;
}

TEST(NetworkOnCudnn, EveryConvolutionIsOneCallAndNothingElseRuns) {
  BRAZE_NEEDS_EMULATOR();
  fake_cudnn();
  const Model model =
      compile_for(emulated_with_cudnn(90, Precision::kFp32), two_convs().graph, nhwc());
  EXPECT_THAT(backends_of(model), ElementsAre("cudnn", "cudnn"));
  EXPECT_EQ(model.plan().launches, 2);
  EXPECT_TRUE(model.plan().not_fused.empty());
  expect_right(model);
  EXPECT_TRUE(model.time(random_inputs(model), 3).ok());
  EXPECT_EQ(model.profile(random_inputs(model))->size(), 2U);
}

TEST(NetworkOnCudnn, WhatHasNoEngineRunsOnOurOwnKernelsAndThePlanSaysSo) {
  BRAZE_NEEDS_EMULATOR();
  cuda::fake::CudnnState& fake = fake_cudnn();
  fake.configs = {{.plan_error = 3000}};
  Net net = two_convs();
  const Model model = compile_for(emulated_with_cudnn(80, Precision::kFp32), net.graph, nhwc());
  EXPECT_THAT(backends_of(model), Each("cuda"));
  ASSERT_EQ(model.plan().not_fused.size(), 2U);
  EXPECT_EQ(model.plan().not_fused[0].rule, "cudnn-engine");
  EXPECT_THAT(model.plan().not_fused[0].nodes, ElementsAre("a", "ra"));
  EXPECT_THAT(model.plan().not_fused[0].reason, StartsWith("cuDNN 9.8.1 has no engine for it"));
  for (const KernelSummary& kernel : model.plan().kernels)
    EXPECT_THAT(kernel.name, HasSubstr(kernel.family));
  expect_right(model);
}

TEST(NetworkOnCudnn, AFailureNamesTheKernel) {
  cuda::fake::CudnnState& fake = fake_cudnn();
  const Machine machine = emulated_with_cudnn(90, Precision::kFp32);
  const Model model = compile_for(machine, two_convs().graph, nhwc());
  fake.errors["cudnnBackendExecute"] = 5000;
  const auto result = model.run(random_inputs(model));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kDevice);
  EXPECT_THAT(result.error().message, HasSubstr("running k0_cudnn (a, ra): cuDNN 9.8.1 refuses"));
}

TEST(NetworkOnCudnn, AnEngineFileKeepsTheBackendOfEachKernel) {
  fake_cudnn();
  Net net = two_convs();
  const Model model = compile_for(emulated_with_cudnn(90, Precision::kFp32), net.graph, nhwc());
  const TemporaryFolder folder;
  const std::string file = folder / "net.brz";
  ASSERT_TRUE(model.save(file).ok());
  const Plan plan = read_engine(file);
  ASSERT_EQ(plan.kernels.size(), 2U);
  for (const KernelPlan& kernel : plan.kernels) {
    EXPECT_EQ(kernel.family, "cudnn");
    EXPECT_EQ(kernel.backend, "cudnn");
    EXPECT_EQ(kernel.kind, KernelKind::kEpilogue);
  }
  Options look;
  look.plan_only = true;  // where neither a GPU nor cuDNN is
  const Result<Model> seen = load(file, look);
  ASSERT_TRUE(seen.ok()) << seen.error().message;
  EXPECT_THAT(backends_of(*seen), ElementsAre("cudnn", "cudnn"));
}

TEST(NetworkOnCudnn, AnArchitectureWithoutAGpuIsRefused) {
  Options options;
  options.device = "cuda:sm_90";
  options.backend = Backend::kCudnn;
  try {
    select_machine(options);
    FAIL();
  } catch (const Exception& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kUsage);
    EXPECT_THAT(error.error().message, HasSubstr("'cuda:sm_90' names an architecture"));
  }
}

TEST(NetworkOnCudnn, WithoutCudnnThereIsOneError) {
  Machine machine = emulated(90, Precision::kFp32);
  machine.registry = cuda::registry_with_cudnn();
  try {
    compile_for(machine, two_convs().graph, nhwc());
    FAIL();
  } catch (const Exception& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kDevice);
    EXPECT_THAT(error.error().message, HasSubstr("no cuDNN"));
  }
}

}  // namespace
}  // namespace braze::test
