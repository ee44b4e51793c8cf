// Winograd convolution against the interpreter: both tiles, every layout, every instruction set;
// its error, and when it is refused.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "kernels/cpu/conv_winograd.hpp"
#include "kernels/one_node.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::cpu::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  Shape x{1, 16, 12, 12};
  std::int64_t outputs = 16;
  Ints begin{1, 1}, end{1, 1};
  bool bias = true;
  unsigned seed = 1;
};

std::string text(const Case& c) {
  return fmt::format("x {} K {} pads {} {} bias {} seed {}", c.x, c.outputs, c.begin, c.end, c.bias,
                     c.seed);
}

Conv conv_of(const Case& c) {
  Conv conv;
  conv.window = {{3, 3}, {1, 1}, {1, 1}, c.begin, c.end, AutoPad::kNotSet};
  conv.group = 1;
  return conv;
}

OneNode node_of(const Case& c) {
  const Tensor w = random_tensor({c.outputs, c.x[1], 3, 3}, c.seed * 8 + 1);
  const Tensor bias = c.bias ? random_tensor({c.outputs}, c.seed * 8 + 2) : Tensor();
  return {conv_of(c), {random_tensor(c.x, c.seed * 8), w, bias}, {1, 2}};
}

const Tensor& weights_of(const OneNode& node) {
  return *node.graph.value(node.graph.node(node.group.members[0].anchor).input(1)).constant;
}

/// The family, its first candidate being F(m x m, 3x3) with so many tiles together.
template <int M, std::int64_t Tiles>
std::vector<Candidate> one_candidate(const Graph&, const Group&, const Device&) {
  return {{{{"tile", M}, {"tiles", Tiles}}}};
}
Row row_of(int m, std::int64_t tiles = 0) {
  Row row = conv_winograd();
  row.family.candidates = m == 2 ? (tiles == 0 ? one_candidate<2, 0> : one_candidate<2, 5>)
                                 : (tiles == 0 ? one_candidate<4, 0> : one_candidate<4, 5>);
  return row;
}

/// Eight standard deviations of the error that the model expects for inputs uniform in [-1, 1),
/// whose variance is 1/3; then the rounding of what follows, in units of the result.
Compare within_model(const OneNode& node, int m) {
  const Tensor& w = weights_of(node);
  const std::int64_t outputs = w.shape()[0];
  const std::int64_t terms = w.count() / outputs;
  double variance = 0;  // of the output channel with the largest one, for inputs of variance 1
  for (std::int64_t k = 0; k < outputs; ++k) {
    double sum = 0;
    for (std::int64_t i = 0; i < terms; ++i) {
      const double value = w.as<float>()[k * terms + i];
      sum += value * value;
    }
    variance = std::max(variance, sum);
  }
  const double sigma = winograd_error(w.as<float>(), outputs, w.shape()[1], m) / 2;
  const double tolerance = 8 * sigma * std::sqrt(variance / 3) + std::ldexp(6, -24);
  return [tolerance](const Tensor& got, const Tensor& want) {
    expect_close(got, want, tolerance, std::ldexp(4, -24));
  };
}

void check(const Case& c, int m, std::int64_t tiles = 0) {
  SCOPED_TRACE(fmt::format("F({}) tiles {} {}", m, tiles, text(c)));
  const OneNode node = node_of(c);
  check_node(row_of(m, tiles), node, within_model(node, m));
}

class ConvWinogradOnIsa : public OnIsa {};
BRAZE_ON_EVERY_ISA(ConvWinogradOnIsa);

TEST_P(ConvWinogradOnIsa, EverySizeOfTheOutput) {
  unsigned seed = 0;
  for (const int m : {2, 4}) {
    for (const Ints& size :
         {Ints{1, 1}, Ints{2, 3}, Ints{3, 7}, Ints{5, 4}, Ints{8, 9}, Ints{7, 70}}) {
      Case c;
      c.x = {1, 5, size[0], size[1]};
      c.outputs = 7;
      c.seed = ++seed;
      check(c, m);
      check(c, m, 5);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ConvWinogradOnIsa, EveryPadding) {
  unsigned seed = 100;
  for (const int m : {2, 4}) {
    for (const Ints& pads : {Ints{0, 0, 0, 0}, Ints{1, 0, 0, 2}, Ints{2, 3, 5, 1}, Ints{9, 7, 8, 0},
                             Ints{0, 12, 0, 11}}) {
      Case c;
      c.x = {1, 3, 5, 6};
      c.outputs = 4;
      c.begin = {pads[0], pads[1]};
      c.end = {pads[2], pads[3]};
      c.seed = ++seed;
      check(c, m, seed % 2 == 0 ? 0 : 5);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ConvWinogradOnIsa, EveryCountOfChannels) {
  unsigned seed = 200;
  for (const std::int64_t channels : {1, 2, 15, 16, 33, 256}) {
    for (const std::int64_t outputs : {1, 8, 9, 16, 24, 32, 40, 67}) {
      Case c;
      c.x = {1, channels, 5, 9};
      c.outputs = outputs;
      c.bias = seed % 2 == 0;
      c.seed = ++seed;
      check(c, seed % 3 == 0 ? 2 : 4);
      if (HasFatalFailure()) return;
    }
  }
}

/// Segments end in the middle of a row of tiles, rows span several strips, images follow each
/// other.
TEST_P(ConvWinogradOnIsa, SegmentsStripsAndImages) {
  unsigned seed = 300;
  for (const int m : {2, 4}) {
    for (const std::int64_t tiles : {0, 5}) {
      Case c;
      c.x = {3, 17, 9, 67};
      c.outputs = 19;
      c.seed = ++seed;
      check(c, m, tiles);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ConvWinogradOnIsa, EpilogueFollowsTheSum) {
  unsigned seed = 400;
  for (const int m : {2, 4}) {
    Case c;
    c.x = {2, 12, 7, 10};
    c.outputs = 37;
    c.seed = ++seed;
    const Shape y{2, 37, 7, 10};
    for (int which = 0; which < 5; ++which) {
      SCOPED_TRACE(which);
      OneNode node = node_of(c);
      if (which == 0) node.then(Unary{UnaryFn::kRelu, 0, 0});
      if (which == 1) node.then(Unary{UnaryFn::kClip, -0.5, 1.5});
      if (which == 2) {
        node.then(Binary{BinaryFn::kAdd}, random_tensor(y, 9), false);
        node.then(Unary{UnaryFn::kRelu, 0, 0});
      }
      if (which == 3) node.then(Unary{UnaryFn::kSigmoid, 0, 0});
      if (which == 4) {
        node.then(Unary{UnaryFn::kRelu, 0, 0});
        node.then(Binary{BinaryFn::kMul}, random_tensor({2, 37, 1, 1}, 8), false);
        node.then(Binary{BinaryFn::kAdd}, random_tensor({37, 1, 1}, 7));
      }
      check_node(row_of(m), node, within_model(node, m));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ConvWinogradOnIsa, RandomCases) {
  const unsigned base_seed = std::random_device{}();
  for (unsigned i = 0; i < 25; ++i) {
    std::mt19937 generator(base_seed + i);
    const auto number = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
    };
    Case c;
    c.begin = {number(0, 3), number(0, 3)};
    c.end = {number(0, 3), number(0, 3)};
    c.x = {number(1, 3), number(1, 40), number(3, 24), number(3, 40)};
    c.outputs = number(1, 70);
    c.bias = number(0, 1) == 1;
    c.seed = base_seed + i;
    check(c, number(0, 1) == 0 ? 2 : 4, number(0, 1) * 5);
    if (HasFatalFailure()) return;
  }
}

/// An input that is not finite reaches the whole tiles that read it, and nothing else.
TEST_P(ConvWinogradOnIsa, NaNReachesWholeTiles) {
  Case c;
  c.x = {1, 4, 16, 16};
  OneNode node = node_of(c);
  node.then(Unary{UnaryFn::kRelu, 0, 0});
  node.inputs[0].as<float>()[5 * 16 + 5] = kNaN;  // read by the tile of rows and columns 4 to 7
  const Row row = row_of(4);
  const Tensor got = run_kernel(one_kernel_plan(node.graph, row, node.group), row, node.inputs)[0];
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const std::int64_t h = i / 16 % 16;
    const std::int64_t w = i % 16;
    const bool inside = h >= 4 && h < 8 && w >= 4 && w < 8;
    ASSERT_EQ(std::isnan(got.as<float>()[i]), inside) << h << " " << w;
  }
}

double root_mean_square_error(const Row& row, const OneNode& node, double* largest = nullptr) {
  const Tensor got = run_kernel(one_kernel_plan(node.graph, row, node.group), row, node.inputs)[0];
  const Tensor want = interpret(node.graph, node.inputs).front();
  double sum = 0;
  double most = 0;
  double range = 0;
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const double error = std::fabs(static_cast<double>(got.as<float>()[i]) -
                                   static_cast<double>(want.as<float>()[i]));
    sum += error * error;
    most = std::max(most, error);
    range = std::max(range, std::fabs(static_cast<double>(want.as<float>()[i])));
  }
  if (largest != nullptr) *largest = most / range;
  return std::sqrt(sum / static_cast<double>(got.count()));
}

/// F(2) has about the direct form's error, F(4) at most three times that; the model is above the
/// measured error, and not by more than a factor of eight.
TEST(ConvWinograd, ErrorIsNearTheDirectFormsAndTheModels) {
  for (const std::int64_t channels : {16, 64, 256}) {
    Case c;
    c.x = {1, channels, 24, 24};
    c.outputs = 32;
    c.bias = false;
    const OneNode node = node_of(c);
    const double direct = root_mean_square_error(conv_direct(), node);
    for (const int m : {2, 4}) {
      SCOPED_TRACE(fmt::format("C {} F({})", channels, m));
      double largest = 0;
      EXPECT_LE(root_mean_square_error(row_of(m), node, &largest), direct * (m == 2 ? 1.5 : 3));
      const double model = winograd_error(weights_of(node).as<float>(), c.outputs, channels, m);
      EXPECT_LE(largest, model);
      EXPECT_GE(largest, model / 8);
    }
  }
}

TEST(ConvWinograd, ErrorModelKnowsTheFilter) {
  const std::vector<float> smooth(9, 1);
  std::vector<float> sharp(9, 0);
  sharp[4] = 1;
  const auto error = [](const std::vector<float>& filter, int m) {
    return winograd_error(filter.data(), 1, 1, m);
  };
  EXPECT_LT(error(smooth, 2), error(smooth, 4));
  EXPECT_NE(error(smooth, 4), error(sharp, 4));
  std::vector<float> scaled = smooth;
  for (float& w : scaled) w *= 1024;
  EXPECT_DOUBLE_EQ(error(smooth, 4), error(scaled, 4));
  EXPECT_EQ(error(std::vector<float>(9, 0), 4), 0);
  scaled[3] = kNaN;
  EXPECT_EQ(error(scaled, 4), std::numeric_limits<double>::infinity());
  EXPECT_EQ(error(std::vector<float>(9, 3e38F), 4), std::numeric_limits<double>::infinity());
}

Support support_of(const OneNode& node, double max_error = 1e-4) {
  Device device = cpu_device(1);
  device.max_error = max_error;
  return conv_winograd().family.supports(node.graph, node.graph.node(node.group.members[0].anchor),
                                         device);
}

TEST(ConvWinograd, RefusesOtherConvolutions) {
  Case c;
  EXPECT_TRUE(support_of(node_of(c)).ok);
  const auto rule = [&](const Conv& conv, const Shape& weights,
                        std::vector<std::size_t> constants) {
    const OneNode node(conv, {random_tensor(c.x, 1), random_tensor(weights, 2)},
                       std::move(constants));
    return support_of(node).rule;
  };
  const Shape w{16, 16, 3, 3};
  Conv conv = conv_of(c);
  EXPECT_EQ(rule(conv, w, {}), "weights");
  conv.window.strides = {1, 2};
  EXPECT_EQ(rule(conv, w, {1}), "stride");
  conv = conv_of(c);
  conv.window.dilations = {2, 1};
  EXPECT_EQ(rule(conv, w, {1}), "dilation");
  conv = conv_of(c);
  conv.group = 2;
  EXPECT_EQ(rule(conv, {16, 8, 3, 3}, {1}), "groups");
  conv = conv_of(c);
  conv.window.kernel = {3, 1};
  EXPECT_EQ(rule(conv, {16, 16, 3, 1}, {1}), "filter");
  OneNode half = node_of(c);
  half.graph.value(half.group.inputs[0]).dtype = DType::kFloat16;
  EXPECT_EQ(support_of(half).rule, "dtype");
}

TEST(ConvWinograd, RefusesWeightsThatAreNotFinite) {
  for (const float wrong : {kNaN, std::numeric_limits<float>::infinity(), 3e38F}) {
    Case c;
    Tensor w = random_tensor({16, 16, 3, 3}, 2);
    w.as<float>()[77] = wrong;
    const OneNode node(conv_of(c), {random_tensor(c.x, 1), w}, {1});
    EXPECT_EQ(support_of(node).rule, "weights");
    EXPECT_THAT(support_of(node).reason, HasSubstr("finite"));
  }
}

TEST(ConvWinograd, RefusesATightLimitAndOffersTheTilesThatKeepIt) {
  const OneNode node = node_of(Case{});
  const Support support = support_of(node, 1e-7);
  EXPECT_EQ(support.rule, "accuracy");
  EXPECT_THAT(support.reason, AllOf(HasSubstr("F(2x2,3x3)"), HasSubstr("1e-07")));

  const Tensor& w = weights_of(node);
  const auto tiles_within = [&](double limit) {
    Device device = cpu_device(1);
    device.max_error = limit;
    std::string tiles;
    for (const Candidate& candidate :
         conv_winograd().family.candidates(node.graph, node.group, device)) {
      const std::string tile = std::to_string(candidate.get("tile"));
      EXPECT_EQ(candidate.algorithm, "winograd F(" + tile + "x" + tile + ",3x3)");
      if (!tiles.ends_with(tile)) tiles += tile;
    }
    return tiles;
  };
  EXPECT_EQ(tiles_within(1e-4), "42");
  EXPECT_EQ(tiles_within(winograd_error(w.as<float>(), 16, 16, 2) * 1.01), "2");
}

Plan plan_of(std::int64_t channels, std::int64_t size, double max_error, std::int64_t stride = 1) {
  test::Net net;
  const ValueId x = net.input("x", {1, channels, size, size});
  net.output(net.unary("relu", UnaryFn::kRelu,
                       net.conv("conv", x, channels, test::window2d(3, 1, stride))));
  Device device = cpu_device(1);
  device.max_error = max_error;
  return make_plan(net.graph, device, {}, registry());
}

TEST(ConvWinograd, IsPlannedWhereItPaysAndTheLimitAllows) {
  const Plan plan = plan_of(64, 56, 1e-4);
  ASSERT_EQ(plan.kernels.size(), 1U);
  EXPECT_EQ(plan.kernels[0].family, "conv_winograd");
  EXPECT_THAT(describe(plan, plan.kernels[0]), HasSubstr("winograd F(4x4,3x3)"));
  EXPECT_TRUE(plan.not_fused.empty());

  EXPECT_EQ(plan_of(64, 56, 1e-4, 2).kernels[0].family, "conv_direct");
  EXPECT_EQ(plan_of(2, 8, 1e-4).kernels[0].family, "conv_direct");
  const Plan tight = plan_of(64, 56, 1e-7);
  EXPECT_EQ(tight.kernels[0].family, "conv_direct");
  ASSERT_EQ(tight.not_fused.size(), 1U);
  EXPECT_EQ(tight.not_fused[0].rule, "accuracy");
}

/// The direct form does not have the tile's side as a number: a time measured for a way that the
/// limit excludes is not looked up.
TEST(ConvWinograd, MeasuredTimesDoNotLiftTheLimit) {
  struct Fast final : Measurements {
    [[nodiscard]] std::optional<double> us(std::string_view, std::string_view way) const override {
      return way.starts_with("conv_winograd tile=4") ? std::optional(1.0) : std::nullopt;
    }
  } measurements;
  test::Net net;
  const ValueId x = net.input("x", {1, 64, 56, 56});
  net.output(net.conv("conv", x, 64, test::window2d(3, 1)));
  Device device = cpu_device(1);
  const Knowledge knowledge{&measurements, {}};
  EXPECT_TRUE(make_plan(net.graph, device, {}, registry(), knowledge).kernels[0].measured);
  device.max_error = 1e-7;
  const Plan plan = make_plan(net.graph, device, {}, registry(), knowledge);
  EXPECT_EQ(plan.kernels[0].family, "conv_direct");
  EXPECT_FALSE(plan.kernels[0].measured);
}

}  // namespace
}  // namespace braze::cpu::testing
