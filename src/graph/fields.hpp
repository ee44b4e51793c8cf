// The attributes of each operator as a list of (name, member): for whatever treats all of them
// alike, such as printing, comparing and storing. fields(static_cast<const Conv*>(nullptr)) is a
// tuple of Field.
#pragma once

#include <tuple>

#include "graph/op.hpp"

namespace braze {

template <class Op, class T>
struct Field {
  const char* name;
  T Op::* member;
};

constexpr auto fields(const Window*) {
  return std::tuple{
      Field{"kernel", &Window::kernel},       Field{"strides", &Window::strides},
      Field{"dilations", &Window::dilations}, Field{"pads_begin", &Window::pads_begin},
      Field{"pads_end", &Window::pads_end},   Field{"auto_pad", &Window::auto_pad}};
}
constexpr auto fields(const Unary*) {
  return std::tuple{Field{"fn", &Unary::fn}, Field{"alpha", &Unary::alpha},
                    Field{"beta", &Unary::beta}};
}
constexpr auto fields(const Clip*) { return std::tuple{}; }
constexpr auto fields(const Binary*) { return std::tuple{Field{"fn", &Binary::fn}}; }
constexpr auto fields(const Where*) { return std::tuple{}; }
constexpr auto fields(const Cast*) { return std::tuple{Field{"to", &Cast::to}}; }
constexpr auto fields(const Identity*) { return std::tuple{}; }
constexpr auto fields(const Conv*) {
  return std::tuple{Field{"window", &Conv::window}, Field{"group", &Conv::group}};
}
constexpr auto fields(const ConvTranspose*) {
  return std::tuple{Field{"window", &ConvTranspose::window},
                    Field{"output_padding", &ConvTranspose::output_padding},
                    Field{"output_shape", &ConvTranspose::output_shape},
                    Field{"group", &ConvTranspose::group}};
}
constexpr auto fields(const QLinearConv*) {
  return std::tuple{Field{"window", &QLinearConv::window}, Field{"group", &QLinearConv::group}};
}
constexpr auto fields(const Quantize*) {
  return std::tuple{Field{"axis", &Quantize::axis}, Field{"to", &Quantize::to}};
}
constexpr auto fields(const Dequantize*) { return std::tuple{Field{"axis", &Dequantize::axis}}; }
constexpr auto fields(const MatMul*) { return std::tuple{}; }
constexpr auto fields(const Gemm*) {
  return std::tuple{Field{"alpha", &Gemm::alpha}, Field{"beta", &Gemm::beta},
                    Field{"trans_a", &Gemm::trans_a}, Field{"trans_b", &Gemm::trans_b}};
}
constexpr auto fields(const BatchNorm*) {
  return std::tuple{Field{"epsilon", &BatchNorm::epsilon}};
}
constexpr auto fields(const InstanceNorm*) {
  return std::tuple{Field{"epsilon", &InstanceNorm::epsilon}};
}
constexpr auto fields(const Lrn*) {
  return std::tuple{Field{"size", &Lrn::size}, Field{"alpha", &Lrn::alpha},
                    Field{"beta", &Lrn::beta}, Field{"bias", &Lrn::bias}};
}
constexpr auto fields(const Softmax*) {
  return std::tuple{Field{"axis", &Softmax::axis}, Field{"log", &Softmax::log},
                    Field{"flatten", &Softmax::flatten}};
}
constexpr auto fields(const Pool*) {
  return std::tuple{Field{"fn", &Pool::fn}, Field{"window", &Pool::window},
                    Field{"ceil_mode", &Pool::ceil_mode},
                    Field{"count_include_pad", &Pool::count_include_pad},
                    Field{"column_major_indices", &Pool::column_major_indices}};
}
constexpr auto fields(const Reduce*) {
  return std::tuple{Field{"fn", &Reduce::fn}, Field{"axes", &Reduce::axes},
                    Field{"keepdims", &Reduce::keepdims},
                    Field{"noop_with_empty_axes", &Reduce::noop_with_empty_axes},
                    Field{"spatial", &Reduce::spatial}};
}
constexpr auto fields(const ArgReduce*) {
  return std::tuple{Field{"max", &ArgReduce::max}, Field{"axis", &ArgReduce::axis},
                    Field{"keepdims", &ArgReduce::keepdims},
                    Field{"select_last", &ArgReduce::select_last}};
}
constexpr auto fields(const Concat*) { return std::tuple{Field{"axis", &Concat::axis}}; }
constexpr auto fields(const Split*) {
  return std::tuple{Field{"axis", &Split::axis}, Field{"sizes", &Split::sizes}};
}
constexpr auto fields(const Slice*) {
  return std::tuple{Field{"starts", &Slice::starts}, Field{"ends", &Slice::ends},
                    Field{"axes", &Slice::axes}, Field{"steps", &Slice::steps}};
}
constexpr auto fields(const Pad*) {
  return std::tuple{Field{"mode", &Pad::mode}, Field{"pads", &Pad::pads},
                    Field{"value", &Pad::value}};
}
constexpr auto fields(const Reshape*) {
  return std::tuple{Field{"dims", &Reshape::dims}, Field{"allow_zero", &Reshape::allow_zero}};
}
constexpr auto fields(const Flatten*) { return std::tuple{Field{"axis", &Flatten::axis}}; }
constexpr auto fields(const Squeeze*) { return std::tuple{Field{"axes", &Squeeze::axes}}; }
constexpr auto fields(const Unsqueeze*) { return std::tuple{Field{"axes", &Unsqueeze::axes}}; }
constexpr auto fields(const Transpose*) { return std::tuple{Field{"perm", &Transpose::perm}}; }
constexpr auto fields(const ShapeOf*) {
  return std::tuple{Field{"start", &ShapeOf::start}, Field{"end", &ShapeOf::end}};
}
constexpr auto fields(const SizeOf*) { return std::tuple{}; }
constexpr auto fields(const Gather*) { return std::tuple{Field{"axis", &Gather::axis}}; }
constexpr auto fields(const Expand*) { return std::tuple{Field{"dims", &Expand::dims}}; }
constexpr auto fields(const Tile*) { return std::tuple{Field{"repeats", &Tile::repeats}}; }
constexpr auto fields(const ConstantOfShape*) {
  return std::tuple{Field{"value", &ConstantOfShape::value}};
}
constexpr auto fields(const Range*) { return std::tuple{}; }
constexpr auto fields(const Resize*) {
  return std::tuple{
      Field{"mode", &Resize::mode},           Field{"coordinate", &Resize::coordinate},
      Field{"nearest", &Resize::nearest},     Field{"aspect", &Resize::aspect},
      Field{"cubic_a", &Resize::cubic_a},     Field{"exclude_outside", &Resize::exclude_outside},
      Field{"antialias", &Resize::antialias}, Field{"extrapolation", &Resize::extrapolation},
      Field{"axes", &Resize::axes},           Field{"roi", &Resize::roi},
      Field{"scales", &Resize::scales},       Field{"sizes", &Resize::sizes}};
}
constexpr auto fields(const DepthToSpace*) {
  return std::tuple{Field{"block", &DepthToSpace::block},
                    Field{"column_row_depth", &DepthToSpace::column_row_depth}};
}
constexpr auto fields(const SpaceToDepth*) {
  return std::tuple{Field{"block", &SpaceToDepth::block}};
}
constexpr auto fields(const ChannelShuffle*) {
  return std::tuple{Field{"groups", &ChannelShuffle::groups}};
}

/// Calls visit(name, member) for each attribute of `op`.
template <class Op, class Visit>
void for_each_field(Op& op, Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field.name, op.*field.member), ...); },
             fields(static_cast<const Op*>(nullptr)));
}

}  // namespace braze
