// Epilogues on tiles: every step, broadcast and layout, alone and in sequences, against the
// interpreter.
//
// The tiles come from the pointwise family, whose anchor here changes nothing, and from hand-cut
// tiles of each orientation.
#include <fmt/format.h>

#include <limits>
#include <random>

#include "kernels/cpu/epilogue.hpp"
#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

class EpilogueOnIsa : public OnIsa {};
BRAZE_ON_EVERY_ISA(EpilogueOnIsa);

constexpr float kInf = std::numeric_limits<float>::infinity();

/// max(x, -inf), then the steps.
OneNode on_image(const Shape& shape, unsigned seed, float lo = -3, float hi = 3) {
  return OneNode(Unary{UnaryFn::kClip, -kInf, kInf}, {random_tensor(shape, seed, lo, hi)});
}

/// Cuts the result into tiles by hand, applies the epilogue to each in place, and compares.
void check_tiles(const OneNode& node, LayoutChoice layout, LayoutChoice operands,
                 std::int64_t pixels, std::int64_t channels, double tolerance = 1e-6) {
  std::map<ValueId, LayoutChoice> layouts;
  for (const ValueId id : node.group.inputs) {
    if (node.graph.value(id).shape.size() >= 3) layouts[id] = operands;
  }
  layouts[node.group.inputs[0]] = layout;
  layouts[node.group.outputs[0]] = layout;
  const Plan plan = one_kernel_plan(node.graph, pointwise(), node.group, layouts);
  const TileEpilogue epilogue(plan, plan.kernels[0], node.group.members[0]);

  std::vector<Placed> placed;
  std::vector<const void*> pointers;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.group.inputs[i];
    const auto choice = layouts.find(id);
    placed.emplace_back(DType::kFloat32, node.inputs[i].shape(),
                        choice == layouts.end() ? LayoutChoice{} : choice->second);
    placed.back().set(node.inputs[i]);
  }
  for (Placed& value : placed) pointers.push_back(value.data());
  const KernelArguments arguments{pointers, {}, nullptr, nullptr};
  const Image image = image_of(plan, node.group.outputs[0]);
  const std::int64_t all = image.d * image.h * image.w;
  for (std::int64_t n = 0; n < image.n; ++n) {
    for (std::int64_t p = 0; p < all; p += pixels) {
      for (std::int64_t c = 0; c < image.c; c += channels) {
        Tile tile;
        tile.n = n;
        tile.pixel = p;
        tile.pixels = std::min(pixels, all - p);
        tile.channel = c;
        tile.channels = std::min(channels, image.c - c);
        tile.stride_pixel = image.stride_w;
        tile.stride_channel = image.stride_c;
        tile.data = static_cast<float*>(placed[0].data()) + n * image.stride_n +
                    p * image.stride_w + c * image.stride_c;
        epilogue.apply(arguments, tile);
      }
    }
  }
  EXPECT_TRUE(placed[0].gaps_intact());
  expect_close(placed[0].get(), interpret(node.graph, node.inputs).front(), tolerance, tolerance);
}

void check_all_tiles(const OneNode& node, double tolerance = 1e-6) {
  for (const LayoutChoice layout : {LayoutChoice{}, LayoutChoice{Layout::kChannelsLast, 0},
                                    LayoutChoice{Layout::kChannelsLast, 5}}) {
    for (const LayoutChoice operands : {LayoutChoice{}, LayoutChoice{Layout::kChannelsLast, 3}}) {
      for (const auto& [pixels, channels] :
           {std::pair<int, int>{6, 16}, {1, 100}, {1000, 1000}, {7, 5}}) {
        check_tiles(node, layout, operands, pixels, channels, tolerance);
        if (::testing::Test::HasFailure()) {
          FAIL() << print(node.group.members[0].epilogue)
                 << fmt::format(" layout {} +{}, operands {}, tile {} x {}, ",
                                static_cast<int>(layout.layout), layout.extra_pitch,
                                static_cast<int>(operands.layout), pixels, channels)
                 << active_isa();
        }
      }
    }
  }
}

TEST_P(EpilogueOnIsa, EveryUnaryStep) {
  for (const Unary& op : {Unary{UnaryFn::kRelu},
                          Unary{UnaryFn::kLeakyRelu, 0.1},
                          Unary{UnaryFn::kClip, -1, 2},
                          Unary{UnaryFn::kSigmoid},
                          Unary{UnaryFn::kHardSigmoid, 0.2, 0.5},
                          Unary{UnaryFn::kHardSwish},
                          Unary{UnaryFn::kSilu},
                          Unary{UnaryFn::kMish},
                          Unary{UnaryFn::kGelu},
                          Unary{UnaryFn::kGeluTanh},
                          Unary{UnaryFn::kTanh},
                          Unary{UnaryFn::kElu, 1},
                          Unary{UnaryFn::kSelu, 1.67, 1.05},
                          Unary{UnaryFn::kCelu, 2},
                          Unary{UnaryFn::kSoftplus},
                          Unary{UnaryFn::kSoftsign},
                          Unary{UnaryFn::kThresholdedRelu, 1},
                          Unary{UnaryFn::kErf},
                          Unary{UnaryFn::kExp},
                          Unary{UnaryFn::kAbs},
                          Unary{UnaryFn::kNeg},
                          Unary{UnaryFn::kReciprocal},
                          Unary{UnaryFn::kFloor},
                          Unary{UnaryFn::kCeil},
                          Unary{UnaryFn::kRound},
                          Unary{UnaryFn::kSign},
                          Unary{UnaryFn::kSin},
                          Unary{UnaryFn::kCos}}) {
    OneNode node = on_image({2, 21, 3, 5}, 1);
    node.then(op);
    check_all_tiles(node);
  }
  for (const Unary& op : {Unary{UnaryFn::kLog}, Unary{UnaryFn::kSqrt}}) {
    OneNode node = on_image({2, 21, 3, 5}, 1, 0.1f, 4);
    node.then(op);
    check_all_tiles(node);
  }
}

TEST_P(EpilogueOnIsa, EveryBinaryStepAndBroadcast) {
  const Shape image{2, 21, 3, 5};
  // full, channel, image, pixel, pixel of each image, scalar; and those with leading ones left out
  const Shape operands[] = {{2, 21, 3, 5}, {1, 21, 1, 1}, {21, 1, 1}, {2, 21, 1, 1}, {1, 1, 3, 5},
                            {3, 5},        {2, 1, 3, 5},  {},         {1},           {1, 1, 1, 1}};
  for (const BinaryFn fn :
       {BinaryFn::kAdd, BinaryFn::kSub, BinaryFn::kMul, BinaryFn::kDiv, BinaryFn::kPow,
        BinaryFn::kMod, BinaryFn::kFMod, BinaryFn::kMin, BinaryFn::kMax, BinaryFn::kPRelu}) {
    for (const Shape& operand : operands) {
      for (const bool constant : {false, true}) {
        for (const bool swapped : {false, true}) {
          if (fn == BinaryFn::kPRelu && swapped) continue;
          OneNode node = on_image(image, 1, 0.5f, 3);
          node.then(Binary{fn}, random_tensor(operand, 2, 0.5f, 3), constant, swapped);
          check_all_tiles(node, 2e-6);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(EpilogueOnIsa, NarrowAndWideImages) {
  for (const Shape& shape : {Shape{1, 1, 7, 9}, Shape{1, 3, 40, 50}, Shape{2, 200, 1, 1},
                             Shape{1, 16, 9}, Shape{1, 4, 2, 3, 5}, Shape{3, 70}}) {
    OneNode node = on_image(shape, 1);
    Shape channel(shape.size(), 1);
    channel[1] = shape[1];
    node.then(Binary{BinaryFn::kMul}, random_tensor(channel, 2));
    node.then(Binary{BinaryFn::kAdd}, random_tensor(channel, 3));
    node.then(Unary{UnaryFn::kHardSwish});
    node.then(Binary{BinaryFn::kAdd}, random_tensor(shape, 4), false);
    if (shape.size() >= 3) {
      check_all_tiles(node);
    } else {
      check_tiles(node, {}, {}, 1000, 9);
    }
    check_node(pointwise(), node,
               [](const Tensor& got, const Tensor& want) { expect_close(got, want, 1e-6, 1e-6); });
  }
}

TEST_P(EpilogueOnIsa, RandomSequences) {
  constexpr unsigned kSeed = 20240611;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::mt19937 random(kSeed);
  const auto pick = [&random](auto... values) {
    const std::common_type_t<decltype(values)...> list[] = {values...};
    return list[random() % sizeof...(values)];
  };
  for (int run = 0; run < 60; ++run) {
    const Shape shape = {pick(1, 2), pick(2, 3, 8, 16, 24, 33), pick(1, 2, 9), pick(1, 4, 17)};
    OneNode node = on_image(shape, static_cast<unsigned>(run));
    for (int step = pick(1, 2, 3, 4); step > 0; --step) {
      if (random() % 2 == 0) {
        node.then(pick(Unary{UnaryFn::kRelu}, Unary{UnaryFn::kClip, -0.5, 1}, Unary{UnaryFn::kSilu},
                       Unary{UnaryFn::kTanh}, Unary{UnaryFn::kLeakyRelu, 0.2},
                       Unary{UnaryFn::kHardSwish}, Unary{UnaryFn::kClip, 0, 6}));
        continue;
      }
      Shape operand = shape;
      switch (pick(0, 1, 2, 3, 4)) {
        case 0:
          break;
        case 1:
          operand = {1, shape[1], 1, 1};
          break;
        case 2:
          operand = {shape[0], shape[1], 1, 1};
          break;
        case 3:
          operand = {1, 1, shape[2], shape[3]};
          break;
        default:
          operand = {};
          break;
      }
      node.then(Binary{pick(BinaryFn::kAdd, BinaryFn::kMul, BinaryFn::kSub, BinaryFn::kMax,
                            BinaryFn::kMin)},
                random_tensor(operand, static_cast<unsigned>(run * 10 + step)), pick(0, 1) != 0,
                pick(0, 1) != 0);
    }
    check_all_tiles(node, 3e-6);
    check_node(pointwise(), node,
               [](const Tensor& got, const Tensor& want) { expect_close(got, want, 3e-6, 3e-6); });
    if (HasFailure()) FAIL() << "run " << run << "\n" << print(node.graph);
  }
}

TEST(Epilogue, LeadingClampsBecomeOne) {
  OneNode node = on_image({1, 4, 3, 3}, 1);
  node.then(Unary{UnaryFn::kRelu});
  node.then(Unary{UnaryFn::kClip, -1, 6});
  node.then(Binary{BinaryFn::kAdd}, random_tensor({1, 4, 1, 1}, 2));
  node.then(Unary{UnaryFn::kRelu});
  const Plan plan = one_kernel_plan(node.graph, pointwise(), node.group);
  TileEpilogue epilogue(plan, plan.kernels[0], node.group.members[0]);
  const Clamp clamp = epilogue.take_leading_clamp();
  EXPECT_EQ(clamp.lo, 0);
  EXPECT_EQ(clamp.hi, 6);
  EXPECT_FALSE(epilogue.empty());
  EXPECT_EQ(epilogue.take_leading_clamp().hi, kInf);
}

TEST(Epilogue, ComposedClampsAreTheirComposition) {
  const float bounds[] = {-kInf, -2, -1, 0, 1, 2, kInf};
  for (const float a : bounds) {
    for (const float b : bounds) {
      for (const float c : bounds) {
        for (const float d : bounds) {
          const Clamp both = compose({a, b}, {c, d});
          for (const float x : {-3.0f, -1.5f, -0.5f, 0.5f, 1.5f, 3.0f, -kInf, kInf}) {
            const float want = std::min(std::max(std::min(std::max(x, a), b), c), d);
            ASSERT_EQ(std::min(std::max(x, both.lo), both.hi), want)
                << a << " " << b << " " << c << " " << d << " of " << x;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace braze::cpu::testing
