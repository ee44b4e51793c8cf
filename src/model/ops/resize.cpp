// Resize and its forerunner Upsample, DepthToSpace, SpaceToDepth.
#include <algorithm>

#include "graph/elements.hpp"
#include "model/ops/readers.hpp"

namespace braze::model {
namespace {

ResizeMode read_mode(NodeReader& node) {
  if (node.opset() < 11) {
    return node.attributes.choice<ResizeMode>(
        "mode", "nearest", {{"nearest", ResizeMode::kNearest}, {"linear", ResizeMode::kLinear}});
  }
  return node.attributes.choice<ResizeMode>("mode", "nearest",
                                            {{"nearest", ResizeMode::kNearest},
                                             {"linear", ResizeMode::kLinear},
                                             {"cubic", ResizeMode::kCubic}});
}

/// Before opset 11: x_in = x_out / scale, and the nearest element is the one below.
Resize read_old(NodeReader& node) {
  Resize op;
  op.mode = read_mode(node);
  op.coordinate = CoordinateMode::kAsymmetric;
  op.nearest = NearestMode::kFloor;
  return op;
}

/// As read_old(), but where an axis shrinks, the nearest element is the one above. Axes are
/// independent: shrink(x, min(scales, 1)) after enlarge(x, max(scales, 1)).
void read_resize_10(NodeReader& node) {
  node.expect_inputs(2, 2);
  const Resize enlarge = read_old(node);
  Resize shrink = enlarge;
  shrink.nearest = NearestMode::kCeil;
  bool shrinks = true;
  bool enlarges = true;
  if (const Tensor* constant = node.constant(1)) {
    const std::vector<double> scales = load<double>(*constant);
    shrinks = std::any_of(scales.begin(), scales.end(), [](double scale) { return scale < 1; });
    enlarges = std::any_of(scales.begin(), scales.end(), [](double scale) { return scale > 1; });
  }
  if (enlarge.mode != ResizeMode::kNearest || !shrinks) {
    return node.emit(enlarge, {node.input(0), kNoValue, node.input(1)});
  }
  if (!enlarges) return node.emit(shrink, {node.input(0), kNoValue, node.input(1)});
  const ValueId one = node.add_constant(make_tensor(node.dtype(1), {1}, std::vector<double>{1}));
  const ValueId up = node.emit_part(Binary{BinaryFn::kMax}, {node.input(1), one});
  const ValueId down = node.emit_part(Binary{BinaryFn::kMin}, {node.input(1), one});
  const ValueId enlarged = node.emit_part(enlarge, {node.input(0), kNoValue, up});
  node.emit(shrink, {enlarged, kNoValue, down});
}

std::int64_t read_block(NodeReader& node) {
  const std::int64_t block = node.attributes.integer("blocksize");
  if (block < 1 || block > INT16_MAX) node.invalid("blocksize is {}, expected 1 or more", block);
  return block;
}

}  // namespace

void read_resize(NodeReader& node) {
  if (node.opset() < 11) return read_resize_10(node);
  using Coordinate = CoordinateMode;
  AttributeReader& attributes = node.attributes;
  Resize op;
  op.mode = read_mode(node);
  op.coordinate =
      attributes.choice<Coordinate>("coordinate_transformation_mode", "half_pixel",
                                    {{"half_pixel", Coordinate::kHalfPixel},
                                     {"half_pixel_symmetric", Coordinate::kHalfPixelSymmetric},
                                     {"pytorch_half_pixel", Coordinate::kPytorchHalfPixel},
                                     {"align_corners", Coordinate::kAlignCorners},
                                     {"asymmetric", Coordinate::kAsymmetric},
                                     {"tf_half_pixel_for_nn", Coordinate::kTfHalfPixelForNn},
                                     {"tf_crop_and_resize", Coordinate::kTfCropAndResize}});
  op.nearest =
      attributes.choice<NearestMode>("nearest_mode", "round_prefer_floor",
                                     {{"round_prefer_floor", NearestMode::kRoundPreferFloor},
                                      {"round_prefer_ceil", NearestMode::kRoundPreferCeil},
                                      {"floor", NearestMode::kFloor},
                                      {"ceil", NearestMode::kCeil}});
  op.cubic_a = attributes.real("cubic_coeff_a", -0.75F);
  op.exclude_outside = attributes.flag("exclude_outside", false);
  op.extrapolation = attributes.real("extrapolation_value", 0);
  if (node.opset() >= 18) {
    op.antialias = attributes.flag("antialias", false);
    op.axes = attributes.integers("axes");
    op.aspect = attributes.choice<AspectPolicy>("keep_aspect_ratio_policy", "stretch",
                                                {{"stretch", AspectPolicy::kStretch},
                                                 {"not_larger", AspectPolicy::kNotLarger},
                                                 {"not_smaller", AspectPolicy::kNotSmaller}});
  }
  node.emit(std::move(op));
}

/// The scales are an attribute before opset 9, an input since.
void read_upsample(NodeReader& node) {
  Resize op = read_old(node);
  if (node.opset() < 9) {
    node.expect_inputs(1, 1);
    op.scales = node.attributes.reals("scales");
    return node.emit(std::move(op));
  }
  node.expect_inputs(2, 2);
  node.emit(std::move(op), {node.input(0), kNoValue, node.input(1)});
}

void read_depth_to_space(NodeReader& node) {
  const std::int64_t block = read_block(node);
  const bool crd = node.attributes.choice<bool>("mode", "DCR", {{"DCR", false}, {"CRD", true}});
  node.emit(DepthToSpace{block, crd});
}

void read_space_to_depth(NodeReader& node) { node.emit(SpaceToDepth{read_block(node)}); }

}  // namespace braze::model
