// Tensors of more than 2^31 elements on a real GPU; and more than it has memory for.
#include "gpu/on_gpu.hpp"

namespace braze::test {
namespace {

constexpr std::int64_t kImages = 2056, kChannels = 16;

/// Images of shape `from`, each pixel repeated. A shape needs sizes and scales; what a model says
/// is one of them.
ValueId repeat(Net& net, const Shape& from, const Shape& to) {
  Resize resize;
  resize.mode = ResizeMode::kNearest;
  resize.sizes = to;
  for (std::size_t i = 0; i < from.size(); ++i)
    resize.scales.push_back(static_cast<double>(to[i] / from[i]));
  resize.roi = {0, 0, 0, 0, 1, 1, 1, 1};
  const ValueId y = net.op("resize", resize, {net.input("x", from)});
  net.graph.node(net.graph.producer(y)).as<Resize>()->sizes.clear();
  return y;
}

/// relu, conv 1x1, pool, depthwise conv, transposition and mean of images that are all one colour:
/// so what comes out is what comes of images of one pixel.
Net flat_images(std::int64_t extent, std::int64_t scale) {
  Net net(7);
  const Shape from{kImages, kChannels, extent, extent};
  ValueId x = scale > 1 ? repeat(net, from, {kImages, kChannels, extent * scale, extent * scale})
                        : net.input("x", from);
  x = net.unary("exp", UnaryFn::kTanh, x);
  x = net.conv("conv", x, kChannels, window2d(1));
  x = net.op("pool", Pool{PoolFn::kMax, scale > 1 ? window2d(3, 1) : window2d(1)}, {x});
  x = net.add("sum", x, net.conv("conv2", x, kChannels, window2d(1)));
  x = net.transpose("turn", x, {0, 1, 3, 2});
  net.output(net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {x}));
  return net;
}

TEST(LargeOnGpu, IsPlannedWithoutAGpu) {
  Options options;
  options.device = "cuda:sm_90";
  options.precision = Precision::kFp16;
  options.plan_only = true;
  const Net large = flat_images(1, 256);
  EXPECT_GT(compile_for(select_machine(options), large.graph, options).plan().peak_bytes,
            std::int64_t{1} << 32);
}

TEST(LargeOnGpu, TensorsOfMoreThan2To31ElementsAreRight) {
  BRAZE_NEEDS_GPU();
  static_assert(kImages * kChannels * 256 * 256 > (std::int64_t{1} << 31));
  const Net large = flat_images(1, 256), small = flat_images(1, 1);
  std::optional<Model> model;
  try {
    model = compile_on("cuda", large, Precision::kFp16);
  } catch (const Exception& exception) {
    if (exception.error().code == ErrorCode::kOutOfMemory) GTEST_SKIP() << exception.what();
    throw;
  }
  const Model reference = compile_on("cpu", small, Precision::kFp32);
  const std::vector<Tensor> inputs = random_inputs(reference);
  const Tensor want = run(reference, inputs)[0];
  const Tensor have = run(*model, inputs)[0];
  ASSERT_EQ(have.shape(), want.shape());
  for (std::int64_t i = 0; i < want.count(); ++i)
    ASSERT_NEAR(have.as<float>()[i], want.as<float>()[i], 0.02) << i;
}

TEST(LargeOnGpu, MoreThanThereIsIsOneClearError) {
  BRAZE_NEEDS_GPU();
  Net net;
  const ValueId x = repeat(net, {1, 1024, 1, 1}, {1, 1024, 65536, 16384});
  net.output(net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {x}));
  try {
    compile_on("cuda", net, Precision::kFp32);
    FAIL() << "4 TiB were found";
  } catch (const Exception& exception) {
    EXPECT_EQ(exit_code(exception.error().code), 4);
    EXPECT_NE(std::string(exception.what()).find("MiB left for intermediate values"),
              std::string::npos)
        << exception.what();
  }
}

}  // namespace
}  // namespace braze::test
