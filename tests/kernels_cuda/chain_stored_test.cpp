// Chains whose intermediate results others read, too: each family stores them on the way. On the
// emulated GPU, against the interpreter; elements that nobody stores are not what it computes.
#include "exec/interpret_tiles.hpp"
#include "kernels_cuda/chain_check.hpp"
#include "kernels_cuda/nvrtc_for.hpp"

namespace braze::cuda::testing {
namespace {

using test::window2d;

struct Way {
  Row row;
  ChainCase of;
};
std::vector<Way> ways() {
  return {{chain_sm90(), {.sm = 90}},
          {chain_sm90(), {.dtype = DType::kBFloat16, .sm = 90, .units = 1}},
          {chain_sm80(), {.sm = 80}},
          {chain_portable(), {.sm = 75}},
          {chain_portable(), {.dtype = DType::kFloat32, .sm = 70}}};
}

void check(const std::function<void(ExactNet&)>& build, const std::string& first,
           const std::string& last, std::size_t most = 2) {
  for (Way& way : ways()) {
    SCOPED_TRACE(std::string(way.row.family.name) + " " + to_string(way.of.dtype));
    EXPECT_TRUE(way.row.family.stores);
    ExactNet net(5);
    build(net);
    way.of.most = most;
    check_group(net, first, last, way.of, way.row);
    if (::testing::Test::HasFailure()) return;
  }
}

ValueId relu(ExactNet& net, const std::string& id, ValueId x) {
  return net.unary(id, UnaryFn::kRelu, x);
}

TEST(CudaChainStored, OfEveryWindow) {
  BRAZE_NEEDS_EMULATOR();
  // The tile of the first result is larger than the last one's, at one or both sides, or begins
  // inside of the image.
  Window ahead = window2d(3);
  ahead.pads_begin = {2, 0}, ahead.pads_end = {0, 2};
  for (const Window& second : {window2d(1), window2d(3, 1), window2d(3), window2d(5, 2), ahead}) {
    check(
        [&second](ExactNet& net) {
          const ValueId x = net.image("x", {2, 24, 13, 19});
          const ValueId a = relu(net, "ra", net.conv("a", x, 72, window2d(3, 1)));
          net.output(a);
          net.output(relu(net, "rb", net.conv("b", a, 32, second)));
        },
        "a", "b");
    if (HasFailure()) return;
  }
}

TEST(CudaChainStored, ChannelsThatAreNoVectors) {
  BRAZE_NEEDS_EMULATOR();
  check(
      [](ExactNet& net) {
        const ValueId x = net.image("x", {1, 16, 11, 9});
        const ValueId a = relu(net, "ra", net.conv("a", x, 37, window2d(1)));
        net.output(a);
        net.output(net.conv("b", a, 24, window2d(3, 1)));
      },
      "a", "b");
}

TEST(CudaChainStored, SeveralAndResiduals) {
  BRAZE_NEEDS_EMULATOR();
  check(
      [](ExactNet& net) {
        const ValueId x = net.image("x", {1, 40, 12, 12});
        const ValueId a = relu(net, "ra", net.add("sa", net.conv("a", x, 40, window2d(1)), x));
        const ValueId b = relu(net, "rb", net.conv("b", a, 40, window2d(3, 1)));
        net.output(relu(net, "rc", net.add("sc", net.conv("c", b, 40, window2d(1)), a)));
        net.output(a);
        net.output(b);
      },
      "a", "c");
}

TEST(CudaChainStored, DepthwiseAndStrides) {
  BRAZE_NEEDS_EMULATOR();
  check(
      [](ExactNet& net) {
        const ValueId x = net.image("x", {1, 24, 21, 18});
        const ValueId d = relu(net, "rd", net.conv("d", x, 24, window2d(3, 1, 2), 24));
        net.output(d);
        net.output(net.conv("b", d, 48, window2d(1)));
      },
      "d", "b");
}

TEST(CudaChainStored, OfMatrices) {
  BRAZE_NEEDS_EMULATOR();
  check(
      [](ExactNet& net) {
        const ValueId x = net.image("x", {301, 64});
        const ValueId a = relu(net, "ra", net.gemm("a", x, 72));
        net.output(a);
        net.output(relu(net, "rb", net.gemm("b", a, 40)));
      },
      "a", "b");
}

TEST(CudaChainStored, TileByTileAsPlanned) {
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.row.family.name);
    ExactNet net(3);
    const ValueId x = net.image("x", {1, 16, 15, 13});
    const ValueId a = relu(net, "ra", net.conv("a", x, 24, window2d(3, 1)));
    net.output(a);
    net.output(net.conv("b", a, 16, window2d(5)));
    const Plan plan = plan_of_parts(net.graph, way.of.dtype, way.of.sm);
    const Group group = chain_group(plan, "a", "b");
    std::vector<Tensor> inputs = net.exact_inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = cast(inputs[i], plan.graph.value(plan.graph.inputs[i]).dtype);
    const std::vector<Tensor> values = interpret_all(plan.graph, inputs);
    for (const Candidate& candidate : way.row.family.candidates(plan.graph, group, plan.device)) {
      const Tiling tiling = way.row.family.tiling(plan.graph, group, candidate, plan.device);
      const std::vector<Tensor> got = interpret_tiles(plan.graph, group, tiling, values);
      ASSERT_EQ(got.size(), 2U);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const Tensor& want = values[static_cast<std::size_t>(group.outputs[i])];
        expect_same(cast(got[i], DType::kFloat32), cast(want, DType::kFloat32));
      }
    }
  }
}

TEST(CudaChainStored, CompilesForAnSm90) {
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(90, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::vector<std::string> sources;
  for (const std::int64_t channels : {64, 37}) {
    ExactNet net;
    const ValueId x = net.image("x", {8, 64, 56, 56});
    const ValueId a = relu(net, "ra", net.conv("a", x, channels, window2d(3, 1)));
    net.output(a);
    net.output(net.conv("b", a, 64, window2d(3, 1)));
    const Row row = chain_sm90();
    Plan plan = plan_of_parts(net.graph, DType::kFloat16, 90);
    const Group group = chain_group(plan, "a", "b");
    set_layouts(plan, group, row.family);
    plan.kernels.resize(1);
    plan.kernels[0].group = group;
    plan.kernels[0].family = row.family.name;
    plan.kernels[0].candidate = row.family.candidates(plan.graph, group, plan.device).front();
    sources.push_back(row.build(plan, plan.kernels[0]).source);
    EXPECT_NE(sources.back().find(channels == 64 ? "Store::kVector" : "Store::kEach"),
              std::string::npos);
  }
  NvrtcCompiler compiler(nvrtc, 90, device_headers());
  EXPECT_EQ(compiler.compile(sources).size(), sources.size());
}

}  // namespace
}  // namespace braze::cuda::testing
