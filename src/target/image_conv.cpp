#include "target/image_conv.hpp"

#include <fmt/format.h>

#include <utility>

namespace braze {
namespace {

/// c of a Gemm as a bias: one value for each column.
bool is_bias(const Shape& shape, std::int64_t columns) {
  return !shape.empty() && shape.back() == columns && element_count(shape) == columns;
}

}  // namespace

std::optional<ImageShape> image_shape(const Shape& shape) {
  if (shape.size() == 4) return ImageShape{shape[0], shape[1], {shape[2], shape[3]}};
  if (shape.size() == 2) return ImageShape{1, shape[1], {1, shape[0]}};
  return std::nullopt;
}

std::optional<ImageConv> image_conv(const Graph& graph, const Node& node, Support* why) {
  const auto no = [why](std::string rule, std::string reason) {
    if (why != nullptr) *why = Support::no(std::move(rule), std::move(reason));
    return std::nullopt;
  };
  const auto* const conv = node.as<Conv>();
  const auto* const gemm = node.as<Gemm>();
  if (!may_be_image_conv(node.kind()))
    return no("operator", fmt::format("'{}' is no Conv, Gemm or MatMul", node.id));
  const Shape& x = graph.value(node.input(0)).shape;
  const Shape& w = graph.value(node.input(1)).shape;
  const std::size_t rank = conv != nullptr ? 4 : 2;
  if (x.size() != rank || w.size() != rank)
    return no("rank", fmt::format("'{}' is of {} and {}; both are of rank {}", node.id,
                                  to_string(x), to_string(w), rank));
  ImageConv as;
  as.weights = node.input(1);
  as.bias = node.input(2);
  if (conv != nullptr) {
    const std::int64_t taps = w[2] * w[3];
    as.window = conv->window;
    as.groups = conv->group;
    as.output_stride = w[1] * taps;
    as.channel_stride = taps;
    return as;
  }
  if (gemm != nullptr && gemm->trans_a)
    return no("transposed", fmt::format("the first matrix of '{}' is transposed", node.id));
  if (gemm != nullptr && (gemm->alpha != 1 || (gemm->beta != 1 && as.bias != kNoValue)))
    return no("scale", fmt::format("alpha of '{}' is {} and beta {}, not 1", node.id, gemm->alpha,
                                   gemm->beta));
  const bool by_output = gemm != nullptr && gemm->trans_b;
  const std::int64_t columns = w[by_output ? 0 : 1];
  if (as.bias != kNoValue && !is_bias(graph.value(as.bias).shape, columns))
    return no("addend", fmt::format("'{}' adds {}, no vector along columns", node.id,
                                    to_string(graph.value(as.bias).shape)));
  as.window = {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  as.output_stride = by_output ? w[1] : 1;
  as.channel_stride = by_output ? 1 : columns;
  return as;
}

}  // namespace braze
