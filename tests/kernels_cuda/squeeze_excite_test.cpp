// Squeeze and excitation as one kernel on the emulated GPU, however it is split over blocks,
// against the interpreter in fp32; and its sources, for real compilers.
#include <algorithm>

#include "kernels_cuda/nvrtc_for.hpp"
#include "kernels_cuda/one_kernel.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::cuda::testing {
namespace {

using test::Net;
using test::window2d;

struct Block {
  Shape image;  // [n, c, h, w]
  std::int64_t hidden = 8;
  DType dtype = DType::kFloat16;
  UnaryFn squeeze = UnaryFn::kRelu, excite = UnaryFn::kSigmoid;
  bool gemm = false;         // Gemm for the products, else Conv
  bool mean_stored = false;  // is a graph output too: not of the group
  bool gate_stored = false;  // likewise
  bool channels_last = true;
  bool then = false;  // an operation behind the scaling
  int sm = 90;
};

/// Multiples of 1/32 from -1 to 1: exact in every float type.
ValueId grid(Net& net, const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (double& value : values) value = static_cast<double>(net.pick(-32, 32)) / 32;
  return net.constant(shape, values);
}

ValueId product(Net& net, const std::string& name, ValueId x, std::int64_t outputs, bool gemm) {
  const std::int64_t inputs = net.shape(x)[1];
  const ValueId bias = grid(net, {outputs});
  if (gemm) {
    const bool turned = net.pick(0, 1) == 1;
    return net.op(name, Gemm{.alpha = 1, .beta = turned ? 1.0 : 0.5, .trans_b = turned},
                  {x, grid(net, turned ? Shape{outputs, inputs} : Shape{inputs, outputs}), bias});
  }
  return net.op(name, Conv{window2d(1), 1}, {x, grid(net, {outputs, inputs, 1, 1}), bias});
}

/// `stored_as`: the type that a mean in memory has.
Net build(const Block& block, unsigned seed, DType stored_as = DType::kFloat32) {
  Net net(seed);
  ValueId x = net.input("in", block.image);
  // What a kernel makes may lie channels-last; the graph's inputs do not.
  if (block.channels_last) x = net.unary("x", UnaryFn::kRelu, x);
  ValueId mean = net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, !block.gemm, false, false}, {x});
  if (block.mean_stored) net.output(mean);
  if (block.mean_stored && stored_as != DType::kFloat32)
    mean = net.op("again", Cast{DType::kFloat32}, {net.op("rounded", Cast{stored_as}, {mean})});
  const ValueId h =
      net.unary("h", block.squeeze, product(net, "fc1", mean, block.hidden, block.gemm));
  ValueId gate =
      net.unary("g", block.excite, product(net, "fc2", h, block.image[1], block.gemm), 0.2, 0.5);
  if (block.gate_stored) net.output(gate);
  if (block.gemm) gate = net.reshape("gate", gate, {block.image[0], block.image[1], 1, 1});
  ValueId y = net.mul("y", gate, x);
  if (block.then) y = net.add("plus", y, grid(net, {block.image[1], 1, 1}));
  net.output(y);
  return net;
}

/// The registry, in which everything takes an hour but squeeze and excitation.
Registry reluctant() {
  Registry registry = cuda::registry();
  for (KernelFamily& family : registry) {
    if (family.joins != nullptr) continue;
    family.work = [](const Graph&, const Group&, const Candidate&, const braze::Device&) {
      return Work{.flops = 1, .efficiency = 1e-20};
    };
  }
  return registry;
}

const KernelPlan& joined(const Plan& plan) {
  const auto found = std::ranges::find_if(
      plan.kernels, [](const KernelPlan& kernel) { return kernel.kind == KernelKind::kGroup; });
  if (found == plan.kernels.end()) throw std::runtime_error("no group: " + print(plan));
  return *found;
}

/// Runs the group with every candidate, or with `most` of them.
void check(const Block& block, unsigned seed, std::size_t most = 100) {
  Net net = build(block, seed);
  const std::vector<Tensor> inputs = [&] {
    std::vector<float> values(static_cast<std::size_t>(element_count(block.image)));
    for (float& value : values) value = static_cast<float>(net.pick(-16, 32)) / 16.0F;
    return std::vector{make_tensor<float>(DType::kFloat32, block.image, values)};
  }();
  const Net reference = build(block, seed, block.dtype);
  const std::vector<Tensor> want = interpret_all(reference.graph, inputs);
  std::map<std::string, Tensor> wanted;
  for (ValueId id = 0; id < reference.graph.value_count(); ++id)
    wanted[reference.graph.value(id).name] = want[static_cast<std::size_t>(id)];
  if (block.dtype != DType::kFloat32) lower_precision(net.graph, block.dtype, true);
  const Plan plan =
      make_plan(net.graph, cuda_device(block.sm), {FusionLevel::kFull, false}, reluctant());
  const KernelPlan& group = joined(plan);

  const Row row = squeeze_excite();
  std::vector<Candidate> candidates = row.family.candidates(plan.graph, group.group, plan.device);
  ASSERT_FALSE(candidates.empty());
  std::mt19937 random(seed);
  std::shuffle(candidates.begin(), candidates.end(), random);
  candidates.resize(std::min(candidates.size(), most));
  for (const Candidate& candidate : candidates) {
    Plan one = plan;
    one.kernels = {group};
    one.kernels[0].candidate = candidate;
    std::vector<Tensor> in;
    for (const ValueId id : group.group.inputs) {
      const Value& value = plan.graph.value(id);
      in.push_back(cast(wanted.at(value.name), value.dtype));
    }
    const std::vector<Tensor> got = run_on_gpu(one, row, in);
    ASSERT_EQ(got.size(), 1U);
    const Value& result = plan.graph.value(group.group.outputs[0]);
    const double unit = result.dtype == DType::kFloat32   ? 1e-5
                        : result.dtype == DType::kFloat16 ? 0x1.1p-11
                                                          : 0x1.1p-8;
    // The result is rounded once, what is wanted not at all.
    within(2e-5, unit)(cast(got[0], DType::kFloat32), wanted.at(result.name));
    if (::testing::Test::HasFailure()) FAIL() << print(one);
  }
}

TEST(CudaSqueezeExcite, EverySplitOfAnImage) {
  BRAZE_NEEDS_EMULATOR();
  check({.image = {1, 72, 6, 5}, .hidden = 12}, 1);
}

TEST(CudaSqueezeExcite, EveryFloatType) {
  BRAZE_NEEDS_EMULATOR();
  check({.image = {2, 40, 7, 7}, .hidden = 10, .dtype = DType::kFloat32}, 2, 4);
  check({.image = {2, 40, 7, 7}, .hidden = 10, .dtype = DType::kBFloat16}, 3, 4);
}

TEST(CudaSqueezeExcite, WithoutTheMeanOrTheScaling) {
  BRAZE_NEEDS_EMULATOR();
  check({.image = {2, 64, 9, 5}, .mean_stored = true}, 4, 6);
  check({.image = {2, 64, 9, 5}, .gate_stored = true}, 5, 6);
  check({.image = {3, 64, 9, 5}, .mean_stored = true, .gate_stored = true}, 6);
}

TEST(CudaSqueezeExcite, ProductsAreMatrices) {
  BRAZE_NEEDS_EMULATOR();
  check({.image = {3, 48, 5, 5}, .gemm = true}, 7, 4);
  check({.image = {3, 48, 5, 5}, .gemm = true, .mean_stored = true}, 8, 3);
  check({.image = {3, 48, 5, 5}, .gemm = true, .gate_stored = true}, 9, 3);
}

TEST(CudaSqueezeExcite, OtherActivationsAndWhatFollows) {
  BRAZE_NEEDS_EMULATOR();
  check({.image = {1, 24, 8, 8},
         .squeeze = UnaryFn::kHardSwish,
         .excite = UnaryFn::kHardSigmoid,
         .then = true},
        10, 5);
}

TEST(CudaSqueezeExcite, ModelLayout) {
  BRAZE_NEEDS_EMULATOR();
  check({.image = {2, 20, 6, 7}, .channels_last = false}, 11, 4);
}

TEST(CudaSqueezeExcite, WithoutClusters) {
  BRAZE_NEEDS_EMULATOR();
  check({.image = {2, 32, 6, 7}, .sm = 80}, 12);
  check({.image = {2, 32, 6, 7}, .mean_stored = true, .sm = 75}, 13);
}

TEST(CudaSqueezeExcite, AnImageThatDoesNotStayInSharedMemory) {
  BRAZE_NEEDS_EMULATOR();
  check({.image = {1, 16, 80, 80}, .sm = 75}, 14, 1);
}

TEST(CudaSqueezeExcite, RandomSizes) {
  BRAZE_NEEDS_EMULATOR();
  std::mt19937 random(15);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (unsigned seed = 100; seed < 112; ++seed) {
    const Block block{.image = {pick(1, 3), pick(1, 150), pick(1, 12), pick(1, 12)},
                      .hidden = pick(1, 20),
                      .dtype = seed % 3 == 0 ? DType::kFloat32 : DType::kFloat16,
                      .gemm = seed % 4 == 0,
                      .mean_stored = seed % 5 == 0,
                      .gate_stored = seed % 7 == 0,
                      .channels_last = seed % 6 != 0};
    SCOPED_TRACE(braze::to_string(block.image));
    check(block, seed, 2);
    if (HasFatalFailure()) return;
  }
}

TEST(CudaSqueezeExcite, CompilesForEveryArchitecture) {
  for (const int sm : {70, 75, 80, 90}) {
    std::string why;
    const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(sm, why);
    if (nvrtc == nullptr) continue;  // compile_test.cpp says so
    std::set<std::string> sources;
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      for (const bool stored : {false, true}) {
        Net net = build({.image = {1, 96, 14, 14}, .mean_stored = stored, .then = stored}, 1);
        if (dtype != DType::kFloat32) lower_precision(net.graph, dtype, true);
        Plan plan = make_plan(net.graph, cuda_device(sm), {FusionLevel::kFull, false}, reluctant());
        KernelPlan group = joined(plan);
        const Row row = squeeze_excite();
        for (Candidate& candidate : row.family.candidates(plan.graph, group.group, plan.device)) {
          if (sources.size() % 3 != 0 && dtype == DType::kBFloat16) continue;
          group.candidate = std::move(candidate);
          sources.insert(row.build(plan, group).source);
        }
      }
    }
    const std::vector<std::string> list(sources.begin(), sources.end());
    NvrtcCompiler compiler(nvrtc, sm, device_headers());
    EXPECT_EQ(compiler.compile(list).size(), list.size());
  }
}

}  // namespace
}  // namespace braze::cuda::testing
