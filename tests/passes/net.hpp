// A small graph, node by node, for tests of passes. Every node is a model node of its own id.
#pragma once

#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/elements.hpp"
#include "graph/graph.hpp"
#include "graph/shape.hpp"
#include "passes/pipeline.hpp"

namespace braze::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Window of `kernel` everywhere, with the same stride and padding on all sides.
inline Window window2d(std::int64_t kernel, std::int64_t pad = 0, std::int64_t stride = 1) {
  return {{kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}, AutoPad::kNotSet};
}

class Net {
 public:
  Graph graph;

  explicit Net(unsigned seed = 1) : random_(seed) { graph.name = "net"; }

  ValueId input(const std::string& name, Shape shape, DType dtype = DType::kFloat32) {
    const ValueId id = graph.add_value(name, dtype, std::move(shape));
    graph.value(id).known_rank = true;
    graph.inputs.push_back(id);
    return id;
  }

  ValueId constant(Shape shape, const std::vector<double>& values, DType dtype = DType::kFloat32) {
    return graph.add_constant("c" + std::to_string(constants_++),
                              make_tensor(dtype, std::move(shape), values));
  }
  ValueId scalar(double value, DType dtype = DType::kFloat32) {
    return constant({}, {value}, dtype);
  }
  ValueId random(Shape shape, double low = -1, double high = 1, DType dtype = DType::kFloat32) {
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (double& value : values) value = uniform(low, high);
    return constant(std::move(shape), values, dtype);
  }

  /// A node with one output, which is named like it.
  ValueId op(const std::string& id, Attributes attributes, std::vector<ValueId> inputs) {
    const ValueId output = graph.add_value(id);
    set_types(graph, graph.add_node(std::move(attributes), std::move(inputs), {output}, id, {id}));
    ids_.push_back(id);
    return output;
  }
  ValueId unary(const std::string& id, UnaryFn fn, ValueId x, double alpha = 0, double beta = 0) {
    return op(id, Unary{fn, alpha, beta}, {x});
  }
  ValueId clip(const std::string& id, ValueId x, double low, double high) {
    return unary(id, UnaryFn::kClip, x, low, high);
  }
  ValueId binary(const std::string& id, BinaryFn fn, ValueId a, ValueId b) {
    return op(id, Binary{fn}, {a, b});
  }
  ValueId add(const std::string& id, ValueId a, ValueId b) {
    return binary(id, BinaryFn::kAdd, a, b);
  }
  ValueId sub(const std::string& id, ValueId a, ValueId b) {
    return binary(id, BinaryFn::kSub, a, b);
  }
  ValueId mul(const std::string& id, ValueId a, ValueId b) {
    return binary(id, BinaryFn::kMul, a, b);
  }
  ValueId div(const std::string& id, ValueId a, ValueId b) {
    return binary(id, BinaryFn::kDiv, a, b);
  }
  ValueId reshape(const std::string& id, ValueId x, Shape shape) {
    return op(id, Reshape{std::move(shape), false}, {x});
  }
  ValueId transpose(const std::string& id, ValueId x, Ints perm) {
    return op(id, Transpose{std::move(perm)}, {x});
  }
  ValueId pad2d(const std::string& id, ValueId x, Ints begin_end, double value = 0,
                PadMode mode = PadMode::kConstant) {
    return op(
        id, Pad{mode, {0, 0, begin_end[0], begin_end[1], 0, 0, begin_end[2], begin_end[3]}, value},
        {x});
  }
  /// Slice along one axis.
  ValueId slice(const std::string& id, ValueId x, std::size_t axis, std::int64_t start,
                std::int64_t end, std::int64_t step = 1) {
    const Shape shape = this->shape(x);
    Slice slice{Ints(shape.size(), 0), shape, {}, Ints(shape.size(), 1)};
    slice.starts[axis] = start;
    slice.ends[axis] = end;
    slice.steps[axis] = step;
    return op(id, slice, {x});
  }

  /// Parts of these sizes along channels.
  std::vector<ValueId> split(const std::string& id, ValueId x, const Ints& sizes) {
    std::vector<ValueId> parts;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      parts.push_back(graph.add_value(id + std::to_string(i)));
    set_types(graph, graph.add_node(Split{1, sizes}, {x}, parts, id, {id}));
    ids_.push_back(id);
    return parts;
  }
  /// Every pixel of [N, C, H, W] several times.
  ValueId upsample(const std::string& id, ValueId x, std::int64_t rows, std::int64_t columns,
                   ResizeMode mode = ResizeMode::kNearest) {
    Resize resize;
    resize.mode = mode;
    resize.scales = {1, 1, static_cast<double>(rows), static_cast<double>(columns)};
    resize.roi = {0, 0, 0, 0, 1, 1, 1, 1};
    resize.sizes = shape(x);
    resize.sizes[2] *= rows;
    resize.sizes[3] *= columns;
    return op(id, resize, {x});
  }

  /// A convolution to `channels` with random weights, scaled to keep magnitudes, and a bias if
  /// wanted.
  ValueId conv(const std::string& id, ValueId x, std::int64_t channels, const Window& window,
               std::int64_t group = 1, bool bias = true) {
    const ValueId weights =
        conv_weights({channels, shape(x)[1] / group, window.kernel[0], window.kernel[1]});
    std::vector<ValueId> inputs = {x, weights};
    if (bias) inputs.push_back(random({channels}));
    return op(id, Conv{window, group}, std::move(inputs));
  }
  ValueId conv_transpose(const std::string& id, ValueId x, std::int64_t channels,
                         const Window& window, std::int64_t group = 1, bool bias = true) {
    const ValueId weights =
        conv_weights({shape(x)[1], channels / group, window.kernel[0], window.kernel[1]});
    std::vector<ValueId> inputs = {x, weights};
    if (bias) inputs.push_back(random({channels}));
    return op(id, ConvTranspose{window, {0, 0}, {}, group}, std::move(inputs));
  }
  ValueId batch_norm(const std::string& id, ValueId x, double epsilon = 1e-3) {
    const Shape channels = {shape(x)[1]};
    return op(id, BatchNorm{epsilon},
              {x, random(channels, 0.5, 2), random(channels), random(channels),
               random(channels, 0.1, 2)});
  }

  void output(ValueId id) { graph.outputs.push_back({graph.value(id).name, id}); }

  [[nodiscard]] const Shape& shape(ValueId id) const { return graph.value(id).shape; }
  [[nodiscard]] const std::vector<std::string>& ids() const { return ids_; }  // of all nodes added
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  /// Random tensors for the graph's inputs.
  std::vector<Tensor> inputs(double low = -3, double high = 3) {
    std::vector<Tensor> tensors;
    for (const ValueId input : graph.inputs) {
      std::vector<double> values(static_cast<std::size_t>(element_count(shape(input))));
      for (double& value : values) value = uniform(low, high);
      tensors.push_back(make_tensor(graph.value(input).dtype, shape(input), values));
    }
    return tensors;
  }

 private:
  ValueId conv_weights(const Shape& shape) {
    const double fan_in = static_cast<double>(element_count({shape.begin() + 1, shape.end()}));
    return random(shape, -2 / std::sqrt(fan_in), 2 / std::sqrt(fan_in));
  }

  std::mt19937 random_;
  std::vector<std::string> ids_;
  int constants_ = 0;
};

}  // namespace braze::test
