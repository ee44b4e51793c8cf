// Tensors of more than 2^31 elements on a real GPU; and more than it has memory for.
#include "gpu/on_gpu.hpp"

namespace braze::test {
namespace {

constexpr std::int64_t kImages = 2056, kChannels = 16;

/// relu, conv 1x1, pool, depthwise conv, transposition and mean of images that are all one colour:
/// so what comes out is what comes of images of one pixel.
Net flat_images(std::int64_t extent, std::int64_t scale) {
  Net net(7);
  ValueId x = net.input("x", {kImages, kChannels, extent, extent});
  if (scale > 1) {
    Resize resize;
    resize.mode = ResizeMode::kNearest;
    resize.sizes = {kImages, kChannels, extent * scale, extent * scale};
    resize.scales = {1, 1, static_cast<double>(scale), static_cast<double>(scale)};
    resize.roi = {0, 0, 0, 0, 1, 1, 1, 1};
    x = net.op("resize", resize, {x});
  }
  x = net.unary("exp", UnaryFn::kTanh, x);
  x = net.conv("conv", x, kChannels, window2d(1));
  x = net.op("pool", Pool{PoolFn::kMax, scale > 1 ? window2d(3, 1) : window2d(1)}, {x});
  x = net.add("sum", x, net.conv("conv2", x, kChannels, window2d(1)));
  x = net.transpose("turn", x, {0, 1, 3, 2});
  net.output(net.op("mean", Reduce{ReduceFn::kMean, {2, 3}, true, false, false}, {x}));
  return net;
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
  Resize resize;
  resize.mode = ResizeMode::kNearest;
  resize.sizes = {1, 1024, 65536, 16384};
  resize.scales = {1, 1, 65536, 16384};
  resize.roi = {0, 0, 0, 0, 1, 1, 1, 1};
  const ValueId x = net.op("resize", resize, {net.input("x", {1, 1024, 1, 1})});
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
