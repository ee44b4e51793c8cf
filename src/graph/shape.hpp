// Shapes and dtypes of what a node makes, and the resolution of parameters that arrive as inputs.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace braze {

/// Resolves a whole graph whose inputs have concrete shapes (kUsage naming a dimension that has
/// none): afterwards every shape is known and every node is resolved. What depends on constants and
/// shapes alone becomes constant and is recorded as folded into "constant"; only Expand and Tile
/// stay where the result has more than kFoldedBytes. Errors as resolve().
void resolve_graph(Graph& graph);
inline constexpr std::size_t kFoldedBytes = std::size_t{64} << 20;

/// Brings a node as the model reader makes it, whose inputs' dtypes and shapes are all known, into
/// resolved form (see op.hpp): moves constant parameter inputs into the attributes, normalises
/// axes, fills windows and pads, respells operators that exist only in models (Clip, Squeeze,
/// Flatten, Softmax with flatten, ...). Then sets dtype and shape of its outputs. May put several
/// nodes in its place; the new ones are resolved too, and the last one keeps the id. ShapeOf and
/// SizeOf become constants here. Not for nodes that are resolved already (a Slice would change its
/// meaning): set_types() is. Errors, each naming the node: kModelInvalid where shapes or dtypes
/// contradict ONNX, kUnsupported where a parameter is not constant ("the shape of 'X' depends on
/// the values of input 'Y'").
void resolve(Graph& graph, NodeId id);

/// Dtype and shape of each output of a resolved node (to be ignored for an absent output). Pure.
/// kModelInvalid as resolve().
struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;
};
std::vector<TensorType> infer(const Graph& graph, const Node& node);

/// Gives the outputs of a resolved node what infer() says.
void set_types(Graph& graph, NodeId id);

/// numpy's broadcast of two shapes. kModelInvalid naming `where` if they do not fit.
Shape broadcast_shape(const Shape& a, const Shape& b, const std::string& where);

}  // namespace braze
