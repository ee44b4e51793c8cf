// Random chains of convolutions on a real GPU, each as one kernel, against the interpreter.
#include <set>

#include "gpu/on_gpu.hpp"
#include "graph/interpret.hpp"
#include "kernels/cuda/families.hpp"
#include "kernels_cuda/random_chain.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

/// The registry, in which everything takes an hour but this family.
Registry only(std::string_view chains) {
  Registry registry = cuda::registry();
  for (KernelFamily& family : registry) {
    if (family.name == chains) continue;
    family.joins = nullptr;
    family.work = [](const Graph&, const Group&, const Candidate&, const Device&) {
      return Work{.flops = 1, .efficiency = 1e-20};
    };
  }
  return registry;
}

/// How many chains, out of how many sources; of a GPU with so many multiprocessors that each has
/// several tiles (0: as many as there are).
struct Amount {
  int chains = 2000;
  std::size_t sources = 60;
  int units = 0;
};

void check_many(DType dtype, Precision precision, std::string_view family,
                const Amount& amount = {}) {
  const unsigned most_seeds = 20 * static_cast<unsigned>(amount.chains);
  Options options;
  options.device = "cuda";
  options.precision = precision;
  Machine machine = select_machine(options);
  machine.registry = only(family);
  machine.alternatives.clear();
  machine.name.clear();
  if (amount.units > 0) machine.device.units = amount.units;
  std::set<std::string> sources;
  int run_so_far = 0;
  for (unsigned seed = 1; seed <= most_seeds && run_so_far < amount.chains; ++seed) {
    cuda::testing::RandomChain chain(seed, dtype);
    Graph graph = chain.net.graph;
    if (dtype != DType::kFloat32) lower_precision(graph, dtype, true);
    Device device = machine.device;
    device.tf32 = false;
    const Plan plan = make_plan(graph, device, {FusionLevel::kFull, false}, machine.registry);
    std::set<std::string> all = sources;
    bool joined = false;
    for (const KernelPlan& kernel : plan.kernels) {
      if (kernel.family != family) continue;
      joined = true;
      all.insert(cuda::builder(family)(plan, kernel).source);
    }
    if (!joined || all.size() > amount.sources) continue;
    sources = std::move(all);
    ++run_so_far;
    const std::vector<Tensor> inputs = chain.net.exact_inputs();
    const Tensor want = interpret(chain.net.graph, inputs)[0];
    const Tensor have = run(compile_for(machine, chain.net.graph, options), inputs)[0];
    ASSERT_EQ(have.shape(), want.shape());
    for (std::int64_t i = 0; i < want.count(); ++i)
      ASSERT_EQ(have.as<float>()[i], want.as<float>()[i]) << "seed " << seed << ", element " << i;
  }
  EXPECT_EQ(run_so_far, amount.chains) << sources.size() << " sources";
}

TEST(ChainsOnGpu, OfHalfPrecision) {
  BRAZE_NEEDS_GPU();
  Options options;
  options.device = "cuda";
  const bool mma = select_machine(options).device.sm >= 80;
  check_many(DType::kFloat16, Precision::kFp16, mma ? "chain_sm80" : "chain_portable");
}

TEST(ChainsOnGpu, OfWarpgroups) {
  BRAZE_NEEDS_GPU();
  Options options;
  options.device = "cuda";
  if (select_machine(options).device.sm < 90) GTEST_SKIP() << "no wgmma before sm_90";
  // The size of a tile is part of its source.
  check_many(DType::kFloat16, Precision::kFp16, "chain_sm90",
             {.chains = 40, .sources = 40, .units = 1});
}

TEST(ChainsOnGpu, OfFloats) {
  BRAZE_NEEDS_GPU();
  check_many(DType::kFloat32, Precision::kFp32, "chain_portable");
}

}  // namespace
}  // namespace braze::test
