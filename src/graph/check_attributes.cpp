#include "graph/check_attributes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.hpp"

namespace braze {
namespace {

constexpr std::int64_t kLargest = (std::int64_t{1} << 31) - 1;  // products of two fit into 64 bits
constexpr std::int64_t kMostElements = std::int64_t{1} << 47;   // as check_shape() allows

class AttributeChecker {
 public:
  AttributeChecker(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  template <class Op>
  void operator()(const Op&) const {}  // nothing that infer() does not check

  void operator()(const Conv& op) const { check_convolution(op.window, op.group, 1); }
  void operator()(const QLinearConv& op) const { check_convolution(op.window, op.group, 3); }
  void operator()(const ConvTranspose& op) const {
    check_convolution(op.window, op.group, 1);
    expect(std::ssize(op.output_padding) == rank() - 2 && op.output_shape.empty() &&
               within(op.output_padding, 0, kLargest),
           "output_padding");
    for (std::size_t i = 0; i < op.window.strides.size(); ++i) {
      std::int64_t reach = 0;
      expect(!__builtin_mul_overflow(op.window.strides[i], x()[i + 2], &reach) &&
                 reach < kMostElements,
             "strides");
    }
  }
  void operator()(const Pool& op) const { check_window(op.window); }
  void operator()(const Lrn& op) const { expect(within({op.size}, 1, kLargest), "size"); }

  void operator()(const Reduce& op) const {
    expect(!op.spatial && within(op.axes, 0, rank() - 1) &&
               std::adjacent_find(op.axes.begin(), op.axes.end(), std::greater_equal<>()) ==
                   op.axes.end(),
           "axes");
  }
  void operator()(const ArgReduce& op) const { check_axis(op.axis); }
  void operator()(const Softmax& op) const {
    check_axis(op.axis);
    expect(!op.flatten, "flatten");
  }
  void operator()(const Concat& op) const { check_axis(op.axis); }
  void operator()(const Gather& op) const { check_axis(op.axis); }
  void operator()(const Split& op) const {
    check_axis(op.axis);
    expect(!op.sizes.empty() && within(op.sizes, 0, kMostElements / std::ssize(op.sizes)), "sizes");
  }
  void operator()(const Quantize& op) const { check_scale_axis(op.axis); }
  void operator()(const Dequantize& op) const { check_scale_axis(op.axis); }

  /// From start on by steps; what is left of each axis lies within it.
  void operator()(const Slice& op) const {
    const auto axes = static_cast<std::size_t>(rank());
    expect(op.starts.size() == axes && op.ends.size() == axes && op.steps.size() == axes &&
               op.axes.empty() && within(op.starts, -1, kMostElements) &&
               within(op.ends, -1, kMostElements) &&
               within(op.steps, -kMostElements, kMostElements),
           "starts, ends and steps");
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t step = op.steps[i];
      expect(step != 0, "steps");
      const std::int64_t distance =
          step > 0 ? op.ends[i] - op.starts[i] : op.starts[i] - op.ends[i];
      if (distance <= 0) continue;
      const std::int64_t last = op.starts[i] + (distance - 1) / std::abs(step) * step;
      expect(within({op.starts[i], last}, 0, x()[i] - 1), "starts and ends");
    }
  }
  void operator()(const Pad& op) const {
    expect(std::ssize(op.pads) == 2 * rank() && within(op.pads, -kMostElements, kMostElements),
           "pads");
  }
  void operator()(const DepthToSpace& op) const { expect(within({op.block}, 1, 4096), "block"); }
  void operator()(const SpaceToDepth& op) const { expect(within({op.block}, 1, 4096), "block"); }

  void operator()(const ConstantOfShape&) const { expect(false, "presence"); }
  void operator()(const Range&) const { expect(false, "presence"); }

  /// A scale says how long the output is, up to rounding: coordinates stay near the input.
  void operator()(const Resize& op) const {
    const auto axes = static_cast<std::size_t>(rank());
    expect(op.sizes.size() == axes && op.scales.size() == axes && op.roi.size() == 2 * axes &&
               within(op.sizes, 0, kMostElements),
           "sizes, scales and roi");
    for (const double bound : op.roi) expect(std::fabs(bound) <= 0x1p20, "roi");
    const bool crops = op.coordinate == CoordinateMode::kTfCropAndResize;
    for (std::size_t i = 0; i < axes; ++i) {
      if (op.sizes[i] == 0) continue;
      const double scale = op.scales[i];
      const double width = scale * static_cast<double>(x()[i]);
      expect(scale > 0 && scale <= 0x1p31 && width >= 0.49, "scales");
      const auto size = static_cast<double>(op.sizes[i]);
      if (crops) {
        expect(op.sizes[i] == 1 || std::fabs(width - 1) > 1e-6, "scales");
      } else {
        expect(size <= width * (1 + 1e-5) + 0.51, "scales and sizes");
      }
    }
    expect(std::isfinite(op.cubic_a), "cubic_a");
  }

 private:
  void expect(bool condition, const char* attribute) const {
    if (condition) return;
    fail(ErrorCode::kModelInvalid, "node '{}' ({}): its {} can be those of no resolved node on {}",
         node_.id, to_string(node_.kind()), attribute, to_string(x()));
  }
  static bool within(const Ints& values, std::int64_t least, std::int64_t most) {
    return std::all_of(values.begin(), values.end(),
                       [&](std::int64_t value) { return value >= least && value <= most; });
  }
  const Shape& shape(std::size_t input) const { return graph_.value(node_.inputs[input]).shape; }
  const Shape& x() const { return shape(0); }
  std::int64_t rank() const { return std::ssize(x()); }

  void check_axis(std::int64_t axis) const { expect(axis >= 0 && axis < rank(), "axis"); }
  void check_scale_axis(std::int64_t axis) const {
    if (element_count(shape(1)) != 1) check_axis(axis);
  }

  void check_window(const Window& window) const {
    const std::int64_t spatial = rank() - 2;
    expect(spatial >= 1 && spatial <= 3 && window.auto_pad == AutoPad::kNotSet, "window");
    for (const Ints* list : {&window.kernel, &window.strides, &window.dilations})
      expect(std::ssize(*list) == spatial && within(*list, 1, kLargest), "window");
    for (const Ints* list : {&window.pads_begin, &window.pads_end})
      expect(std::ssize(*list) == spatial && within(*list, -kLargest, kLargest), "pads");
  }
  void check_convolution(const Window& window, std::int64_t group, std::size_t weight) const {
    check_window(window);
    expect(std::ssize(shape(weight)) == rank() && within(shape(weight), 1, kLargest) &&
               within({group, x()[1]}, 1, kLargest),
           "group and weight");
  }

  const Graph& graph_;
  const Node& node_;
};

}  // namespace

void check_attributes(const Graph& graph, const Node& node) {
  std::visit(AttributeChecker(graph, node), node.op);
}

}  // namespace braze
