// Products of matrices one after another as one kernel, by each family of chains, on the emulated
// GPU against the interpreter; and their sources, for a real compiler.
#include "exec/interpret_tiles.hpp"
#include "kernels_cuda/chain_check.hpp"
#include "kernels_cuda/nvrtc_for.hpp"

namespace braze::cuda::testing {
namespace {

/// What runs products: a family, on an architecture that it is for.
struct Way {
  Row row;
  ChainCase of;
};
std::vector<Way> ways() {
  std::vector<Way> all = {{chain_sm90(), {.sm = 90}},
                          {chain_sm90(), {.dtype = DType::kBFloat16, .sm = 90}},
                          {chain_sm80(), {.sm = 80}},
                          {chain_sm80(), {.dtype = DType::kFloat32, .sm = 80, .tf32 = true}},
                          {chain_portable(), {.sm = 75}},
                          {chain_portable(), {.dtype = DType::kFloat32, .sm = 70}}};
  return all;
}

/// Runs the products between `first` and `last` in every way; `build` makes the network.
void check(const std::function<void(ExactNet&)>& build, const std::string& first,
           const std::string& last, std::size_t most = 2) {
  for (Way& way : ways()) {
    SCOPED_TRACE(std::string(way.row.family.name) + " " + to_string(way.of.dtype));
    ExactNet net(7);
    build(net);
    way.of.most = most;
    check_group(net, first, last, way.of, way.row);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(CudaChainGemm, TwoProducts) {
  BRAZE_NEEDS_EMULATOR();
  check(
      [](ExactNet& net) {
        const ValueId x = net.image("x", {300, 72});
        const ValueId a = net.unary("ra", UnaryFn::kRelu, net.gemm("a", x, 40));
        net.output(net.unary("rb", UnaryFn::kRelu, net.gemm("b", a, 104)));
      },
      "a", "b", 3);
}

TEST(CudaChainGemm, OfEverySpelling) {
  BRAZE_NEEDS_EMULATOR();
  check(
      [](ExactNet& net) {
        const ValueId x = net.image("x", {77, 24});
        const ValueId a = net.clip("ca", net.gemm("a", x, 36, false), -3, 6);
        const ValueId b = net.add("bias", net.matmul("b", a, 80), net.exact({80}, 3));
        const ValueId row = net.exact({1, 20}, 3);  // as many as columns
        net.output(net.unary("rc", UnaryFn::kRelu, net.add("row", net.matmul("c", b, 20), row)));
      },
      "a", "c");
}

TEST(CudaChainGemm, Residuals) {
  BRAZE_NEEDS_EMULATOR();
  check(
      [](ExactNet& net) {
        const ValueId x = net.image("x", {130, 64});
        const ValueId other = net.image("other", {130, 48});
        const ValueId a = net.add("sa", net.gemm("a", x, 48), other);
        const ValueId b = net.unary("rb", UnaryFn::kRelu, net.add("sb", net.gemm("b", a, 48), a));
        net.output(net.unary("rc", UnaryFn::kRelu, net.add("sc", net.gemm("c", b, 64), x)));
      },
      "a", "c");
}

TEST(CudaChainGemm, FewRows) {
  BRAZE_NEEDS_EMULATOR();
  for (const std::int64_t rows : {1, 2, 9}) {
    check(
        [rows](ExactNet& net) {
          const ValueId x = net.image("x", {rows, 32});
          net.output(net.gemm("b", net.unary("r", UnaryFn::kRelu, net.gemm("a", x, 72)), 10));
        },
        "a", "b", 1);
    if (HasFailure()) return;
  }
}

TEST(CudaChainGemm, ManyTilesInOneBlock) {
  BRAZE_NEEDS_EMULATOR();
  for (const int sm : {90, 80, 75}) {
    ExactNet net(sm);
    const ValueId x = net.image("x", {1500, 136});
    const ValueId a = net.unary("ra", UnaryFn::kRelu, net.gemm("a", x, 64));
    net.output(net.unary("rb", UnaryFn::kRelu, net.gemm("b", a, 128)));
    const ChainCase of{.sm = sm, .units = 1};
    check_group(net, "a", "b", of, sm == 90 ? chain_sm90() : chain_row(of));
    if (HasFailure()) return;
  }
}

TEST(CudaChainGemm, ABiasThatArrivesAtRunTime) {
  BRAZE_NEEDS_EMULATOR();
  check(
      [](ExactNet& net) {
        const ValueId x = net.image("x", {50, 32}), bias = net.image("bias", {1, 40});
        const ValueId w = net.constant({32, 40}, std::vector<double>(32 * 40, 1));
        const ValueId a = net.op("a", Gemm{}, {x, w, bias});
        net.output(net.gemm("b", a, 16));
      },
      "a", "b", 1);
}

TEST(CudaChainGemm, TileByTileAsPlanned) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.row.family.name);
    ExactNet net(3);
    const ValueId x = net.image("x", {531, 24});
    const ValueId a = net.unary("ra", UnaryFn::kRelu, net.gemm("a", x, 40));
    net.output(net.add("s", net.gemm("b", a, 24), x));
    const Plan plan = plan_of_parts(net.graph, way.of.dtype, way.of.sm);
    const Group group = chain_group(plan, "a", "b");
    std::vector<Tensor> inputs = net.exact_inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = cast(inputs[i], plan.graph.value(plan.graph.inputs[i]).dtype);
    const std::vector<Tensor> values = interpret_all(plan.graph, inputs);
    const Tensor& want = values[static_cast<std::size_t>(group.outputs[0])];
    for (const Candidate& candidate : way.row.family.candidates(plan.graph, group, plan.device)) {
      const Tiling tiling = way.row.family.tiling(plan.graph, group, candidate, plan.device);
      const std::vector<Tensor> got = interpret_tiles(plan.graph, group, tiling, values);
      expect_same(cast(got.at(0), DType::kFloat32), cast(want, DType::kFloat32));
    }
  }
}

TEST(CudaChainGemm, CompilesForEachArchitecture) {
  for (const int sm : {70, 75, 80, 86, 89, 90}) {
    std::string why;
    const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(sm, why);
    if (nvrtc == nullptr) {
      if (sm > 70) GTEST_SKIP() << why;  // NVRTC 13 knows no sm_70
      continue;
    }
    ExactNet net;
    const ValueId x = net.image("x", {81920, 576});
    const ValueId a = net.unary("ra", UnaryFn::kRelu, net.gemm("a", x, 64));
    net.output(net.unary("rb", UnaryFn::kRelu, net.gemm("b", a, 128)));
    const Row row = sm == 90 ? chain_sm90() : chain_row({.sm = sm});
    Plan plan = plan_of_parts(net.graph, DType::kFloat16, sm);
    const Group group = chain_group(plan, "a", "b");
    plan.kernels.resize(1);
    plan.kernels[0].group = group;
    plan.kernels[0].family = row.family.name;
    plan.kernels[0].candidate = row.family.candidates(plan.graph, group, plan.device).front();
    NvrtcCompiler compiler(nvrtc, sm, device_headers());
    const std::vector<std::string> sources = {row.build(plan, plan.kernels[0]).source};
    EXPECT_EQ(compiler.compile(sources).size(), 1U);
  }
}

}  // namespace
}  // namespace braze::cuda::testing
