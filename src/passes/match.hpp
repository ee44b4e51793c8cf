// What matchers ask about a graph. Nothing here changes it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.hpp"

namespace braze {

/// The value of a constant with one element, whatever its shape.
std::optional<double> scalar_constant(const Graph& graph, ValueId id);

/// Unit round-off of a float dtype: the largest relative error of rounding a number to it.
double unit_roundoff(DType dtype);

/// Is `value`, a number that was stored as `dtype` or computed from such, what `expected` may have
/// been rounded to? True within two units of round-off.
bool rounds_to(double value, double expected, DType dtype);

/// Is every element of a float tensor finite?
bool all_finite(const Tensor& tensor);

/// A constant as one value per channel (axis 1) of `output`, if by each dimension of its shape it
/// varies along channels only and does not widen `output`. Never decided by the number of elements:
/// [4] beside [1,4,8,4] varies along the last axis.
std::optional<std::vector<double>> channel_constant(const Graph& graph, ValueId id,
                                                    const Shape& output);

/// The node that makes a value for one reader and for no graph output: it vanishes when that reader
/// does. kNoNode otherwise.
NodeId sole_producer(const Graph& graph, ValueId id);

/// `node` if it holds an Op (a Unary or Binary of this function), else kNoNode. `node` may be
/// kNoNode.
template <class Op>
NodeId if_op(const Graph& graph, NodeId node) {
  return node != kNoNode && graph.node(node).as<Op>() != nullptr ? node : kNoNode;
}
NodeId if_op(const Graph& graph, NodeId node, UnaryFn fn);
NodeId if_op(const Graph& graph, NodeId node, BinaryFn fn);

/// x and c where a node is fn(x, c) with a constant c of one element that does not change the shape
/// of x.
struct ScalarOp {
  ValueId x = kNoValue;
  double c = 0;
};
std::optional<ScalarOp> scalar_op(const Graph& graph, NodeId node, BinaryFn fn);

/// The operand of a binary node beside `operand`; kNoValue if that is none of its two.
ValueId other_operand(const Node& node, ValueId operand);

/// Has the window no padding at all?
bool is_unpadded(const Window& window);

/// Does a resolved Pad add to the spatial axes (2 and up) only, and crop nowhere?
bool pads_image_only(const Pad& pad);

/// Adds a Pad's spatial entries to the padding of a window.
void add_pads(const Pad& pad, Window& window);

/// Does a value hold floats?
bool is_float(const Graph& graph, ValueId id);

}  // namespace braze
