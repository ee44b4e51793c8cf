// Branches that run at once on a real GPU: the same bits as one kernel after the other, however
// often.
#include <cstring>
#include <set>

#include "gpu/on_gpu.hpp"

namespace braze::test {
namespace {

/// A stem, then `branches` towers of small convolutions of different lengths, joined by channels.
Net towers(unsigned seed, int branches) {
  Net net(seed);
  ValueId x = net.unary("stem_relu", UnaryFn::kRelu,
                        net.conv("stem", net.input("x", {1, 16, 14, 14}), 64, window2d(3, 1)));
  for (int block = 0; block < 2; ++block) {
    std::vector<ValueId> ends;
    for (int b = 0; b < branches; ++b) {
      ValueId y = x;
      const std::int64_t length = net.pick(5, 9);
      for (std::int64_t i = 0; i < length; ++i) {
        const std::string id = fmt::format("b{}_{}_{}", block, b, i);
        switch (net.pick(0, 3)) {
          case 0:
            y = net.op(id, Pool{PoolFn::kMax, window2d(3, 1)}, {y});
            break;
          case 1:
            y = net.conv(id, y, net.shape(y)[1], window2d(3, 1), net.shape(y)[1]);
            break;
          default:
            y = net.unary(id + "r", UnaryFn::kSilu, net.conv(id, y, 32, window2d(3, 1)));
            break;
        }
      }
      ends.push_back(y);
    }
    x = net.op(fmt::format("join{}", block), Concat{1}, ends);
  }
  net.output(net.conv("last", x, 32, window2d(1)));
  return net;
}

TEST(BranchesOnGpu, GiveTheSameBitsAsOneByOne) {
  BRAZE_NEEDS_GPU();
  int parallel = 0;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    Net net = towers(seed, 2 + static_cast<int>(seed % 3));
    const Precision precision = seed % 2 == 0 ? Precision::kFp16 : Precision::kFp32;
    const Model one = compile_on("cuda", net, precision, 1);
    const Model several = compile_on("cuda", net, precision);
    std::set<int> streams;
    for (const KernelSummary& kernel : several.plan().kernels) streams.insert(kernel.stream);
    if (streams.size() > 1) ++parallel;
    const std::vector<Tensor> inputs = random_inputs(one);
    const std::vector<Tensor> want = run(one, inputs);
    for (int round = 0; round < 200; ++round) {
      const std::vector<Tensor> got = run(several, inputs);
      ASSERT_EQ(std::memcmp(got[0].data(), want[0].data(), want[0].bytes()), 0)
          << "seed " << seed << ", round " << round;
    }
    const Result<VerifyReport> report = several.verify(inputs, true);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->ok());
  }
  EXPECT_GT(parallel, 0);
}

}  // namespace
}  // namespace braze::test
