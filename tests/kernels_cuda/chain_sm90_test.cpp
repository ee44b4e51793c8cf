// Chains of convolutions as one kernel on the emulated sm_90, in many tiles, against the
// interpreter in fp32; and their sources, for a real compiler. Numbers are whole and small enough
// that results between stages are exact.
#include "kernels/cuda/chain_sm90.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/window.hpp"
#include "kernels_cuda/nvrtc_for.hpp"
#include "kernels_cuda/one_kernel.hpp"
#include "passes/lower_precision.hpp"
#include "passes/net.hpp"
#include "plan/make_plan.hpp"

namespace braze::cuda::testing {
namespace {

using chain90::Tile;
using test::Net;
using test::window2d;

/// What is added to a convolution's result.
enum class Plus { kNothing, kInput, kFirst, kOther };

struct Layer {
  std::int64_t outputs = 64;
  Window window = window2d(3, 1);
  Plus plus = Plus::kNothing;
  bool relu = true;
  bool depthwise = false;
  std::function<ValueId(Net&, const std::string&, ValueId)> activation = nullptr;
};
/// Each channel by itself.
Layer depthwise(std::int64_t channels, const Window& window) {
  return {.outputs = channels, .window = window, .depthwise = true};
}
struct Chain {
  Shape x = {};
  std::vector<Layer> layers = {};
  DType dtype = DType::kFloat16;
  unsigned seed = 1;
  int units = 132;
  int nonzeros = 9;     // weights of an output
  double absolute = 0;  // error that is allowed
};

ValueId weights(Net& net, const Shape& shape, int nonzeros) {
  const std::int64_t inputs = element_count(shape) / shape[0];
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)), 0.0);
  for (std::int64_t k = 0; k < shape[0]; ++k) {
    for (int i = 0; i < nonzeros; ++i)
      values[static_cast<std::size_t>(k * inputs + net.pick(0, static_cast<int>(inputs) - 1))] =
          net.pick(0, 1) == 0 ? -1 : 1;
  }
  return net.constant(shape, values);
}

Net build(const Chain& chain) {
  Net net(chain.seed);
  std::map<std::size_t, ValueId> others;
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    const Layer& layer = chain.layers[i];
    if (layer.plus != Plus::kOther) continue;
    const Shape shape{chain.x[0], layer.outputs, chain.x[2], chain.x[3]};
    others[i] = net.unary("o" + std::to_string(i), UnaryFn::kRelu,
                          net.input("z" + std::to_string(i), shape));
  }
  const ValueId x = net.unary("x", UnaryFn::kRelu, net.input("in", chain.x));
  ValueId at = x, first = kNoValue;
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    const Layer& layer = chain.layers[i];
    const std::string id = std::to_string(i);
    std::vector<double> bias(static_cast<std::size_t>(layer.outputs));
    for (double& one : bias) one = static_cast<double>(net.pick(-3, 3));
    const std::int64_t groups = layer.depthwise ? layer.outputs : 1;
    const ValueId w = weights(
        net,
        {layer.outputs, net.shape(at)[1] / groups, layer.window.kernel[0], layer.window.kernel[1]},
        chain.nonzeros);
    at = net.op("conv" + id, Conv{layer.window, groups},
                {at, w, net.constant({layer.outputs}, bias)});
    if (layer.plus != Plus::kNothing) {
      const ValueId operand = layer.plus == Plus::kInput   ? x
                              : layer.plus == Plus::kFirst ? first
                                                           : others.at(i);
      at = net.add("add" + id, at, operand);
    }
    if (layer.activation)
      at = layer.activation(net, "act" + id, at);
    else if (layer.relu)
      at = net.unary("relu" + id, UnaryFn::kRelu, at);
    if (i == 0) first = at;
  }
  net.output(at);
  return net;
}

/// The registry, in which chains take no time and all else an hour.
Registry reluctant() {
  Registry registry = cuda::registry();
  for (KernelFamily& family : registry) {
    if (family.name == "chain_sm90") {
      family.work = [](const Graph&, const Group&, const Candidate&, const braze::Device&) {
        return Work{.flops = 1, .efficiency = 1e-9};
      };
      continue;
    }
    family.joins = nullptr;
    family.work = [](const Graph&, const Group&, const Candidate&, const braze::Device&) {
      return Work{.flops = 1, .efficiency = 1e-20};
    };
  }
  return registry;
}

Candidate candidate_of(const Tile& tile) {
  return {{{"rows", tile.rows},
           {"columns", tile.columns},
           {"teams", tile.teams},
           {"warpgroups", tile.warpgroups},
           {"resident", tile.resident ? 1 : 0}}};
}

struct Planned {
  Plan plan;
  KernelPlan kernel;
  ChainProblem problem;
  std::vector<Tile> tiles;  // all

  explicit Planned(const Chain& chain) {
    Net net = build(chain);
    lower_precision(net.graph, chain.dtype, true);
    Device device = cuda_device(90);
    device.units = chain.units;
    plan = make_plan(net.graph, device, {FusionLevel::kFull, false}, reluctant());
    const auto found = std::ranges::find_if(
        plan.kernels, [](const KernelPlan& one) { return one.family == "chain_sm90"; });
    if (found == plan.kernels.end()) throw std::runtime_error("no chain: " + print(plan));
    kernel = *found;
    problem = read_chain(plan.graph, kernel.group);
    tiles = chain90::tiles_of(
        problem, chain90::storage_of(problem, plan.graph.value(problem.last().result).dtype),
        device, 10000);
  }
};

/// Runs the chain with `count` of its tiles.
void check(const Chain& chain, std::size_t count = 2,
           const std::function<bool(const Tile&)>& wanted = nullptr) {
  Net reference = build(chain);
  std::map<std::string, Tensor> of;
  std::vector<Tensor> inputs;
  for (const ValueId id : reference.graph.inputs) {
    const Shape& shape = reference.shape(id);
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    for (float& value : values) value = static_cast<float>(reference.pick(-4, 8));
    inputs.push_back(make_tensor<float>(DType::kFloat32, shape, values));
  }
  const std::vector<Tensor> want = interpret_all(reference.graph, inputs);
  for (ValueId id = 0; id < reference.graph.value_count(); ++id)
    of[reference.graph.value(id).name] = want[static_cast<std::size_t>(id)];

  Planned planned(chain);
  ASSERT_EQ(planned.problem.stages.size(), chain.layers.size()) << print(planned.plan);
  std::vector<Tile> tiles;
  std::ranges::copy_if(planned.tiles, std::back_inserter(tiles),
                       [&](const Tile& tile) { return !wanted || wanted(tile); });
  ASSERT_FALSE(tiles.empty());
  std::mt19937 random(chain.seed);
  std::shuffle(tiles.begin(), tiles.end(), random);
  tiles.resize(std::min(tiles.size(), count));
  const Row row = chain_sm90();
  for (const Tile& tile : tiles) {
    Plan one = planned.plan;
    one.kernels = {planned.kernel};
    one.kernels[0].candidate = candidate_of(tile);
    std::vector<Tensor> in;
    for (const ValueId id : planned.kernel.group.inputs) {
      const Value& value = one.graph.value(id);
      in.push_back(cast(of.at(value.name), value.dtype));
    }
    const std::vector<Tensor> got = run_on_gpu(one, row, in);
    ASSERT_EQ(got.size(), 1U);
    const Value& result = one.graph.value(planned.kernel.group.outputs[0]);
    const double unit = chain.dtype == DType::kFloat16 ? 0x1.1p-11 : 0x1.1p-8;
    within(chain.absolute, unit)(cast(got[0], DType::kFloat32), of.at(result.name));
    if (::testing::Test::HasFailure())
      FAIL() << tile.rows << " x " << tile.columns << ", " << tile.teams << " teams of "
             << tile.warpgroups << (tile.resident ? ", weights stay" : "") << "\n"
             << print(one.graph) << "\n"
             << row.build(one, one.kernels[0]).source;
  }
}

TEST(ChainSm90, ThreeByThreeAndPointwise) {
  BRAZE_NEEDS_EMULATOR();
  check({.x = {2, 64, 17, 19}, .layers = {{64}, {64, window2d(1)}}}, 4);
  check({.x = {1, 64, 14, 13}, .layers = {{64}, {256, window2d(1)}}, .seed = 2}, 3);
}

TEST(ChainSm90, TwoThreeByThree) {
  BRAZE_NEEDS_EMULATOR();
  check({.x = {1, 64, 15, 16}, .layers = {{64}, {64}}}, 4);
  check({.x = {1, 64, 15, 16}, .layers = {{64}, {64, window2d(3, 1), Plus::kInput}}, .seed = 3}, 3);
}

TEST(ChainSm90, Bottleneck) {
  BRAZE_NEEDS_EMULATOR();
  const std::vector<Layer> layers = {{64, window2d(1)}, {64}, {256, window2d(1), Plus::kInput}};
  check({.x = {1, 256, 12, 11}, .layers = layers}, 4);
  check({.x = {2, 256, 9, 8}, .layers = layers, .dtype = DType::kBFloat16, .nonzeros = 3}, 2);
}

TEST(ChainSm90, EveryOrderOfTeamsAndWeights) {
  BRAZE_NEEDS_EMULATOR();
  // More tiles than multiprocessors; some teams have one less.
  for (const auto& [teams, warpgroups] : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}}) {
    for (const bool resident : {true, false}) {
      SCOPED_TRACE(::testing::Message() << teams << " " << warpgroups << " " << resident);
      check({.x = {1, 40, 20, 16},
             .layers = {{72, window2d(1)}, {40, window2d(2, 1)}, {40, window2d(2), Plus::kInput}},
             .seed = static_cast<unsigned>(10 * teams + warpgroups),
             .units = 2},
            1, [t = teams, w = warpgroups, resident](const Tile& tile) {
              return tile.teams == t && tile.warpgroups == w && tile.resident == resident &&
                     tile.rows * tile.columns >= 16 && tile.rows < 10;
            });
    }
  }
}

TEST(ChainSm90, FewChannelsAndOddOnes) {
  BRAZE_NEEDS_EMULATOR();
  check({.x = {1, 16, 20, 21}, .layers = {{16, window2d(1)}, {16, window2d(1)}}});
  check({.x = {2, 8, 12, 9}, .layers = {{21}, {13}, {30, window2d(1)}}});
  check({.x = {1, 72, 9, 9}, .layers = {{100}, {70}}});
}

TEST(ChainSm90, StridesOfTheFirst) {
  BRAZE_NEEDS_EMULATOR();
  check({.x = {1, 64, 23, 20}, .layers = {{64, window2d(3, 1, 2)}, {64}}}, 3);
  check({.x = {1, 32, 24, 20}, .layers = {{64, window2d(1, 0, 2)}, {48, window2d(1)}}});
  check({.x = {1, 24, 31, 20}, .layers = {{24, window2d(5, 2, 3)}, {48, window2d(3, 1)}}});
}

TEST(ChainSm90, OperandsOfEveryKind) {
  BRAZE_NEEDS_EMULATOR();
  check({.x = {1, 40, 12, 10}, .layers = {{40}, {40}, {40, window2d(3, 1), Plus::kFirst}}});
  check({.x = {1, 40, 12, 10},
         .layers = {{40, window2d(3, 1), Plus::kInput},
                    {40, window2d(3, 1), Plus::kOther},
                    {40, window2d(1), Plus::kInput},
                    {64, window2d(1), Plus::kOther, false}}});
}

/// How often the chain's kernel, with the tile that is estimated to be the fastest, loads operands.
std::size_t operands_loaded(const Chain& chain) {
  Planned planned(chain);
  planned.kernel.candidate = candidate_of(planned.tiles.front());
  const std::string source = chain_sm90().build(planned.plan, planned.kernel).source;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = source.find("kLoaded", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(ChainSm90, OperandsOfTheLastStageAreLoaded) {
  BRAZE_NEEDS_EMULATOR();
  for (const bool few : {false, true}) {
    for (const Plus plus : {Plus::kOther, Plus::kInput}) {
      const Chain chain{.x = {2, 136, 19, 13},
                        .layers = {{40}, {136, window2d(1), plus}},
                        .seed = few ? 5U : 6U,
                        .units = 3};
      EXPECT_EQ(operands_loaded(chain), 1U);
      check(chain, 3, [few](const Tile& tile) { return (tile.rows * tile.columns < 60) == few; });
    }
  }
  // Element by element where the result leaves so, too.
  const Chain each{.x = {1, 40, 12, 10}, .layers = {{40}, {30, window2d(1), Plus::kOther}}};
  EXPECT_EQ(operands_loaded(each), 0U);
  check(each);
  // One tile after another, with any number of places for 64 channels.
  const Chain many{
      .x = {1, 64, 16, 17}, .layers = {{64}, {320, window2d(1), Plus::kOther}}, .units = 1};
  const Planned planned(many);
  const chain90::Storage storage = chain90::storage_of(planned.problem, DType::kFloat16);
  for (int places = 1; places <= device::kMostChainStaged; ++places) {
    SCOPED_TRACE(places);
    check(many, 2, [&](const Tile& tile) {
      return chain90::geometry(planned.problem, storage, tile).staged_buffers == places;
    });
  }
  check({.x = {3, 64, 9, 9}, .layers = {{72}, {64, window2d(3, 1), Plus::kInput}}, .units = 1}, 3);
}

TEST(ChainSm90, OperandsOfStagesBeforeAreLoaded) {
  BRAZE_NEEDS_EMULATOR();
  // With a halo that reaches over the image's border.
  const Chain first{.x = {2, 72, 15, 18},
                    .layers = {{72, window2d(3, 1), Plus::kOther}, {40, window2d(5, 2)}},
                    .units = 2};
  const Chain middle{.x = {1, 40, 21, 9},
                     .layers = {{24, window2d(1)},
                                {136, window2d(3, 1), Plus::kOther},
                                {40, window2d(3, 1), Plus::kInput}},
                     .seed = 2,
                     .units = 2};
  const Chain all{.x = {1, 72, 11, 13},
                  .layers = {{72, window2d(3, 1), Plus::kInput},
                             {72, window2d(1), Plus::kOther},
                             {72, window2d(3, 1), Plus::kOther}},
                  .dtype = DType::kBFloat16,
                  .seed = 3,
                  .units = 1,
                  .nonzeros = 2};
  EXPECT_EQ(operands_loaded(first), 1U);
  EXPECT_EQ(operands_loaded(middle), 2U);
  EXPECT_EQ(operands_loaded(all), 3U);
  for (const Chain& chain : {first, middle, all}) check(chain, 4);
}

TEST(ChainSm90, OperandsInEveryOrderOfTeams) {
  BRAZE_NEEDS_EMULATOR();
  // Several tiles for each team, and in the last round fewer tiles than teams.
  const std::vector<Layer> halo = {{40, window2d(1), Plus::kOther},
                                   {40, window2d(3, 1), Plus::kInput}};
  const std::vector<Layer> wide = {{40, window2d(3, 1), Plus::kInput},
                                   {136, window2d(1), Plus::kOther}};
  for (const auto& [teams, warpgroups] : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}}) {
    for (const bool resident : {true, false}) {
      for (const auto& layers : {halo, wide}) {
        SCOPED_TRACE(::testing::Message() << teams << " " << warpgroups << " " << resident);
        check({.x = {1, 40, 21, 20},
               .layers = layers,
               .seed = static_cast<unsigned>(10 * teams + warpgroups),
               .units = 1},
              1, [t = teams, w = warpgroups, resident](const Tile& tile) {
                const std::int64_t tiles = ceil_div(21, tile.rows) * ceil_div(20, tile.columns);
                return tile.teams == t && tile.warpgroups == w && tile.resident == resident &&
                       tiles > 2 * t && tiles < 14 && (t == 1 || tiles % t != 0);
              });
        if (HasFailure()) return;
      }
    }
  }
}

TEST(ChainSm90, ResultsOverWhatTheyAreMadeOf) {
  BRAZE_NEEDS_EMULATOR();
  // Several tiles for each team; pixels with gaps between rows and without.
  const std::vector<Layer> pointwise = {{64}, {64, window2d(1)}};
  const std::vector<Layer> halo = {{64}, {40, window2d(3, 1)}};
  for (const auto& [teams, warpgroups] : {std::pair{2, 1}, {3, 1}, {1, 2}}) {
    for (const auto& layers : {pointwise, halo}) {
      SCOPED_TRACE(::testing::Message() << teams << " " << warpgroups);
      const Chain chain{.x = {2, 64, 31, 40},
                        .layers = layers,
                        .seed = static_cast<unsigned>(10 * teams + warpgroups),
                        .units = 1};
      const Planned planned(chain);
      const chain90::Storage storage = chain90::storage_of(planned.problem, chain.dtype);
      check(chain, 1, [&, t = teams, w = warpgroups](const Tile& tile) {
        const chain90::Geometry g = chain90::geometry(planned.problem, storage, tile);
        return tile.teams == t && tile.warpgroups == w && g.overwrites && g.tiles > 2 * t;
      });
    }
  }
}

TEST(ChainSm90, TurnsWhereTheInputHasFewPlaces) {
  BRAZE_NEEDS_EMULATOR();
  // A team's products begin before all of its input is there, while others wait for their turn.
  const Chain chain{
      .x = {1, 328, 21, 20}, .layers = {{40, window2d(1)}, {40, window2d(3, 1)}}, .units = 1};
  const Planned planned(chain);
  const chain90::Storage storage = chain90::storage_of(planned.problem, DType::kFloat16);
  for (const int teams : {2, 3}) {
    SCOPED_TRACE(teams);
    check(chain, 2, [&](const Tile& tile) {
      const chain90::Geometry g = chain90::geometry(planned.problem, storage, tile);
      return tile.teams == teams && tile.resident && g.input_slots < g.stages[0].planes &&
             g.tiles > teams && g.tiles < 20 && g.tiles % teams != 0;
    });
  }
}

TEST(ChainSm90, RandomChains) {
  BRAZE_NEEDS_EMULATOR();
  std::mt19937 random(7);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (unsigned seed = 1; seed <= 14; ++seed) {
    Chain chain{.x = {pick(1, 2), 8 * pick(1, 12), pick(6, 24), pick(6, 24)}, .seed = seed};
    if (seed % 4 == 0) chain.dtype = DType::kBFloat16, chain.nonzeros = 3;
    chain.units = static_cast<int>(pick(1, 40));
    std::int64_t extent[2] = {chain.x[2], chain.x[3]};
    const std::int64_t count = pick(2, chain.dtype == DType::kBFloat16 ? 3 : 4);
    for (std::int64_t i = 0; i < count; ++i) {
      Layer layer{.outputs = pick(1, 3) == 1 ? pick(1, 90) : 8 * pick(1, 20)};
      layer.relu = pick(0, 3) > 0;
      const std::int64_t stride = i == 0 && pick(0, 2) == 0 ? pick(2, 3) : 1;
      layer.window.strides = {stride, stride};
      for (std::size_t axis = 0; axis < 2; ++axis) {
        std::int64_t kernel = pick(1, 4), dilation = pick(0, 3) == 0 ? 2 : 1;
        const std::int64_t begin = pick(0, 2), end = pick(0, 2);
        if (extent[axis] + begin + end < (kernel - 1) * dilation + 1 + 2 * stride) kernel = 1;
        layer.window.kernel[axis] = kernel;
        layer.window.dilations[axis] = dilation;
        layer.window.pads_begin[axis] = begin;
        layer.window.pads_end[axis] = end;
        extent[axis] = (extent[axis] + begin + end - (kernel - 1) * dilation - 1) / stride + 1;
      }
      chain.layers.push_back(layer);
    }
    SCOPED_TRACE(seed);
    check(chain, 1);
    if (HasFatalFailure()) return;
  }
}

TEST(ChainSm90Depthwise, AndPointwise) {
  BRAZE_NEEDS_EMULATOR();
  check({.x = {2, 144, 17, 19},
         .layers = {depthwise(144, window2d(3, 1)), {24, window2d(1), Plus::kOther}}},
        3);
  check({.x = {1, 24, 14, 13},
         .layers = {depthwise(24, window2d(3, 1)), {24, window2d(1), Plus::kInput, false}},
         .seed = 2},
        4);
  check({.x = {1, 96, 9, 11},
         .layers = {depthwise(96, window2d(5, 2)), {40, window2d(1)}},
         .dtype = DType::kBFloat16,
         .seed = 3,
         .nonzeros = 3},
        3);
  check({.x = {1, 576, 7, 7},
         .layers = {depthwise(576, window2d(3, 1)), {160, window2d(1)}},
         .seed = 4});
}

TEST(ChainSm90Depthwise, StridesAndDilations) {
  BRAZE_NEEDS_EMULATOR();
  check({.x = {1, 96, 23, 20}, .layers = {depthwise(96, window2d(3, 1, 2)), {24, window2d(1)}}}, 3);
  check({.x = {1, 40, 31, 20}, .layers = {depthwise(40, window2d(5, 2, 3)), {40, window2d(3, 1)}}});
  Window dilated = window2d(3, 2);
  dilated.dilations = {2, 2};
  check({.x = {2, 40, 15, 18}, .layers = {depthwise(40, dilated), {40, window2d(1)}}}, 3);
  check({.x = {1, 40, 15, 18}, .layers = {depthwise(40, window2d(7, 3)), {40, window2d(1)}}});
}

TEST(ChainSm90Depthwise, InvertedResidual) {
  BRAZE_NEEDS_EMULATOR();
  check({.x = {1, 24, 15, 13},
         .layers = {{144, window2d(1)},
                    depthwise(144, window2d(3, 1)),
                    {24, window2d(1), Plus::kInput, false}}},
        4);
  check({.x = {2, 40, 8, 9},
         .layers = {{100, window2d(1)}, depthwise(100, window2d(5, 2)), {40, window2d(1)}},
         .seed = 2});
}

TEST(ChainSm90Depthwise, IsTheLast) {
  BRAZE_NEEDS_EMULATOR();
  check({.x = {1, 24, 15, 13}, .layers = {{144, window2d(1)}, depthwise(144, window2d(3, 1))}}, 4);
  check({.x = {1, 16, 12, 9}, .layers = {{30, window2d(1)}, depthwise(30, window2d(3, 1))}});
  check({.x = {1, 72, 12, 9},
         .layers = {depthwise(72, window2d(3, 1)), depthwise(72, window2d(3, 1))}});
}

TEST(ChainSm90Depthwise, EveryOrderOfTeamsAndWeights) {
  BRAZE_NEEDS_EMULATOR();
  const std::vector<Layer> second = {depthwise(72, window2d(3, 1)),
                                     {72, window2d(1), Plus::kInput}};
  const std::vector<Layer> third = {
      {72, window2d(1)}, depthwise(72, window2d(3, 1)), {72, window2d(1), Plus::kInput}};
  for (const auto& [teams, warpgroups] : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}}) {
    for (const bool resident : {true, false}) {
      for (const auto& layers : {second, third}) {
        SCOPED_TRACE(::testing::Message() << teams << " " << warpgroups << " " << resident);
        check({.x = {1, 72, 21, 20},
               .layers = layers,
               .seed = static_cast<unsigned>(10 * teams + warpgroups),
               .units = 1},
              1, [t = teams, w = warpgroups, resident](const Tile& tile) {
                const std::int64_t tiles = ceil_div(21, tile.rows) * ceil_div(20, tile.columns);
                return tile.teams == t && tile.warpgroups == w && tile.resident == resident &&
                       tiles > 2 * t && tiles < 24 && (t == 1 || tiles % t != 0);
              });
        if (HasFailure()) return;
      }
    }
  }
}

TEST(ChainSm90Depthwise, Activations) {
  BRAZE_NEEDS_EMULATOR();
  Layer clipped = depthwise(40, window2d(3, 1));
  clipped.activation = [](Net& net, const std::string& id, ValueId x) {
    return net.clip(id, x, 0, 6);
  };
  check({.x = {1, 40, 12, 10}, .layers = {clipped, {40, window2d(1), Plus::kInput, false}}});
  // Values that are no whole numbers, at the end of the chain: rounded once.
  for (const UnaryFn fn : {UnaryFn::kHardSwish, UnaryFn::kSilu}) {
    Layer last = depthwise(40, window2d(3, 1));
    last.activation = [fn](Net& net, const std::string& id, ValueId x) {
      return net.unary(id, fn, x);
    };
    check({.x = {1, 24, 12, 10}, .layers = {{40, window2d(1)}, last}, .absolute = 0x1p-24});
  }
}

/// Is the depthwise convolution of an inverted residual joined with others?
bool joins_depthwise(std::int64_t batch, std::int64_t channels, std::int64_t extent) {
  Net net = build({.x = {batch, channels, extent, extent},
                   .layers = {{6 * channels, window2d(1)},
                              depthwise(6 * channels, window2d(3, 1)),
                              {channels, window2d(1), Plus::kInput, false}}});
  lower_precision(net.graph, DType::kFloat16, true);
  const Plan plan =
      make_plan(net.graph, cuda_device(90), {FusionLevel::kFull, false}, cuda::registry());
  return std::ranges::any_of(plan.kernels, [&](const KernelPlan& kernel) {
    if (kernel.family != "chain_sm90") return false;
    return std::ranges::any_of(kernel.group.members, [&](const Group::Member& member) {
      const Conv* const conv = plan.graph.node(member.anchor).as<Conv>();
      return conv != nullptr && conv->group > 1;
    });
  });
}

TEST(ChainSm90Depthwise, IsPlannedWhereItPays) {
  EXPECT_TRUE(joins_depthwise(16, 32, 28));
  // Three short kernels that overlap are faster than a long one.
  EXPECT_FALSE(joins_depthwise(1, 32, 28));
  // Many pixels of few channels: most of the work would be that of the halo and of the CUDA cores.
  EXPECT_FALSE(joins_depthwise(32, 24, 56));
}

TEST(ChainSm90, ResultsOfAnotherTypeAndNaN) {
  BRAZE_NEEDS_EMULATOR();
  Net net;
  const ValueId x = net.unary("x", UnaryFn::kLog, net.input("in", {1, 32, 9, 9}));
  const ValueId a = net.unary("r", UnaryFn::kRelu, net.conv("a", x, 32, window2d(3, 1)));
  net.output(net.unary("s", UnaryFn::kRelu, net.conv("b", a, 32, window2d(1))));
  lower_precision(net.graph, DType::kFloat16, true);
  const Plan plan = make_plan(net.graph, cuda_device(90), {FusionLevel::kFull, false}, reluctant());
  const auto found = std::ranges::find_if(
      plan.kernels, [](const KernelPlan& one) { return one.family == "chain_sm90"; });
  ASSERT_NE(found, plan.kernels.end()) << print(plan);
  Plan one = plan;
  one.kernels = {*found};
  const Shape shape = plan.graph.value(found->group.inputs[0]).shape;
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)), 1);
  values[40] = std::numeric_limits<float>::quiet_NaN();  // channel 0, row 4, column 4
  const std::vector<Tensor> got = run_on_gpu(
      one, chain_sm90(), std::vector{make_tensor<float>(DType::kFloat16, shape, values)});
  const std::vector<float> y = load<float>(got[0]);
  EXPECT_TRUE(std::isnan(y[40]));
  EXPECT_TRUE(std::isnan(y[30])) << "a neighbour";
  EXPECT_FALSE(std::isnan(y[0]));
  EXPECT_FALSE(std::isnan(y[80]));
}

TEST(ChainSm90, CompilesForItsArchitecture) {
  std::string why;
  const std::shared_ptr<const Nvrtc> nvrtc = nvrtc_for(90, why);
  if (nvrtc == nullptr) GTEST_SKIP() << why;
  std::vector<std::string> sources;
  const Row row = chain_sm90();
  for (const Chain& chain :
       {Chain{.x = {1, 64, 56, 56}, .layers = {{64}, {64, window2d(1)}}},
        Chain{.x = {32, 64, 56, 56}, .layers = {{64}, {64}}, .dtype = DType::kBFloat16},
        Chain{.x = {8, 256, 56, 56},
              .layers = {{64, window2d(1)}, {64}, {256, window2d(1), Plus::kInput}}}}) {
    Planned planned(chain);
    planned.kernel.candidate = candidate_of(planned.tiles.front());
    sources.push_back(row.build(planned.plan, planned.kernel).source);
  }
  NvrtcCompiler compiler(nvrtc, 90, device_headers());
  EXPECT_EQ(compiler.compile(sources).size(), sources.size());
}

}  // namespace
}  // namespace braze::cuda::testing
