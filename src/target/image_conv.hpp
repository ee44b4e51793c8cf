// Images, and which nodes are convolutions over them: groups of several members go over both by
// these two functions only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "graph/graph.hpp"
#include "target/problem.hpp"

namespace braze {

struct ImageShape {
  std::int64_t n = 1, channels = 1;
  std::array<std::int64_t, 2> extent{1, 1};  // rows, columns
};
/// [N, C, H, W] as it is; a matrix [M, C] is one image of one row of M pixels. Nothing: other
/// ranks.
std::optional<ImageShape> image_shape(const Shape& shape);

/// y[p, k] = bias[k] + sum over taps t and channels c of x[p s + t d - pad, c] w(k, c, t)
/// with stride s and dilation d; w(k, c, t) is element k * output_stride + c * channel_stride + t
/// of the weights, c counted within a group.
struct ImageConv {
  Window window;
  std::int64_t groups = 1;
  ValueId weights = kNoValue, bias = kNoValue;         // constants or not
  std::int64_t output_stride = 1, channel_stride = 1;  // elements
};

/// Kinds of nodes of which some are.
constexpr bool may_be_image_conv(OpKind kind) {
  return kind == OpKind::kConv || kind == OpKind::kGemm || kind == OpKind::kMatMul;
}

/// A Conv of two spatial axes; or a product of matrices x * W + c (Gemm, MatMul), which is a 1x1
/// convolution over the rows of x: x is not transposed, nothing is scaled, c is a vector along
/// columns. Nothing for other nodes, and a rule and a reason in `why`.
std::optional<ImageConv> image_conv(const Graph& graph, const Node& node, Support* why = nullptr);

}  // namespace braze
