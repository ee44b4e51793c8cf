// A network as a program on an emulated GPU: branches in any order, what verify compares with, what
// errors say, and engine files where no GPU is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "networks_cuda/emulated_machine.hpp"
#include "passes/net.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using ::testing::HasSubstr;

/// A stem, three towers, a concatenation, a convolution.
Net towers() {
  Net net(3);
  const ValueId stem = net.conv("stem", net.input("x", {1, 8, 8, 8}), 8, window2d(3, 1));
  std::vector<ValueId> ends;
  for (int b = 0; b < 3; ++b) {
    ValueId x = stem;
    for (int i = 0; i < 9 + b; ++i) {
      const std::string id = fmt::format("b{}_{}", b, i);
      x = i % 3 == 2 ? net.op(id, Pool{PoolFn::kMax, window2d(3, 1)}, {x})
                     : net.unary(id + "_relu", UnaryFn::kRelu, net.conv(id, x, 8, window2d(3, 1)));
    }
    ends.push_back(x);
  }
  net.output(net.conv("last", net.op("join", Concat{1}, ends), 8, window2d(1)));
  return net;
}

std::size_t streams_of(const Model& model) {
  std::set<int> streams;
  for (const KernelSummary& kernel : model.plan().kernels) streams.insert(kernel.stream);
  return streams.size();
}

std::vector<Tensor> run(const Model& model, std::span<const Tensor> inputs) {
  Result<std::vector<Tensor>> outputs = model.run(inputs);
  if (!outputs.ok()) throw std::runtime_error(outputs.error().message);
  return std::move(outputs).value();
}

TEST(CudaProgram, BranchesInAnyOrderGiveTheSameBits) {
  BRAZE_NEEDS_EMULATOR();
  const Net net = towers();
  Options options;
  options.precision = Precision::kFp16;
  options.streams = 1;
  const Model one = compile_for(emulated(90, options.precision), net.graph, options);
  EXPECT_EQ(streams_of(one), 1U);
  options.streams = 0;
  const Model several = compile_for(emulated(90, options.precision), net.graph, options);
  EXPECT_EQ(streams_of(several), 3U);
  const std::vector<Tensor> inputs = random_inputs(one);
  const std::vector<Tensor> want = run(one, inputs);
  for (int round = 0; round < 4; ++round) {  // each in another order
    const std::vector<Tensor> got = run(several, inputs);
    ASSERT_EQ(std::memcmp(got[0].data(), want[0].data(), want[0].bytes()), 0) << round;
  }
  const Result<std::vector<double>> seconds = several.profile(inputs);
  ASSERT_TRUE(seconds.ok()) << seconds.error().message;
  EXPECT_EQ(seconds->size(), several.plan().kernels.size());
}

/// Down, and up again into the buffer of a concatenation: a step of a U-Net.
TEST(CudaProgram, TransposedConvolutionsStoreBesideASkipConnection) {
  BRAZE_NEEDS_EMULATOR();
  Net net(5);
  const ValueId x = net.input("x", {2, 16, 10, 12});
  const ValueId skip =
      net.unary("skip_relu", UnaryFn::kRelu, net.conv("skip", x, 24, window2d(3, 1)));
  const ValueId down = net.conv(
      "down", net.op("pool", Pool{PoolFn::kMax, window2d(2, 0, 2)}, {skip}), 32, window2d(3, 1));
  const ValueId up =
      net.unary("up_relu", UnaryFn::kRelu, net.conv_transpose("up", down, 24, window2d(2, 0, 2)));
  const ValueId join = net.op("join", Concat{1}, {skip, up});
  net.output(net.conv("last", join, 8, window2d(3, 1)));
  for (const Precision precision : {Precision::kFp16, Precision::kBf16, Precision::kTf32}) {
    Options options;
    options.precision = precision;
    const Model model = compile_for(emulated(90, precision), net.graph, options);
    const PlanSummary& plan = model.plan();
    const auto kernel = std::ranges::find_if(plan.kernels, [](const KernelSummary& one) {
      return one.nodes == std::vector<std::string>{"up", "up_relu"};
    });
    ASSERT_NE(kernel, plan.kernels.end());
    EXPECT_EQ(kernel->family, "conv_sm90");
    ASSERT_EQ(plan.folded.size(), 1U);
    EXPECT_EQ(plan.folded[0].into, "view");
    const Result<VerifyReport> report = model.verify(random_inputs(model), true);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->ok());
  }
}

TEST(CudaProgram, VerifyWithEitherReference) {
  BRAZE_NEEDS_EMULATOR();
  const Net net = towers();
  for (const Precision precision : {Precision::kFp32, Precision::kFp16}) {
    Options options;
    options.precision = precision;
    const Model model = compile_for(emulated(80, precision), net.graph, options);
    const std::vector<Tensor> inputs = random_inputs(model);
    for (const Reference reference : {Reference::kInterpreter, Reference::kCpu}) {
      const Result<VerifyReport> report = model.verify(inputs, false, reference);
      ASSERT_TRUE(report.ok()) << report.error().message;
      EXPECT_EQ(report->reference, reference);
      EXPECT_TRUE(report->ok()) << report->outputs[0].max_error << " of "
                                << report->outputs[0].allowed;
    }
    EXPECT_EQ(model.verify(inputs, false)->reference, Reference::kInterpreter);  // small enough
    const Result<VerifyReport> refused = model.verify(inputs, true, Reference::kCpu);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  }
}

TEST(CudaProgram, TheCpuIsNoReferenceForItself) {
  const Net net = towers();
  const Options options;
  const Model model = compile_for(select_machine(options), net.graph, options);
  const Result<VerifyReport> refused = model.verify(random_inputs(model), false, Reference::kCpu);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
}

TEST(CudaProgram, EnginesCanBeLookedAtWhereThereIsNoGpu) {
  const Net net = towers();
  Options options;
  options.device = "cuda:sm_90";
  options.precision = Precision::kTf32;
  options.plan_only = true;
  const Model made = compile_for(select_machine(options), net.graph, options);
  const TemporaryFolder folder;
  const std::string file = folder / "towers.brz";
  ASSERT_TRUE(made.save(file).ok());
  Options mine;
  mine.plan_only = true;
  const Result<Model> loaded = load(file, mine);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->plan().device, made.plan().device);
  ASSERT_EQ(loaded->plan().kernels.size(), made.plan().kernels.size());
  EXPECT_GT(streams_of(*loaded), 1U);
  for (std::size_t k = 0; k < made.plan().kernels.size(); ++k) {
    EXPECT_EQ(loaded->plan().kernels[k].detail, made.plan().kernels[k].detail);
    EXPECT_EQ(loaded->plan().kernels[k].waits, made.plan().kernels[k].waits);
    EXPECT_EQ(loaded->source(k), made.source(k));
    EXPECT_THAT(loaded->source(k), HasSubstr("__global__"));
  }
  const auto refused = loaded->run(random_inputs(*loaded));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(exit_code(refused.error().code), 4);
}

TEST(CudaProgram, TensorsOfACallerAreUsedInPlaceOnceTheyComeAgain) {
  BRAZE_NEEDS_EMULATOR();
  const Net net = towers();
  const Options options;
  const Machine machine = emulated(80, options.precision);
  auto& gpu = dynamic_cast<EmulatedGpu&>(*machine.gpu);
  const Model model = compile_for(machine, net.graph, options);
  EXPECT_EQ(model.gpu(), 0);
  int value = 0;
  void* const stream = &value;  // any address
  const std::string name = fmt::format("{}", reinterpret_cast<std::uintptr_t>(stream));

  std::vector<cuda::Memory> memory;  // of two callers
  std::vector<std::vector<Tensor>> inputs(2), outputs(2), want(2);
  for (std::size_t caller = 0; caller < 2; ++caller) {
    const std::vector<Tensor> host = random_inputs(model, caller);
    want[caller] = run(model, host);
    memory.push_back(gpu.allocate(host[0].bytes(), "a caller's input"));
    gpu.copy_in(memory.back().get(), host[0].data(), host[0].bytes());
    gpu.wait();
    inputs[caller].push_back(Tensor::view(host[0].dtype(), host[0].shape(), memory.back().get()));
    Result<std::vector<Tensor>> made = model.make_gpu_outputs();
    ASSERT_TRUE(made.ok()) << made.error().message;
    outputs[caller] = std::move(made).value();
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t caller = 0; caller < 2; ++caller) {
      std::memset(outputs[caller][0].data(), 0xff, outputs[caller][0].bytes());
      const Status status = model.run_on_gpu(inputs[caller], outputs[caller], stream);
      ASSERT_TRUE(status.ok()) << status.error().message;
      std::vector<Tensor> host = {Tensor::make(DType::kFloat32, want[caller][0].shape())};
      ASSERT_TRUE(model.copy_from_gpu(outputs[caller], host, stream).ok());
      ASSERT_EQ(std::memcmp(host[0].data(), want[caller][0].data(), host[0].bytes()), 0);
      ASSERT_EQ(
          std::memcmp(outputs[caller][0].data(), want[caller][0].data(), want[caller][0].bytes()),
          0)
          << "round " << round << ", caller " << caller;
    }
  }
  // The first time copies; and each time copy_from_gpu waits as well.
  std::vector<std::string> expected;
  for (int call = 0; call < 6; ++call) {
    for (const char* what : {"hold ", "copy in ", "run in ", "copy in ", "wait for ", "wait for "})
      if (call < 2 || what != std::string("copy in ")) expected.push_back(what + name);
  }
  EXPECT_EQ(gpu.streams(), expected);
  EXPECT_EQ(gpu.copies(), 4U);

  // A captured stream: nothing is waited for, and nothing is recorded beside.
  gpu.set_captured(stream);
  ASSERT_TRUE(model.run_on_gpu(inputs[0], outputs[0], stream).ok());
  ASSERT_TRUE(model.run_on_gpu(inputs[0], outputs[1], stream).ok());  // new addresses
  for (const char* what : {"capture in ", "copy in ", "capture in ", "copy in "})
    expected.push_back(what + name);
  EXPECT_EQ(gpu.streams(), expected);
  gpu.set_captured(nullptr);
  ASSERT_TRUE(model.synchronize().ok());
  for (std::size_t caller = 0; caller < 2; ++caller)
    EXPECT_EQ(std::memcmp(outputs[caller][0].data(), want[0][0].data(), want[0][0].bytes()), 0);

  ASSERT_TRUE(model.order_after(nullptr).ok() && model.order_before(stream).ok());
  expected.insert(expected.end(), {"wait for 0", "hold " + name});
  EXPECT_EQ(gpu.streams(), expected);

  const std::vector<Tensor> flat = {inputs[0][0].reshaped({1, 8, 64})};
  const Status wrong = model.run_on_gpu(flat, outputs[1], stream);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, HasSubstr("input 'x' is float [1,8,64]"));
}

TEST(CudaProgram, ANetworkOnTheCpuTakesNoTensorsOnAGpu) {
  const Net net = towers();
  const Model model = compile_for(select_machine({}), net.graph, {});
  EXPECT_EQ(model.gpu(), -1);
  const std::vector<Tensor> inputs = random_inputs(model);
  std::vector<Tensor> outputs = run(model, inputs);
  EXPECT_EQ(model.run_on_gpu(inputs, outputs, nullptr).error().code, ErrorCode::kUsage);
  EXPECT_EQ(model.copy_from_gpu(outputs, outputs, nullptr).error().code, ErrorCode::kUsage);
  EXPECT_EQ(model.make_gpu_outputs().error().code, ErrorCode::kUsage);
  EXPECT_EQ(model.order_after(nullptr).error().code, ErrorCode::kUsage);
  EXPECT_EQ(model.order_before(nullptr).error().code, ErrorCode::kUsage);
  EXPECT_EQ(model.synchronize().error().code, ErrorCode::kUsage);
}

TEST(CudaProgram, OutOfMemoryNamesWhatThereIsNoRoomFor) {
  BRAZE_NEEDS_EMULATOR();
  const Net net = towers();
  const Options options;
  for (const std::size_t capacity : {std::size_t{1000}, std::size_t{100'000}}) {
    const Machine machine = emulated(80, options.precision);
    dynamic_cast<EmulatedGpu&>(*machine.gpu).set_capacity(capacity);
    try {
      compile_for(machine, net.graph, options);
      FAIL() << "it fits";
    } catch (const Exception& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kOutOfMemory);
      EXPECT_THAT(exception.what(), HasSubstr(capacity == 1000 ? "intermediate values"
                                                               : "the weights of network 'net'"));
    }
  }
}

}  // namespace
}  // namespace braze::test
