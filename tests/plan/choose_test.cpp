// Which way to run a group a plan takes: measured times before estimates, the same for the same
// database.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// "tile=1" ... of two families; estimates prefer small tiles of the first.
std::vector<Candidate> three_tiles(const Graph&, const Group&, const Device&) {
  return {{{{"tile", 3}}}, {{{"tile", 1}}}, {{{"tile", 2}}}};
}
Work slower_with_tile(const Graph&, const Group&, const Candidate& candidate, const Device&) {
  return {.flops = 1e9 * static_cast<double>(candidate.get("tile"))};
}
Support only_conv(const Graph&, const Node& node, const Device&) {
  return node.kind() == OpKind::kConv ? Support::yes() : Support::no("operator", "");
}
Support never(const Graph&, const Node&, const Device&) { return Support::no("option", "asked"); }
Support everything(const Graph&, const Node&, const Device&) { return Support::yes(); }

Registry families() {
  KernelFamily fast{.name = "fast",
                    .backend = "cpu",
                    .layouts = LayoutRule::kEach,
                    .epilogue = true,
                    .pitched = true,
                    .supports = only_conv,
                    .candidates = three_tiles,
                    .work = slower_with_tile};
  KernelFamily general = fast;
  general.name = "general";
  KernelFamily strict = fast;  // another layout: cannot take over
  strict.name = "strict";
  strict.layouts = LayoutRule::kModelOnly;
  KernelFamily bare = fast;  // no epilogue
  bare.name = "bare";
  bare.epilogue = false;
  KernelFamily library = fast;
  library.name = "library";
  library.backend = "library";
  library.supports = never;
  library.candidates = nullptr;
  return {fast, general, strict,
          bare, library, {.name = "reference", .backend = "cpu", .supports = everything}};
}

class Times final : public Measurements {
 public:
  std::map<std::string, double> of;  // by way
  mutable std::vector<std::string> asked;

  [[nodiscard]] std::optional<double> us(std::string_view problem,
                                         std::string_view way) const override {
    asked.emplace_back(problem);
    const auto found = of.find(std::string(way));
    return found == of.end() ? std::nullopt : std::optional(found->second);
  }
};

Net conv_relu(const std::string& prefix = "") {
  Net net;
  const ValueId x = net.input(prefix + "x", {1, 8, 6, 6});
  const ValueId c = net.conv(prefix + "conv", x, 8, window2d(3, 1));
  net.output(net.unary(prefix + "relu", UnaryFn::kRelu, c));
  return net;
}

Plan plan_of(const Net& net, const Knowledge& knowledge) {
  static const Registry registry = families();
  return make_plan(net.graph, cpu_device(1), {}, registry, knowledge);
}

std::string way_of(const Plan& plan) {
  return name_of(plan.kernels.at(0).family, plan.kernels.at(0).candidate);
}

TEST(Choose, WithoutMeasurementsTheEstimatesDecide) {
  const Plan plan = plan_of(conv_relu(), {});
  EXPECT_EQ(way_of(plan), "fast tile=1");
  EXPECT_FALSE(plan.kernels[0].measured);
  Times none;
  EXPECT_EQ(way_of(plan_of(conv_relu(), {&none, {}})), "fast tile=1");
}

TEST(Choose, TheFastestMeasuredWayWinsAndItsTimeIsThePlans) {
  Times times;
  times.of = {{"fast tile=2", 7}, {"fast tile=3", 5}};
  const Plan plan = plan_of(conv_relu(), {&times, {}});
  EXPECT_EQ(way_of(plan), "fast tile=3");  // the favourite, tile=1, was not measured
  EXPECT_TRUE(plan.kernels[0].measured);
  EXPECT_EQ(plan.kernels[0].est_us, 5);
  EXPECT_EQ(plan.kernels[0].work.flops, 3e9);
  EXPECT_EQ(plan.kernels[0].name, "k0_fast");
}

TEST(Choose, AFamilyThatDoesNotPayRunsOnlyWhatWasMeasured) {
  Registry registry = families();
  KernelFamily clever = registry.front();
  clever.name = "clever";
  clever.wanted = true;
  clever.pays = [](const Graph&, const Node&, const Device&) {
    return Support::no("slower", "by estimate");
  };
  registry.insert(registry.begin(), clever);
  Times times;
  times.of = {{"fast tile=1", 5}, {"clever tile=2", 4}};
  const Net net = conv_relu();
  const Plan estimated = make_plan(net.graph, cpu_device(1), {}, registry);
  EXPECT_EQ(way_of(estimated), "fast tile=1");
  ASSERT_EQ(estimated.not_fused.size(), 1U);
  EXPECT_EQ(estimated.not_fused[0].rule, "slower");
  EXPECT_EQ(way_of(make_plan(net.graph, cpu_device(1), {}, registry, {&times, {}})),
            "clever tile=2");
}

TEST(Choose, TiesGoToTheEstimatesFavourite) {
  Times times;
  times.of = {{"fast tile=1", 5.04}, {"fast tile=2", 5.02}, {"fast tile=3", 5}};
  EXPECT_EQ(way_of(plan_of(conv_relu(), {&times, {}})), "fast tile=1");
  times.of["fast tile=1"] = 5.06;
  EXPECT_EQ(way_of(plan_of(conv_relu(), {&times, {}})), "fast tile=2");
}

TEST(Choose, AnotherFamilyRunsTheGroupOnlyIfThatWasMeasuredToBeFaster) {
  Times times;
  times.of = {{"fast tile=1", 5}, {"general tile=2", 4}};
  const Plan plan = plan_of(conv_relu(), {&times, {}});
  EXPECT_EQ(way_of(plan), "general tile=2");
  EXPECT_EQ(plan.kernels[0].name, "k0_general");
  EXPECT_THAT(plan.kernels[0].nodes, ElementsAre("conv", "relu"));
  for (const char* way : {"strict tile=1", "bare tile=1", "reference"}) {
    times.of[way] = 1;
    EXPECT_EQ(way_of(plan_of(conv_relu(), {&times, {}})), "general tile=2") << way;
  }
}

TEST(Choose, AlternativesRunTheGroupsThatTheyTake) {
  Times times;
  times.of = {{"fast tile=1", 5}, {"library", 4}};
  const Alternative takes{"library", [](const Plan&, const Group&) { return Support::yes(); }};
  const Alternative refuses{"library",
                            [](const Plan&, const Group&) { return Support::no("rule", "why"); }};
  const Plan plan = plan_of(conv_relu(), {&times, {takes}});
  EXPECT_EQ(way_of(plan), "library");
  EXPECT_EQ(plan.kernels[0].backend, "library");
  EXPECT_EQ(way_of(plan_of(conv_relu(), {&times, {refuses}})), "fast tile=1");
  EXPECT_EQ(way_of(plan_of(conv_relu(), {&times, {}})), "fast tile=1");  // --backend braze
  times.of.clear();
  EXPECT_EQ(way_of(plan_of(conv_relu(), {&times, {takes}})), "fast tile=1");
}

TEST(Choose, TheSameDatabaseGivesTheSamePlan) {
  Times times;
  times.of = {{"fast tile=2", 5}, {"general tile=3", 5.01}, {"general tile=1", 5.02}};
  const std::string first = print(plan_of(conv_relu(), {&times, {}}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(print(plan_of(conv_relu(), {&times, {}})), first);
}

std::string problem_of(const Net& net, bool nhwc_io = false, bool tf32 = false) {
  static const Registry registry = families();
  Device device = cpu_device(1);
  device.tf32 = tf32;
  const Plan plan = make_plan(net.graph, device, {FusionLevel::kFull, nhwc_io}, registry);
  return problem_text(plan, plan.kernels.at(0));
}

TEST(Problems, HaveNoNamesInThem) {
  const std::string text = problem_of(conv_relu());
  EXPECT_EQ(text, problem_of(conv_relu("other_")));
  EXPECT_THAT(text, Not(HasSubstr("conv_relu")));
  EXPECT_THAT(text, Not(HasSubstr("fast")));
  EXPECT_THAT(text, HasSubstr("Conv"));
  EXPECT_THAT(text, HasSubstr("relu"));
}

TEST(Problems, DifferInWhatTakesTime) {
  const auto net = [](Shape shape, std::int64_t outputs, const Window& window, UnaryFn fn,
                      std::int64_t group = 1) {
    Net made;
    const ValueId x = made.input("x", std::move(shape));
    const ValueId c = made.conv("conv", x, outputs, window, group);
    made.output(made.unary("fn", fn, c));
    return made;
  };
  const Shape shape = {1, 8, 6, 6};
  const std::string text = problem_of(net(shape, 8, window2d(3, 1), UnaryFn::kRelu));
  EXPECT_EQ(text, problem_of(conv_relu()));
  EXPECT_NE(text, problem_of(net({2, 8, 6, 6}, 8, window2d(3, 1), UnaryFn::kRelu)));
  EXPECT_NE(text, problem_of(net(shape, 16, window2d(3, 1), UnaryFn::kRelu)));
  EXPECT_NE(text, problem_of(net(shape, 8, window2d(3, 1, 2), UnaryFn::kRelu)));
  EXPECT_NE(text, problem_of(net(shape, 8, window2d(3, 1), UnaryFn::kSigmoid)));
  EXPECT_NE(text, problem_of(net(shape, 8, window2d(3, 1), UnaryFn::kRelu, 2)));
  EXPECT_NE(text, problem_of(conv_relu(), true));
  EXPECT_NE(text, problem_of(conv_relu(), false, true));
}

TEST(Problems, TellOneOperandFromTwo) {
  const auto net = [](bool same) {
    Net made;
    const ValueId x = made.input("x", {1, 8, 6, 6});
    const ValueId y = made.input("y", {1, 8, 6, 6});
    made.output(made.add("add", made.conv("conv", x, 8, window2d(3, 1)), same ? x : y));
    return made;
  };
  EXPECT_NE(problem_of(net(true)), problem_of(net(false)));
}

}  // namespace
}  // namespace braze::test
