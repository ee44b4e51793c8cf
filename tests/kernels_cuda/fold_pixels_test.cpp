// Chains of few channels whose adjacent pixels are one, on the emulated GPU against the
// interpreter.
#include "kernels/cuda/fold_pixels.hpp"

#include "kernels_cuda/chain_check.hpp"

namespace braze::cuda::testing {
namespace {

using test::window2d;

Row folded_chains() {
  Row row = chain_sm90();
  row.family.candidates = [](const Graph& graph, const Group& group, const Device& device) {
    std::vector<Candidate> list = chain_sm90().family.candidates(graph, group, device);
    std::erase_if(list, [](const Candidate& one) { return one.get("fold", 1) == 1; });
    return list;
  };
  return row;
}

/// Runs the chain from `first` to `last` with `most` candidates that make one pixel of `times`.
void check(ExactNet& net, const std::string& first, const std::string& last, std::int64_t times,
           const ChainCase& of = {.sm = 90}) {
  const Plan plan = plan_of_parts(net.graph, of.dtype, of.sm);
  ASSERT_EQ(foldable_pixels(plan.graph, chain_group(plan, first, last), 64), times);
  check_group(net, first, last, of, folded_chains());
}

Window window(std::array<std::int64_t, 2> kernel, std::array<std::int64_t, 2> begin,
              std::array<std::int64_t, 2> end, std::int64_t row_dilation = 1) {
  Window w = window2d(1);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    w.kernel[axis] = kernel[axis];
    w.pads_begin[axis] = begin[axis];
    w.pads_end[axis] = end[axis];
  }
  w.dilations[0] = row_dilation;
  return w;
}

TEST(FoldPixels, Pointwise) {
  BRAZE_NEEDS_EMULATOR();
  ExactNet net(1);
  const ValueId x = net.image("x", {2, 16, 9, 28});
  const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", x, 16, window2d(1)));
  net.output(net.unary("rb", UnaryFn::kRelu, net.conv("b", a, 8, window2d(1))));
  check(net, "a", "b", 4);
}

TEST(FoldPixels, FiltersThatReachOverPixels) {
  BRAZE_NEEDS_EMULATOR();
  ExactNet same(2);
  const ValueId x = same.image("x", {1, 32, 15, 14});
  const ValueId a = same.unary("ra", UnaryFn::kRelu, same.conv("a", x, 24, window2d(3, 1)));
  same.output(same.unary("rb", UnaryFn::kRelu, same.conv("b", a, 32, window2d(3, 1))));
  check(same, "a", "b", 2);

  // Wider than the pixels that are one.
  ExactNet wide(3);
  const ValueId y = wide.image("x", {1, 8, 11, 24});
  const ValueId c = wide.unary("ra", UnaryFn::kRelu, wide.conv("a", y, 8, window2d(7, 3)));
  wide.output(wide.conv("b", c, 8, window({3, 1}, {2, 0}, {2, 0}, 2)));
  check(wide, "a", "b", 8);
}

TEST(FoldPixels, PaddingsOfEachSide) {
  BRAZE_NEEDS_EMULATOR();
  ExactNet net(4);
  const ValueId x = net.image("x", {1, 16, 9, 20});
  const ValueId a = net.conv("a", x, 13, window({3, 5}, {0, 0}, {1, 0}));            // 16
  const ValueId b = net.conv("b", a, 16, window({2, 4}, {1, 5}, {0, 2}));            // 20
  net.output(net.unary("rc", UnaryFn::kRelu, net.conv("c", b, 8, window2d(3, 0))));  // 18
  check(net, "a", "c", 2);
}

TEST(FoldPixels, EpiloguesAndResiduals) {
  BRAZE_NEEDS_EMULATOR();
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    ExactNet net(5);
    const ValueId x = net.image("x", {1, 16, 10, 16}), other = net.image("z", {1, 16, 10, 16});
    const ValueId scale = net.constant(
        {16, 1, 1}, std::vector<double>{1, 2, 1, -1, 1, 1, 2, 1, 1, 1, -2, 1, 1, 1, 1, 2});
    const ValueId a = net.clip(
        "ca", net.mul("scaled", net.conv("a", x, 16, window2d(3, 1), 1, true, 2), scale), -3, 6);
    const ValueId half = net.constant({}, {0.5});
    const ValueId b =
        net.mul("half", net.add("sb", net.conv("b", a, 16, window2d(1)), other), half);
    net.output(net.unary("rc", UnaryFn::kRelu,
                         net.add("sc", net.conv("c", b, 16, window2d(3, 1), 1, false, 2), x)));
    check(net, "a", "c", 4, {.dtype = dtype, .sm = 90});
  }
}

TEST(FoldPixels, ManyTilesInOneBlock) {
  BRAZE_NEEDS_EMULATOR();
  ExactNet net(6);
  const ValueId x = net.image("x", {2, 32, 24, 44});
  const ValueId a = net.unary("ra", UnaryFn::kRelu, net.conv("a", x, 32, window2d(3, 1)));
  net.output(net.unary("rb", UnaryFn::kRelu, net.conv("b", a, 32, window2d(1))));
  check(net, "a", "b", 2, {.sm = 90, .most = 6, .units = 1});
}

/// What the chain of the nodes a and b is folded by.
std::int64_t folds(const std::function<void(ExactNet&)>& build) {
  ExactNet net(7);
  build(net);
  const Plan plan = plan_of_parts(net.graph, DType::kFloat16, 90);
  return foldable_pixels(plan.graph, chain_group(plan, "a", "b"), 64);
}

TEST(FoldPixels, NotWhereItIsNotTheSame) {
  const auto chain = [](const Shape& shape, std::int64_t channels, const Window& w) {
    return [=](ExactNet& net) {
      const ValueId x = net.image("x", shape);
      net.output(net.conv("b", net.conv("a", x, channels, w), 16, window2d(1)));
    };
  };
  EXPECT_EQ(folds(chain({1, 16, 9, 28}, 16, window2d(3, 1))), 4);
  EXPECT_EQ(folds(chain({1, 16, 9, 30}, 16, window2d(3, 1))), 2);
  EXPECT_EQ(folds(chain({1, 16, 9, 27}, 16, window2d(3, 1))), 1) << "odd rows";
  EXPECT_EQ(folds(chain({1, 16, 9, 28}, 40, window2d(3, 1))), 1) << "many channels";
  EXPECT_EQ(folds(chain({1, 16, 9, 28}, 16, window2d(3, 1, 2))), 1) << "stride";
  Window dilated = window2d(3, 2);
  dilated.dilations = {2, 2};
  EXPECT_EQ(folds(chain({1, 16, 9, 28}, 16, dilated)), 1) << "dilation";
  EXPECT_EQ(folds(chain({1, 16, 9, 28}, 16, window2d(3, 0))), 2) << "26 columns";
  EXPECT_EQ(folds([](ExactNet& net) {
              const ValueId x = net.image("x", {1, 16, 8, 16});
              net.output(net.conv("b", net.conv("a", x, 16, window2d(3, 1), 16), 16, window2d(1)));
            }),
            1)
      << "depthwise";
  EXPECT_EQ(folds([](ExactNet& net) {
              const ValueId x = net.image("x", {1, 16, 8, 16});
              const ValueId a = net.conv("a", x, 16, window2d(3, 1));
              net.output(a);
              net.output(net.conv("b", a, 16, window2d(1)));
            }),
            1)
      << "stored on the way";
}

TEST(FoldPixels, IsPlannedWhereItPays) {
  const auto fold = [](std::int64_t channels, std::int64_t size) {
    ExactNet net(8);
    const ValueId x = net.image("x", {8, channels, size, size});
    net.output(net.conv("b", net.conv("a", x, channels, window2d(1)), channels, window2d(1)));
    Graph graph = net.graph;
    lower_precision(graph, DType::kFloat16, true);
    const Plan plan =
        make_plan(std::move(graph), cuda_device(90), {FusionLevel::kFull, false}, cuda::registry());
    for (const KernelPlan& kernel : plan.kernels) {
      if (kernel.family == "chain_sm90") return kernel.candidate.get("fold", 1);
    }
    return std::int64_t{0};
  };
  EXPECT_EQ(fold(16, 224), 4);
  EXPECT_EQ(fold(64, 112), 1);
}

}  // namespace
}  // namespace braze::cuda::testing
