// Random convolutional networks through the whole path, against the interpreter: every output of
// the network as it was made, and every kernel on the reference's inputs, at each fusion level,
// layout, thread count and instruction set.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/cpu_program.hpp"
#include "exec/random_network.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/isa.hpp"
#include "passes/pipeline.hpp"
#include "plan/make_plan.hpp"
#include "state.hpp"

namespace braze::test {
namespace {

void expect_right(Net& net, FusionLevel fusion, bool nhwc_io, int threads) {
  Model::State state;
  state.max_error = 2e-5;
  state.reference = net.graph.compacted();
  Graph graph = net.graph;
  simplify(graph);
  state.simplified = graph.compacted();
  Plan plan = make_plan(*state.simplified, cpu_device(threads), {fusion, nhwc_io}, cpu::registry());
  state.program = std::make_unique<CpuProgram>(std::move(plan));
  std::vector<Tensor> inputs = net.inputs(-1, 1);
  if (nhwc_io) {
    for (Tensor& input : inputs) {
      Shape shape = input.shape();
      std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
      input = input.reshaped(shape);
    }
  }
  const VerifyReport report =
      verify_against_reference(state, inputs, true, Reference::kInterpreter);
  for (const auto* list : {&report.outputs, &report.kernels}) {
    for (const Deviation& deviation : *list) {
      EXPECT_TRUE(deviation.ok) << deviation.what << " is off by " << deviation.max_error
                                << ", allowed " << deviation.allowed << "\n"
                                << print(state.program->plan());
    }
  }
}

class RandomNetworks : public ::testing::TestWithParam<std::string> {};

TEST_P(RandomNetworks, MatchTheInterpreter) {
  if (!cpu::force_isa(GetParam())) GTEST_SKIP() << "this machine has no " << GetParam();
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomNetwork network(seed);
    expect_right(network.net, FusionLevel::kOff, false, 1);
    expect_right(network.net, FusionLevel::kFull, seed % 4 == 1, seed % 2 == 0 ? 1 : 2);
    if (HasFailure()) break;
  }
  cpu::force_isa(cpu::supported_isas().front());
}

INSTANTIATE_TEST_SUITE_P(Isa, RandomNetworks, ::testing::Values("AVX3", "AVX2", "EMU128"),
                         [](const auto& isa) { return isa.param; });

/// Filters have no channels-last form: neither those that are inputs, nor those that a kernel makes
/// which writes channels-last.
TEST(FiltersThatArriveAtRunTime, AreRightInEitherLayout) {
  for (const bool nhwc_io : {false, true}) {
    SCOPED_TRACE(nhwc_io);
    for (const bool made : {false, true}) {
      Net net;
      const ValueId x = net.input("x", {1, 3, 6, 7});
      ValueId w = net.input("w", {4, 3, 3, 3});
      if (made) w = net.mul("scaled", w, net.random({4, 3, 3, 3}));
      net.output(net.op("c", Conv{window2d(3, 1), 1}, {x, w}));
      net.output(net.op("t", ConvTranspose{window2d(3, 1), {0, 0}, {}, 1},
                        {net.conv("four", x, 4, window2d(1)), w}));
      expect_right(net, FusionLevel::kFull, nhwc_io, 1);
    }
  }
}

}  // namespace
}  // namespace braze::test
