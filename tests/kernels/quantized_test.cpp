// Quantize, Dequantize and QLinearConv: the same bits as the interpreter.
#include "base/error.hpp"
#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

Tensor scalar(float value) { return make_tensor<float>(DType::kFloat32, {}, {value}); }
Tensor integer(DType dtype, double value) { return make_tensor<double>(dtype, {}, {value}); }

Tensor integers(DType dtype, Shape shape, unsigned seed) {
  std::mt19937 random(seed);
  const IntegerRange range = integer_range(dtype);
  const std::int64_t low = std::max<std::int64_t>(range.low, -100000),
                     high = std::min<std::int64_t>(range.high, 100000);
  std::uniform_int_distribution<std::int64_t> uniform(low, high);
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (double& value : values) value = static_cast<double>(uniform(random));
  return make_tensor<double>(dtype, std::move(shape), values);
}

class Quantized : public OnIsa {};

TEST_P(Quantized, Quantize) {
  for (const DType to : {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16}) {
    Tensor x = random_tensor({2, 5, 6, 19}, 1, -300, 300);
    constexpr float kInf = std::numeric_limits<float>::infinity();
    const float odd[] = {
        0.5F,  1.5F,  -0.5F, -2.5F, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(),
        3e38F, -0.0F, 1e-40F};
    std::copy(std::begin(odd), std::end(odd), x.as<float>());
    for (const float scale : {1.0F, 0.1F, 3.7e-3F}) {
      check_node(quantized(), {braze::Quantize{1, to}, {x, scalar(scale), integer(to, 3)}, {1, 2}});
      check_node(quantized(), {braze::Quantize{1, to}, {x, scalar(scale)}, {1}});
    }
    check_node(quantized(),
               {braze::Quantize{1, to}, {x, scalar(0.3F), integer(to, 100)}});  // known at run time
    for (const std::int64_t axis : {0, 1, 2, 3}) {
      const std::int64_t extent = x.shape()[static_cast<std::size_t>(axis)];
      check_node(quantized(), {braze::Quantize{axis, to},
                               {x, random_tensor({extent}, 2, 0.01F, 2), integers(to, {extent}, 3)},
                               {1, 2}});
    }
  }
  check_node(
      quantized(),
      {braze::Quantize{1, DType::kUInt8}, {random_tensor({1, 40, 50, 70}, 1), scalar(0.01F)}, {1}});
}

TEST_P(Quantized, Dequantize) {
  for (const DType from :
       {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16, DType::kInt32}) {
    const Tensor x = integers(from, {2, 5, 6, 19}, 1);
    check_node(quantized(), {braze::Dequantize{1}, {x, scalar(0.3F), integer(from, 7)}, {1, 2}});
    check_node(quantized(), {braze::Dequantize{1}, {x, scalar(0.3F)}, {1}});
    for (const std::int64_t axis : {0, 1, 2, 3}) {
      const std::int64_t extent = x.shape()[static_cast<std::size_t>(axis)];
      check_node(quantized(),
                 {braze::Dequantize{axis},
                  {x, random_tensor({extent}, 2, 0.01F, 2), integers(from, {extent}, 3)},
                  {1, 2}});
    }
  }
  check_node(quantized(),
             {braze::Dequantize{0},
              {make_tensor<double>(DType::kInt32, {2}, {2147483647, -2147483648.0}), scalar(0.3F)},
              {1}});
}

struct ConvCase {
  Shape x, w;
  std::int64_t group = 1, stride = 1, dilation = 1, pad = 0;
};

OneNode qlinear(const ConvCase& c, DType x_type, DType w_type, DType y_type, bool per_channel,
                bool bias) {
  QLinearConv op;
  op.group = c.group;
  const std::size_t axes = c.x.size() - 2;
  op.window.kernel.assign(c.w.begin() + 2, c.w.end());
  op.window.strides.assign(axes, c.stride);
  op.window.dilations.assign(axes, c.dilation);
  op.window.pads_begin.assign(axes, c.pad);
  op.window.pads_end.assign(axes, c.pad);
  const std::int64_t k = c.w[0];
  const Tensor w_scale = per_channel ? random_tensor({k}, 5, 0.001F, 0.02F) : scalar(0.01F);
  const Tensor w_zero = per_channel ? integers(w_type, {k}, 6) : integer(w_type, 5);
  return {op,
          {integers(x_type, c.x, 1), scalar(0.02F), integer(x_type, 100), integers(w_type, c.w, 2),
           w_scale, w_zero, scalar(0.9F), integer(y_type, 20),
           bias ? integers(DType::kInt32, {k}, 7) : Tensor{}},
          {1, 2, 3, 4, 5, 6, 7, 8}};
}

TEST_P(Quantized, QLinearConv) {
  const ConvCase cases[] = {
      {{1, 3, 11, 13}, {5, 3, 3, 3}, 1, 1, 1, 1},  {{2, 8, 9, 10}, {7, 8, 1, 1}},
      {{1, 8, 9, 10}, {8, 1, 3, 3}, 8, 1, 1, 1},   {{1, 6, 15, 17}, {4, 3, 3, 5}, 2, 2, 1, 2},
      {{1, 4, 12, 12}, {9, 4, 3, 3}, 1, 1, 2, 2},  {{1, 4, 12, 12}, {8, 2, 3, 3}, 2, 3, 2, 4},
      {{2, 4, 30}, {5, 4, 7}, 1, 2, 1, 3},         {{1, 2, 5, 6, 7}, {3, 2, 3, 3, 3}, 1, 1, 1, 1},
      {{1, 2, 4, 1100}, {3, 2, 1, 3}, 1, 1, 1, 1}, {{1, 3, 40, 45}, {6, 3, 1, 1}},
  };
  for (const ConvCase& c : cases) {
    for (int bits = 0; bits < 32; bits += 3) {
      const auto type = [bits](int bit) {
        return (bits >> bit & 1) != 0 ? DType::kInt8 : DType::kUInt8;
      };
      check_node(quantized(),
                 qlinear(c, type(0), type(1), type(2), (bits & 8) != 0, (bits & 16) != 0));
    }
  }
}

TEST_P(Quantized, WhatTheReferenceRuns) {
  const auto refused = [](const OneNode& node) {
    return quantized().family.supports(node.graph, node.graph.node(0), cpu_device(1)).rule;
  };
  EXPECT_EQ(refused({braze::Quantize{1, DType::kInt8},
                     {counting_tensor(DType::kInt32, {3}, 1), scalar(1)}}),
            "dtype");
  OneNode run_time =
      qlinear({{1, 3, 5, 5}, {5, 3, 3, 3}}, DType::kUInt8, DType::kInt8, DType::kUInt8, true, true);
  run_time.graph.value(run_time.graph.node(0).inputs[3]).constant.reset();
  EXPECT_EQ(refused(run_time), "constant");
  const OneNode deep = qlinear({{1, 33100, 1, 1}, {1, 33100, 1, 1}}, DType::kUInt8, DType::kInt8,
                               DType::kUInt8, false, false);
  EXPECT_EQ(refused(deep), "terms");
}

BRAZE_ON_EVERY_ISA(Quantized);

}  // namespace
}  // namespace braze::cpu::testing
