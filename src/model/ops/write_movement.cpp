// Operators that move elements, to ONNX. Their resolved parameters become constant inputs again.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "model/node_writer.hpp"

namespace braze::model {
namespace {

constexpr const char* kPadModes[] = {"constant", "reflect", "edge", "wrap"};
constexpr const char* kResizeModes[] = {"nearest", "linear", "cubic"};
constexpr const char* kCoordinateModes[] = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
constexpr const char* kNearestModes[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                         "ceil"};

template <class Enum, std::size_t kCount>
const char* name_of(const char* const (&names)[kCount], Enum value) {
  return names[static_cast<std::size_t>(value)];
}

[[noreturn]] void not_resolved() {
  fail(ErrorCode::kInternal, "internal error: a graph is written before it is resolved");
}

/// The scales of opset 17 cannot be told from the sizes: whichever of them gives both back.
void write_resize_inputs(const Resize& op, NodeWriter& node, std::vector<std::string>& inputs) {
  const Shape& x = node.value(0).shape;
  bool sizes_tell = true;
  bool scales_tell = true;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto extent = static_cast<double>(x[i]);
    const auto size = static_cast<double>(op.sizes[i]);
    if (x[i] > 0) sizes_tell &= op.scales[i] == size / extent;
    const float scaled = static_cast<float>(x[i]) * static_cast<float>(op.scales[i]);
    scales_tell &= std::floor(scaled) == static_cast<float>(op.sizes[i]);
  }
  if (sizes_tell) {
    inputs.emplace_back("");
    inputs.push_back(node.ints(op.sizes));
  } else if (scales_tell) {
    inputs.push_back(node.floats(op.scales));
  } else {
    node.no_spelling("a size that its scale does not give");
  }
}

}  // namespace

void write_op(const Concat& op, NodeWriter& node) { node.last("Concat").set("axis", op.axis); }

void write_op(const Split& op, NodeWriter& node) {
  node.last("Split", {node.input(0), node.ints(op.sizes)}).set("axis", op.axis);
}

/// A resolved end of -1 comes with a negative step and means "through element 0".
void write_op(const Slice& op, NodeWriter& node) {
  Ints ends = op.ends;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (op.steps[i] < 0 && ends[i] < 0) ends[i] = std::numeric_limits<std::int64_t>::min();
  }
  Ints axes(ends.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  node.last("Slice", {node.input(0), node.ints(op.starts), node.ints(ends), node.ints(axes),
                      node.ints(op.steps)});
}

void write_op(const Pad& op, NodeWriter& node) {
  if (op.mode == PadMode::kWrap) node.no_spelling("the mode wrap");
  std::vector<std::string> inputs = {node.input(0), node.ints(op.pads)};
  if (op.mode == PadMode::kConstant) inputs.push_back(node.scalar(op.value));
  node.last("Pad", inputs).set("mode", name_of(kPadModes, op.mode));
}

void write_op(const Reshape& op, NodeWriter& node) {
  const bool has_zero = std::find(op.dims.begin(), op.dims.end(), 0) != op.dims.end();
  node.last("Reshape", {node.input(0), node.ints(op.dims)}).set("allowzero", has_zero);
}

void write_op(const Transpose& op, NodeWriter& node) {
  node.last("Transpose").set("perm", op.perm);
}
void write_op(const Gather& op, NodeWriter& node) { node.last("Gather").set("axis", op.axis); }
void write_op(const Expand& op, NodeWriter& node) {
  node.last("Expand", {node.input(0), node.ints(op.dims)});
}
void write_op(const Tile& op, NodeWriter& node) {
  node.last("Tile", {node.input(0), node.ints(op.repeats)});
}
void write_op(const ConstantOfShape& op, NodeWriter& node) {
  node.last("ConstantOfShape").set("value", op.value.reshaped({1}));
}
void write_op(const Range& /*op*/, NodeWriter& node) { node.last("Range"); }

void write_op(const Resize& op, NodeWriter& node) {
  if (op.antialias) node.no_spelling("antialias");
  if (op.coordinate == CoordinateMode::kHalfPixelSymmetric)
    node.no_spelling("half_pixel_symmetric");
  const bool crops = op.coordinate == CoordinateMode::kTfCropAndResize;
  std::vector<std::string> inputs = {node.input(0), crops ? node.floats(op.roi) : ""};
  write_resize_inputs(op, node, inputs);
  OnnxNode written = node.last("Resize", inputs);
  written.set("mode", name_of(kResizeModes, op.mode))
      .set("coordinate_transformation_mode", name_of(kCoordinateModes, op.coordinate));
  if (op.mode == ResizeMode::kNearest)
    written.set("nearest_mode", name_of(kNearestModes, op.nearest));
  if (op.mode == ResizeMode::kCubic) {
    written.set("cubic_coeff_a", op.cubic_a).set("exclude_outside", op.exclude_outside);
  }
  if (crops) written.set("extrapolation_value", op.extrapolation);
}

void write_op(const DepthToSpace& op, NodeWriter& node) {
  node.last("DepthToSpace")
      .set("blocksize", op.block)
      .set("mode", op.column_row_depth ? "CRD" : "DCR");
}

void write_op(const SpaceToDepth& op, NodeWriter& node) {
  node.last("SpaceToDepth").set("blocksize", op.block);
}

/// [N, C, rest] = [N, groups, C / groups, rest], its axes 1 and 2 exchanged
void write_op(const ChannelShuffle& op, NodeWriter& node) {
  const Shape& x = node.value(0).shape;
  Ints split = {x[0], op.groups, x[1] / op.groups};
  split.insert(split.end(), x.begin() + 2, x.end());
  Ints perm(split.size());
  for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<std::int64_t>(i);
  std::swap(perm[1], perm[2]);
  const std::string parts = node.part("Reshape", {node.input(0), node.ints(split)});
  const std::string shuffled = node.part("Transpose", {parts}, {{"perm", perm}});
  node.last("Reshape", {shuffled, node.ints(x)});
}

void write_op(const Clip& /*op*/, NodeWriter& /*node*/) { not_resolved(); }
void write_op(const Flatten& /*op*/, NodeWriter& /*node*/) { not_resolved(); }
void write_op(const Squeeze& /*op*/, NodeWriter& /*node*/) { not_resolved(); }
void write_op(const Unsqueeze& /*op*/, NodeWriter& /*node*/) { not_resolved(); }
void write_op(const ShapeOf& /*op*/, NodeWriter& /*node*/) { not_resolved(); }
void write_op(const SizeOf& /*op*/, NodeWriter& /*node*/) { not_resolved(); }

}  // namespace braze::model
