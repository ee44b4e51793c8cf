// Resize against the interpreter: nearest bit for bit, interpolation within rounding.
#include "base/error.hpp"
#include "kernels/one_node.hpp"

namespace braze::cpu::testing {
namespace {

/// A resolved Resize to `sizes`, with the scales that sizes give unless others are named.
Resize resized(ResizeMode mode, const Shape& x, const Shape& sizes,
               CoordinateMode coordinate = CoordinateMode::kHalfPixel,
               NearestMode nearest = NearestMode::kRoundPreferFloor) {
  Resize op;
  op.mode = mode;
  op.coordinate = coordinate;
  op.nearest = nearest;
  op.sizes = sizes;
  op.roi.assign(2 * x.size(), 0);
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    op.scales.push_back(static_cast<double>(sizes[axis]) / static_cast<double>(x[axis]));
    op.roi[x.size() + axis] = 1;
  }
  return op;
}

constexpr CoordinateMode kCoordinates[] = {
    CoordinateMode::kHalfPixel,        CoordinateMode::kHalfPixelSymmetric,
    CoordinateMode::kPytorchHalfPixel, CoordinateMode::kAlignCorners,
    CoordinateMode::kAsymmetric,       CoordinateMode::kTfHalfPixelForNn};

struct Case {
  Shape x, sizes;
};
const Case kCases[] = {
    {{1, 24, 10, 12}, {1, 24, 20, 24}}, {{2, 3, 7, 9}, {2, 3, 21, 27}},
    {{1, 17, 8, 40}, {1, 17, 4, 20}},   {{1, 5, 13, 11}, {1, 5, 29, 17}},
    {{1, 5, 29, 47}, {1, 5, 13, 11}},   {{1, 1, 6, 7}, {1, 1, 12, 21}},
    {{1, 40, 1, 1}, {1, 40, 5, 6}},     {{1, 70, 5, 6}, {1, 70, 5, 12}},
    {{2, 6, 33}, {2, 6, 66}},           {{1, 9, 4, 5}, {1, 9, 4, 5}},
    {{1, 3, 30, 40}, {1, 3, 61, 83}},
};

class Resizing : public OnIsa {};

TEST_P(Resizing, Nearest) {
  for (const Case& c : kCases) {
    for (const CoordinateMode coordinate : kCoordinates) {
      for (const NearestMode nearest :
           {NearestMode::kRoundPreferFloor, NearestMode::kRoundPreferCeil, NearestMode::kFloor,
            NearestMode::kCeil}) {
        // (i + 0.5) rounded up moves even an axis that keeps its extent.
        const bool moves = coordinate == CoordinateMode::kTfHalfPixelForNn &&
                           nearest != NearestMode::kFloor &&
                           nearest != NearestMode::kRoundPreferFloor;
        if (moves) continue;
        check_node(resize(), {resized(ResizeMode::kNearest, c.x, c.sizes, coordinate, nearest),
                              {counting_tensor(DType::kFloat32, c.x, 1)}});
      }
    }
    for (const DType dtype : {DType::kFloat16, DType::kUInt8, DType::kInt64}) {
      check_node(resize(),
                 {resized(ResizeMode::kNearest, c.x, c.sizes), {counting_tensor(dtype, c.x, 1)}});
    }
  }
  const Shape volume = {1, 4, 3, 5, 6};
  check_node(resize(),
             {resized(ResizeMode::kNearest, volume, {1, 4, 6, 5, 18}), {random_tensor(volume, 1)}});
  check_node(resize(),
             {resized(ResizeMode::kNearest, volume, {1, 4, 5, 7, 4}), {random_tensor(volume, 1)}});
}

TEST_P(Resizing, LinearAndCubic) {
  for (const ResizeMode mode : {ResizeMode::kLinear, ResizeMode::kCubic}) {
    for (const Case& c : kCases) {
      for (const CoordinateMode coordinate : kCoordinates) {
        if (coordinate == CoordinateMode::kTfHalfPixelForNn) continue;  // moves every axis by half
        Resize op = resized(mode, c.x, c.sizes, coordinate);
        for (int bits = 0; bits < 3; ++bits) {
          op.exclude_outside = bits == 1;
          op.antialias = bits == 2;
          check_node(
              resize(), {op, {random_tensor(c.x, 1)}},
              [](const Tensor& got, const Tensor& want) { expect_close(got, want, 1e-6, 1e-6); });
        }
      }
    }
  }
  const Shape volume = {1, 4, 3, 5, 6};
  check_node(resize(),
             {resized(ResizeMode::kLinear, volume, {1, 4, 3, 10, 9}), {random_tensor(volume, 1)}},
             [](const Tensor& got, const Tensor& want) { expect_close(got, want, 1e-6, 1e-6); });
}

/// An element that a tap of weight zero would have read does not make NaN of its neighbour.
TEST_P(Resizing, InfinitiesStayWhereTheyAre) {
  Tensor x = random_tensor({1, 2, 5, 6}, 1);
  x.as<float>()[8] = std::numeric_limits<float>::infinity();
  check_node(
      resize(),
      {resized(ResizeMode::kLinear, x.shape(), {1, 2, 10, 12}, CoordinateMode::kAsymmetric), {x}},
      [](const Tensor& got, const Tensor& want) { expect_close(got, want, 1e-6, 1e-6); });
}

TEST_P(Resizing, WhatTheReferenceRuns) {
  const auto refused = [](const Resize& op, const Tensor& x) {
    const OneNode node(op, {x});
    return resize().family.supports(node.graph, node.graph.node(0), cpu_device(1)).rule;
  };
  EXPECT_EQ(refused(resized(ResizeMode::kNearest, {1, 2, 4, 4}, {2, 2, 4, 4}),
                    random_tensor({1, 2, 4, 4}, 1)),
            "axes");
  EXPECT_EQ(refused(resized(ResizeMode::kLinear, {1, 2, 3, 4, 4}, {1, 2, 6, 4, 4}),
                    random_tensor({1, 2, 3, 4, 4}, 1)),
            "axes");
  EXPECT_EQ(refused(resized(ResizeMode::kLinear, {4, 4}, {8, 8}), random_tensor({4, 4}, 1)),
            "rank");
  EXPECT_EQ(refused(resized(ResizeMode::kLinear, {1, 2, 4, 4}, {1, 2, 8, 8}),
                    counting_tensor(DType::kUInt8, {1, 2, 4, 4}, 1)),
            "dtype");
  Resize crop =
      resized(ResizeMode::kLinear, {1, 2, 4, 4}, {1, 2, 8, 8}, CoordinateMode::kTfCropAndResize);
  crop.roi = {0, 0, -0.5, 0, 1, 1, 1.5, 1};
  EXPECT_EQ(refused(crop, random_tensor({1, 2, 4, 4}, 1)), "extrapolation");
}

BRAZE_ON_EVERY_ISA(Resizing);

}  // namespace
}  // namespace braze::cpu::testing
