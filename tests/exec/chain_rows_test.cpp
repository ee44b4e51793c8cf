// Groups of several members, row by row on the CPU and tile by tile without kernels, against the
// interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/cpu_program.hpp"
#include "exec/interpret_tiles.hpp"
#include "exec/random_chain.hpp"
#include "graph/elements.hpp"
#include "graph/interpret.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cpu/isa.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

using ::testing::Eq;
using ::testing::Pointwise;

/// The CPU's families; groups cost nothing, so that every one that can be made is.
Registry eager_registry() {
  Registry registry = cpu::registry();
  for (KernelFamily& family : registry) {
    if (family.joins == nullptr) continue;
    family.work = [](const Graph&, const Group&, const Candidate&, const Device&) {
      return Work{};
    };
  }
  return registry;
}

Plan eager_plan(const Net& net, int threads) {
  return make_plan(net.graph, cpu_device(threads), {FusionLevel::kFull, false}, eager_registry());
}

const KernelFamily& family_named(const Registry& registry, std::string_view name) {
  return *std::ranges::find(registry, name, &KernelFamily::name);
}

/// Largest |got - reference| over the largest |reference|.
double error_of(const Tensor& got, const Tensor& reference) {
  const std::vector<double> a = load<double>(got), b = load<double>(reference);
  double error = 0, range = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error = std::isfinite(a[i]) ? std::max(error, std::abs(a[i] - b[i])) : INFINITY;
    range = std::max(range, std::abs(b[i]));
  }
  return error / range;
}

void expect_right(const Plan& plan, const std::vector<Tensor>& inputs,
                  const std::vector<Tensor>& reference) {
  const CpuProgram program(plan);
  std::vector<const void*> in;
  for (const Tensor& input : inputs) in.push_back(input.data());
  std::vector<Tensor> results;
  std::vector<void*> out;
  for (const Tensor& tensor : reference) {
    results.push_back(Tensor::make(tensor.dtype(), tensor.shape()));
    std::fill_n(results.back().as<float>(), tensor.count(), NAN);
    out.push_back(results.back().data());
  }
  program.run(in, out);
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_LT(error_of(results[i], reference[i]), 2e-5) << print(plan);
}

/// All values of a plan's graph, by ValueId; copies that the planner added are what they copy.
std::vector<Tensor> values_of(const Plan& plan, Net& net) {
  const Graph graph = net.graph.compacted();
  std::vector<Tensor> values = interpret_all(graph, net.inputs(-1, 1));
  for (ValueId id = graph.value_count(); id < plan.graph.value_count(); ++id) {
    const std::string& name = plan.graph.value(id).name;
    ValueId from = 0;
    while (graph.value(from).name != name.substr(0, name.rfind(':'))) ++from;
    values.push_back(values[static_cast<std::size_t>(from)]);
  }
  return values;
}

class ChainRows : public ::testing::TestWithParam<std::string> {};

TEST_P(ChainRows, EveryTilingIsRight) {
  if (!cpu::force_isa(GetParam())) GTEST_SKIP() << "this machine has no " << GetParam();
  const Registry registry = cpu::registry();
  std::int64_t groups = 0, stored = 0;
  const bool vectors = GetParam() != "EMU128";  // it takes four times as long
  for (unsigned seed = 0; seed < (vectors ? 160U : 40U); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomChain chain(seed);
    const std::vector<Tensor> inputs = chain.net.inputs(-1, 1);
    const std::vector<Tensor> reference = interpret(chain.net.graph, inputs);
    Plan plan = eager_plan(chain.net, seed % 2 == 0 ? 1 : 2);
    for (KernelPlan& kernel : plan.kernels) {
      if (kernel.kind != KernelKind::kGroup) continue;
      ++groups;
      stored += std::ssize(kernel.group.outputs) - 1;
      const KernelFamily& family = family_named(registry, kernel.family);
      for (const Candidate& candidate : family.candidates(plan.graph, kernel.group, plan.device)) {
        kernel.candidate = candidate;
        expect_right(plan, inputs, reference);
        if (HasFailure()) break;
      }
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(groups, vectors ? 150 : 35);
  EXPECT_GT(stored, vectors ? 70 : 15);
  cpu::force_isa(cpu::supported_isas().front());
}

INSTANTIATE_TEST_SUITE_P(Isa, ChainRows, ::testing::Values("AVX3", "AVX2", "EMU128"),
                         [](const auto& isa) { return isa.param; });

/// Any tile of any group, with kernels or without, is computed from what the tile needs and no
/// more: what it does not need is NaN.
TEST(InterpretTiles, AnyTilingGivesTheInterpretersNumbers) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomChain chain(seed);
    Net& net = chain.net;
    Plan plan = eager_plan(net, 1);
    const std::vector<Tensor> values = values_of(plan, net);
    for (const KernelPlan& kernel : plan.kernels) {
      if (kernel.kind != KernelKind::kGroup) continue;
      const Shape& shape = plan.graph.value(kernel.group.outputs[0]).shape;
      for (int i = 0; i < 4; ++i) {
        const auto some = [&](std::int64_t extent) {
          return net.pick(std::min<std::int64_t>(3, extent), extent);
        };
        Tiling tiling{.rows = some(shape[2]), .columns = some(shape[3])};
        if (i % 2 == 1) tiling.band = net.pick(tiling.rows, shape[2]);
        const std::vector<Tensor> got = interpret_tiles(plan.graph, kernel.group, tiling, values);
        for (std::size_t o = 0; o < got.size(); ++o) {
          const Tensor& wanted = values[static_cast<std::size_t>(kernel.group.outputs[o])];
          EXPECT_THAT(load<double>(got[o]), Pointwise(Eq(), load<double>(wanted)))
              << tiling.rows << " x " << tiling.columns << ", bands of " << tiling.band << "\n"
              << print(plan);
        }
      }
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace braze::test
