// Runs that fail are errors at the API door, leave the model usable, and runs that do not fail
// allocate nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "exec/cpu_program.hpp"
#include "kernels/cpu/families.hpp"
#include "passes/net.hpp"
#include "passes/pipeline.hpp"
#include "plan/make_plan.hpp"
#include "state.hpp"

namespace {

thread_local bool counting = false;
std::atomic<int> allocations{0};

void* allocate(std::size_t bytes) {
  if (counting) ++allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Plain new of the whole test program; the aligned and nothrow forms stay as they are.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace braze::test {
namespace {

using ::testing::HasSubstr;

Model model_of(const Net& net, int threads = 1) {
  Graph graph = net.graph;
  simplify(graph);
  auto state = std::make_shared<Model::State>();
  state->program = std::make_unique<CpuProgram>(
      make_plan(graph, cpu_device(threads), {FusionLevel::kFull, false}, cpu::registry()));
  describe(*state);
  return Model(std::move(state));
}

std::string family_of(const Model& model) { return model.plan().kernels.at(0).family; }

/// x[:, indices] with indices known at run time only.
Net gather_net(const Shape& shape) {
  Net net;
  const ValueId x = net.input("x", shape);
  const ValueId indices = net.input("i", {2}, DType::kInt64);
  net.output(net.op("picked", Gather{1}, {x, indices}));
  return net;
}

TEST(Run, IndexOutsideOfItsAxisIsAnErrorAndTheNextRunIsRight) {
  const Model model = model_of(gather_net({1, 3}));
  ASSERT_EQ(family_of(model), "gather");
  const Tensor x = make_tensor<double>(DType::kFloat32, {1, 3}, {1, 2, 3});
  const auto run = [&](double a, double b) {
    return model.run(std::vector{x, make_tensor<double>(DType::kInt64, {2}, {a, b})});
  };
  for (const double bad : {3.0, -4.0, 1e15}) {
    const auto result = run(0, bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_EQ(result.error().code, ErrorCode::kInput);
    EXPECT_THAT(result.error().message, HasSubstr("picked"));
    EXPECT_THAT(result.error().message, HasSubstr("outside of the 3 elements of axis 1"));
  }
  const auto result = run(2, -3);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(load<double>((*result)[0]), (std::vector<double>{3, 1}));
}

TEST(Run, ConstantIndexOutsideOfItsAxisMakesTheModelInvalid) {
  const auto code_of = [](const Shape& indices, const std::vector<double>& at, bool constant_x) {
    Net net;
    const ValueId x = net.input("x", {1, 3});
    const ValueId data = constant_x ? net.constant({1, 3}, {1, 2, 3}) : x;
    const ValueId picked =
        net.op("picked", Gather{1}, {data, net.constant(indices, at, DType::kInt64)});
    net.output(net.unary("relu", UnaryFn::kRelu, picked));
    try {
      model_of(net);
    } catch (const Exception& exception) {
      EXPECT_THAT(exception.what(), HasSubstr("outside of the 3 elements of axis 1"));
      return exception.error().code;
    }
    return ErrorCode::kCheckFailed;
  };
  for (const bool constant_x : {false, true}) {
    EXPECT_EQ(code_of({}, {3}, constant_x), ErrorCode::kModelInvalid);
    EXPECT_EQ(code_of({2}, {2, 3}, constant_x), ErrorCode::kModelInvalid);
    EXPECT_EQ(code_of({3}, {2, 0, -4}, constant_x), ErrorCode::kModelInvalid);
    EXPECT_EQ(code_of({2}, {2, -3}, constant_x), ErrorCode::kCheckFailed);  // fine
  }
}

TEST(Run, ReferenceKernelThatFailsIsAnErrorEveryTime) {
  // Nothing can be picked from an empty axis, which only the reference family accepts.
  const Model model = model_of(gather_net({1, 0}));
  ASSERT_EQ(family_of(model), "reference");
  const std::vector<Tensor> inputs = {Tensor::make(DType::kFloat32, {1, 0}),
                                      make_tensor<double>(DType::kInt64, {2}, {0, 0})};
  for (int i = 0; i < 3; ++i) {
    const auto result = model.run(inputs);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kInput);
    EXPECT_THAT(result.error().message, HasSubstr("outside of the 0 elements"));
  }
}

TEST(Run, FailsInSeveralThreadsAtOnce) {
  const Model model = model_of(gather_net({1, 3}), 2);
  const Tensor x = make_tensor<double>(DType::kFloat32, {1, 3}, {1, 2, 3});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const bool bad = (i + t) % 2 == 0;
        const auto result = model.run(
            std::vector{x, make_tensor<double>(DType::kInt64, {2}, {1, bad ? 9.0 : 2.0})});
        if (result.ok() == bad) ++wrong;
        if (result.ok() && load<double>((*result)[0]) != std::vector<double>{2, 3}) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Run, IntoTheCallersTensorsAllocatesNothingAfterTheFirst) {
  Net net;
  const ValueId x = net.input("x", {1, 8, 12, 12});
  const ValueId a = net.unary("relu", UnaryFn::kRelu, net.conv("a", x, 16, window2d(3, 1)));
  const ValueId b = net.conv("b", a, 16, window2d(1));
  const ValueId sum = net.add("sum", a, b);
  net.output(net.op("pool", Reduce{ReduceFn::kMean, {2, 3}, true}, {sum}));
  for (const int threads : {1, 2}) {
    const Model model = model_of(net, threads);
    const std::vector<Tensor> inputs = random_inputs(model);
    std::vector<Tensor> outputs = {Tensor::make(DType::kFloat32, model.outputs().at(0).shape)};
    ASSERT_TRUE(model.run_into(inputs, outputs).ok());
    allocations = 0;
    counting = true;
    bool ok = true;
    for (int i = 0; i < 5; ++i) ok = model.run_into(inputs, outputs).ok() && ok;
    counting = false;
    EXPECT_TRUE(ok);
    EXPECT_EQ(allocations, 0) << threads << " threads";
  }
}

}  // namespace
}  // namespace braze::test
