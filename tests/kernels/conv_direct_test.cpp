// Direct convolution against the interpreter: every layout, both vectors, every instruction set.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <random>
#include <string>

#include "kernels/cpu/conv_direct.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/harness.hpp"

namespace braze::cpu::testing {
namespace {

enum class Source { kNone, kConstant, kInput };
enum class After { kNothing, kRelu, kClip, kAddFull, kReluAddImage, kHardSwish };

struct Case {
  Shape x{1, 8, 9, 11};
  std::int64_t outputs = 8, group = 1;
  Ints kernel{3, 3}, strides{1, 1}, dilations{1, 1}, begin{1, 1}, end{1, 1};
  LayoutChoice in, out;
  Source weights = Source::kConstant, bias = Source::kConstant;
  After after = After::kNothing;
  ConvVector vector = ConvVector::kAuto;
  std::int64_t rows = 0, vectors = 0;
  std::size_t threads = 1;
  std::string isa = active_isa();
};

std::string text(const LayoutChoice& layout) {
  return layout.layout == Layout::kModel ? "model" : fmt::format("last+{}", layout.extra_pitch);
}

std::string text(const Case& c) {
  return fmt::format(
      "x {} K {} group {} kernel {} strides {} dilations {} pads {} {} in {} out {} weights {} "
      "bias {} "
      "after {} vector {} rows {} vectors {} threads {} isa {}",
      c.x, c.outputs, c.group, c.kernel, c.strides, c.dilations, c.begin, c.end, text(c.in),
      text(c.out), static_cast<int>(c.weights), static_cast<int>(c.bias), static_cast<int>(c.after),
      static_cast<int>(c.vector), c.rows, c.vectors, c.threads, c.isa);
}

/// A convolution and what comes after it, as a graph and as a group.
struct Built {
  Graph graph;
  Group group;
  std::vector<Tensor> inputs;  // of the group
  ValueId x = kNoValue, y = kNoValue;
  Tensor w;
};

Shape output_shape(const Case& c) {
  Shape y{c.x[0], c.outputs};
  for (std::size_t i = 0; i < c.kernel.size(); ++i) {
    const std::int64_t covered = (c.kernel[i] - 1) * c.dilations[i] + 1;
    y.push_back((c.x[i + 2] + c.begin[i] + c.end[i] - covered) / c.strides[i] + 1);
  }
  return y;
}

Built build(const Case& c, unsigned seed) {
  Built b;
  const auto source = [&](const char* name, Source from, Shape shape, unsigned stream) -> ValueId {
    if (from == Source::kNone) return kNoValue;
    Tensor tensor = random_tensor(shape, seed * 16 + stream);
    if (from == Source::kConstant) return b.graph.add_constant(name, tensor);
    const ValueId id = b.graph.add_value(name, DType::kFloat32, std::move(shape));
    b.graph.inputs.push_back(id);
    b.inputs.push_back(tensor);
    return id;
  };
  Shape w_shape{c.outputs, c.x[1] / c.group};
  w_shape.insert(w_shape.end(), c.kernel.begin(), c.kernel.end());
  const Shape y_shape = output_shape(c);

  b.x = source("x", Source::kInput, c.x, 0);
  const ValueId w = source("w", c.weights, w_shape, 1);
  b.w = random_tensor(w_shape, seed * 16 + 1);
  const ValueId bias = source("b", c.bias, {c.outputs}, 2);
  Conv conv;
  conv.window = {c.kernel, c.strides, c.dilations, c.begin, c.end, AutoPad::kNotSet};
  conv.group = c.group;
  b.y = b.graph.add_value("conv", DType::kFloat32, y_shape);
  Group::Member member;
  member.anchor = b.graph.add_node(conv, {b.x, w, bias}, {b.y}, "conv", {"conv"});

  const auto then = [&](Attributes op, ValueId operand, Broadcast broadcast) {
    const ValueId result = b.graph.add_value(fmt::format("after{}", b.y), DType::kFloat32, y_shape);
    std::vector<ValueId> operands{b.y};
    if (operand != kNoValue) operands.push_back(operand);
    EpilogueStep step;
    step.node = b.graph.add_node(op, operands, {result}, fmt::format("step{}", result), {});
    if (const auto* unary = std::get_if<Unary>(&op)) step.unary = *unary;
    if (const auto* binary = std::get_if<Binary>(&op)) step.binary = binary->fn;
    step.operand = operand;
    step.broadcast = broadcast;
    member.epilogue.steps.push_back(step);
    b.y = result;
  };
  Shape image(y_shape.size(), 1);
  image[0] = y_shape[0];
  image[1] = y_shape[1];
  switch (c.after) {
    case After::kNothing:
      break;
    case After::kRelu:
      then(Unary{UnaryFn::kRelu, 0, 0}, kNoValue, Broadcast::kScalar);
      break;
    case After::kClip:
      then(Unary{UnaryFn::kClip, -0.5, 1.5}, kNoValue, Broadcast::kScalar);
      break;
    case After::kAddFull:
      then(Binary{BinaryFn::kAdd}, source("r", Source::kInput, y_shape, 3), Broadcast::kFull);
      break;
    case After::kReluAddImage:
      then(Unary{UnaryFn::kRelu, 0, 0}, kNoValue, Broadcast::kScalar);
      then(Binary{BinaryFn::kAdd}, source("s", Source::kInput, image, 4), Broadcast::kImage);
      break;
    case After::kHardSwish:
      then(Unary{UnaryFn::kHardSwish, 0, 0}, kNoValue, Broadcast::kScalar);
      break;
  }
  member.result = b.y;
  b.graph.outputs.push_back({"y", b.y});
  b.group.members.push_back(member);
  b.group.inputs = b.graph.inputs;
  b.group.outputs = {b.y};
  return b;
}

Tensor absolute(const Tensor& tensor) {
  Tensor result = tensor.clone();
  for (std::int64_t i = 0; i < result.count(); ++i)
    result.as<float>()[i] = std::fabs(result.as<float>()[i]);
  return result;
}

/// sum |x||w| of every output of the convolution alone.
Tensor magnitudes(const Case& c, const Built& b) {
  Graph graph;
  const ValueId x = graph.add_value("x", DType::kFloat32, c.x);
  const ValueId w = graph.add_constant("w", absolute(b.w));
  const ValueId y = graph.add_value("y", DType::kFloat32, output_shape(c));
  Conv conv = *b.graph.node(b.group.members[0].anchor).as<Conv>();
  graph.add_node(conv, {x, w}, {y}, "conv", {});
  graph.inputs = {x};
  graph.outputs = {{"y", y}};
  const Tensor input = absolute(b.inputs[0]);
  return interpret(graph, std::span(&input, 1)).front();
}

/// Runs the case. Tolerance per element: u * (|ref| + 2 sqrt(K) sum |x||w|), u = 2^-24; 1.5 times
/// that behind HardSwish, whose slope is at most 1.5. Bias and operands add their own rounding: |b|
/// <= 1, a few u.
void check(const Case& c, unsigned seed) {
  ASSERT_TRUE(force_isa(c.isa));
  const Built b = build(c, seed);
  const Row row = conv_direct();
  const Support support =
      row.family.supports(b.graph, b.graph.node(b.group.members[0].anchor), cpu_device(1));
  ASSERT_TRUE(support.ok) << support.reason;
  std::map<ValueId, LayoutChoice> layouts{{b.x, c.in}, {b.y, c.out}};
  if (c.after == After::kAddFull) layouts[b.group.inputs.back()] = c.out;
  Plan plan = one_kernel_plan(b.graph, row, b.group, layouts);
  plan.kernels[0].candidate = {
      {{"vector", static_cast<std::int64_t>(c.vector)}, {"rows", c.rows}, {"vectors", c.vectors}}};
  const Tensor got = run_kernel(plan, row, b.inputs, c.threads).front();
  const Tensor want = interpret(b.graph, b.inputs).front();
  const Tensor sums = magnitudes(c, b);
  const double u = std::ldexp(1, -24);
  const double terms = std::sqrt(static_cast<double>(b.w.count()) / static_cast<double>(c.outputs));
  const double slope = c.after == After::kHardSwish ? 1.5 : 1;
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const double g = got.as<float>()[i];
    const double w = want.as<float>()[i];
    const double tolerance =
        u * slope * (std::fabs(w) + 2 * terms * static_cast<double>(sums.as<float>()[i]) + 6);
    ASSERT_TRUE(std::fabs(g - w) <= tolerance)
        << "element " << i << " is " << g << ", expected " << w << " +- " << tolerance;
  }
}

/// Cycles through values with a period of its own, so that a sweep over one axis meets all of the
/// others.
template <class T>
const T& pick(const std::vector<T>& values, std::size_t& counter) {
  return values[counter++ % values.size()];
}

const std::vector<LayoutChoice> kLayouts{
    {Layout::kModel, 0}, {Layout::kChannelsLast, 0}, {Layout::kChannelsLast, 5}};

class ConvDirect : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { force_isa(supported_isas().front()); }
  Case base() const {
    Case c;
    c.isa = GetParam();
    return c;
  }
};

TEST_P(ConvDirect, EveryFilterStrideDilationAndPadding) {
  unsigned seed = 0;
  std::size_t layout_in = 0, layout_out = 0, vector = 0, rows = 0;
  const std::vector<ConvVector> vectors{ConvVector::kChannels, ConvVector::kPixels};
  for (const Ints& kernel :
       {Ints{1, 1}, Ints{3, 3}, Ints{5, 5}, Ints{1, 3}, Ints{4, 2}, Ints{7, 7}}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t dilation : {1, 2, 3}) {
        for (const Ints& pads :
             {Ints{0, 0, 0, 0}, Ints{1, 1, 1, 1}, Ints{0, 1, 2, 3}, Ints{9, 7, 4, 8}}) {
          for (int repeat = 0; repeat < 4; ++repeat) {
            Case c = base();
            c.x = {1, 5, 21, 23};
            c.outputs = 7;
            c.kernel = kernel;
            c.strides = {stride, stride};
            c.dilations = {dilation, dilation};
            c.begin = {pads[0], pads[1]};
            c.end = {pads[2], pads[3]};
            c.in = pick(kLayouts, layout_in);
            if (seed % 3 == 0) layout_out++;
            c.out = pick(kLayouts, layout_out);
            c.vector = pick(vectors, vector);
            if (seed % 2 == 0) vector++;
            c.rows = pick(std::vector<std::int64_t>{0, 1, 3, 4}, rows);
            SCOPED_TRACE(text(c));
            check(c, ++seed);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(ConvDirect, EveryCountOfChannels) {
  unsigned seed = 1000;
  for (const std::int64_t channels : {1, 2, 3, 4, 7, 16, 19, 33}) {
    for (const std::int64_t outputs :
         {1, 2, 3, 5, 8, 9, 15, 16, 17, 24, 31, 32, 40, 47, 48, 64, 67}) {
      for (const LayoutChoice& in : kLayouts) {
        for (const LayoutChoice& out : kLayouts) {
          Case c = base();
          c.x = {1, channels, 4, 1 + (seed * 7) % 37};
          c.outputs = outputs;
          if (seed % 3 == 0) c.kernel = {1, 1}, c.begin = c.end = {0, 0};
          c.in = in;
          c.out = out;
          c.vector = seed % 2 == 0 ? ConvVector::kChannels : ConvVector::kPixels;
          SCOPED_TRACE(text(c));
          check(c, ++seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(ConvDirect, EveryWidth) {
  unsigned seed = 4000;
  for (std::int64_t width = 1; width <= 70; ++width) {
    for (const ConvVector vector : {ConvVector::kChannels, ConvVector::kPixels}) {
      Case c = base();
      c.x = {1, 3, 3, width};
      c.outputs = 20;
      c.in = kLayouts[seed % 3];
      c.out = kLayouts[seed / 3 % 3];
      c.vector = vector;
      SCOPED_TRACE(text(c));
      check(c, ++seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ConvDirect, GroupsBatchesAndDepthwise) {
  unsigned seed = 5000;
  for (const auto& [group, channels, outputs] : {std::array<std::int64_t, 3>{2, 8, 6},
                                                 {4, 16, 64},
                                                 {3, 3, 9},
                                                 {16, 16, 16},
                                                 {8, 8, 16},
                                                 {2, 70, 70}}) {
    for (const LayoutChoice& in : kLayouts) {
      for (const LayoutChoice& out : kLayouts) {
        for (const Ints& kernel : {Ints{1, 1}, Ints{3, 3}}) {
          Case c = base();
          c.x = {3, channels, 7, 10};
          c.outputs = outputs;
          c.group = group;
          c.kernel = kernel;
          c.begin = c.end = {kernel[0] / 2, kernel[1] / 2};
          c.in = in;
          c.out = out;
          c.vector = static_cast<ConvVector>(seed % 3);
          c.threads = 1 + seed % 2;
          SCOPED_TRACE(text(c));
          check(c, ++seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(ConvDirect, OneAndThreeSpatialAxes) {
  unsigned seed = 6000;
  for (const LayoutChoice& in : kLayouts) {
    for (const LayoutChoice& out : kLayouts) {
      for (const ConvVector vector : {ConvVector::kChannels, ConvVector::kPixels}) {
        Case line = base();
        line.x = {2, 6, 53};
        line.kernel = {5}, line.strides = {2}, line.dilations = {3}, line.begin = {4},
        line.end = {7};
        Case volume = base();
        volume.x = {2, 3, 5, 6, 19};
        volume.kernel = {3, 2, 3}, volume.strides = {2, 1, 2}, volume.dilations = {1, 2, 1};
        volume.begin = {1, 0, 2}, volume.end = {1, 1, 0};
        Case point = base();
        point.x = {2, 3, 5, 6, 7};
        point.kernel = point.strides = point.dilations = {1, 1, 1};
        point.begin = point.end = {0, 0, 0};
        for (Case c : {line, volume, point}) {
          c.in = in;
          c.out = out;
          c.vector = vector;
          c.rows = seed % 4;
          c.threads = 1 + seed / 2 % 2;
          SCOPED_TRACE(text(c));
          check(c, ++seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(ConvDirect, EpiloguesBiasesAndRunTimeWeights) {
  unsigned seed = 7000;
  for (const After after : {After::kNothing, After::kRelu, After::kClip, After::kAddFull,
                            After::kReluAddImage, After::kHardSwish}) {
    for (const Source weights : {Source::kConstant, Source::kInput}) {
      for (const Source bias : {Source::kNone, Source::kConstant, Source::kInput}) {
        for (const LayoutChoice& out : kLayouts) {
          Case c = base();
          c.x = {2, 8, 12, 20};
          c.outputs = 40;
          c.after = after;
          c.weights = weights;
          c.bias = bias;
          c.in = kLayouts[seed % 3];
          c.out = out;
          c.vector = static_cast<ConvVector>(seed % 3);
          c.threads = 1 + seed % 2;
          SCOPED_TRACE(text(c));
          check(c, ++seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(ConvDirect, LongSums) {
  for (const ConvVector vector : {ConvVector::kChannels, ConvVector::kPixels}) {
    Case c = base();
    c.x = {1, 700, 5, 6};
    c.outputs = 34;
    c.vector = vector;
    SCOPED_TRACE(text(c));
    check(c, 8000);
  }
}

/// Wide rows are cut into segments, many rows into bands, all shared by the workers.
TEST_P(ConvDirect, SegmentsAndBands) {
  unsigned seed = 8100;
  for (const LayoutChoice& in : kLayouts) {
    for (const Ints& kernel : {Ints{1, 1}, Ints{3, 3}}) {
      Case c = base();
      c.x = {1, 64, 6, 1500};
      c.outputs = 3;
      c.kernel = kernel;
      c.begin = c.end = {kernel[0] / 2, kernel[1] / 2};
      c.in = c.out = in;
      c.threads = 2;
      c.vector = static_cast<ConvVector>(seed % 2 + 1);
      SCOPED_TRACE(text(c));
      check(c, ++seed);
    }
  }
}

TEST_P(ConvDirect, RandomCases) {
  const unsigned base_seed = std::random_device{}();
  for (unsigned i = 0; i < 250; ++i) {
    const unsigned seed = base_seed + i;
    std::mt19937 generator(seed);
    const auto number = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
    };
    Case c = base();
    const auto axes = static_cast<std::size_t>(number(1, 3));
    c.group = number(0, 3) == 0 ? number(2, 5) : 1;
    c.x = {number(1, 2), c.group * number(1, 20)};
    c.outputs = c.group * number(1, 40);
    c.kernel.assign(axes, 1), c.strides = c.dilations = c.begin = c.end = c.kernel;
    for (std::size_t a = 0; a < axes; ++a) {
      c.kernel[a] = number(1, 4);
      c.strides[a] = number(1, 3);
      c.dilations[a] = number(1, 3);
      c.begin[a] = number(0, 3);
      c.end[a] = number(0, 3);
      const std::int64_t least =
          std::max<std::int64_t>(1, (c.kernel[a] - 1) * c.dilations[a] + 1 - c.begin[a] - c.end[a]);
      c.x.push_back(least + number(0, axes == 1 ? 90 : axes == 2 ? 20 : 6));
    }
    c.in = kLayouts[static_cast<std::size_t>(number(0, 2))];
    c.out = kLayouts[static_cast<std::size_t>(number(0, 2))];
    c.weights = number(0, 3) == 0 ? Source::kInput : Source::kConstant;
    c.bias = static_cast<Source>(number(0, 2));
    c.after = static_cast<After>(number(0, 5));
    c.vector = static_cast<ConvVector>(number(0, 2));
    c.rows = number(0, 5);
    c.vectors = number(0, 3);
    c.threads = static_cast<std::size_t>(number(1, 2));
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, text(c)));
    check(c, seed);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ConvDirect, ReluAndClipKeepNaN) {
  for (const After after : {After::kRelu, After::kClip}) {
    for (const ConvVector vector : {ConvVector::kChannels, ConvVector::kPixels}) {
      Case c = base();
      c.after = after;
      c.vector = vector;
      ASSERT_TRUE(force_isa(c.isa));
      Built b = build(c, 1);
      b.inputs[0].as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      Plan plan = one_kernel_plan(b.graph, conv_direct(), b.group);
      plan.kernels[0].candidate = {{{"vector", static_cast<std::int64_t>(vector)}}};
      const Tensor got = run_kernel(plan, conv_direct(), b.inputs).front();
      const Tensor want = interpret(b.graph, b.inputs).front();
      std::int64_t nans = 0;
      for (std::int64_t i = 0; i < got.count(); ++i) {
        EXPECT_EQ(std::isnan(got.as<float>()[i]), std::isnan(want.as<float>()[i])) << i;
        nans += std::isnan(got.as<float>()[i]) ? 1 : 0;
      }
      EXPECT_EQ(nans, 4 * c.outputs);  // the four 3x3 windows that see the corner
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, ConvDirect, ::testing::ValuesIn(supported_isas()),
                         [](const auto& info) { return info.param; });

TEST(ConvDirectFamily, RefusesOtherTypesAndEmptyTensors) {
  Case c;
  const Built b = build(c, 1);
  const NodeId anchor = b.group.members[0].anchor;
  const auto supports = conv_direct().family.supports;
  Graph half = b.graph;
  half.value(b.x).dtype = DType::kFloat16;
  EXPECT_EQ(supports(half, half.node(anchor), cpu_device(1)).rule, "dtype");
  Graph empty = b.graph;
  empty.value(b.x).shape[0] = 0;
  EXPECT_EQ(supports(empty, empty.node(anchor), cpu_device(1)).rule, "empty");
}

TEST(ConvDirectFamily, CountsWork) {
  Case c;
  c.x = {2, 16, 10, 10};
  c.outputs = 32;
  const Built b = build(c, 1);
  const KernelFamily family = conv_direct().family;
  const Device device = cpu_device(1);
  const Work work =
      family.work(b.graph, b.group, family.candidates(b.graph, b.group, device).front(), device);
  EXPECT_EQ(work.flops, 2.0 * 2 * 32 * 100 * 16 * 9);
  EXPECT_EQ(work.dram_bytes, 4.0 * (2 * 16 * 100 + 2 * 32 * 100 + 32 * 16 * 9 + 32));
  EXPECT_GT(work.efficiency, 0.5);
  EXPECT_LT(work.efficiency, 1);
}

}  // namespace
}  // namespace braze::cpu::testing
