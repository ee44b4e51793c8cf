// Shapes and dtypes of what a node makes, and the resolution of parameters that arrive as inputs.
#pragma once

#include "graph/graph.hpp"

namespace braze {

/// Brings a node whose inputs' shapes are all known into resolved form (see op.hpp): moves constant parameter inputs into the
/// attributes, normalises axes, fills windows and pads, respells operators that exist only in models (Clip, Squeeze, Flatten,
/// Softmax with flatten, ...). Then sets dtype and shape of its outputs.
/// May replace the node by several; the new ones are resolved too. ShapeOf and SizeOf become constants here.
/// Errors, each naming the node: kModelInvalid where shapes or dtypes contradict ONNX, kUnsupported where a parameter is not
/// constant ("shape of 'X' depends on the data of 'Y'").
void resolve(Graph& graph, NodeId id);

/// Dtype and shape of each output of a resolved node (empty entry for an absent output). Pure.
struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;
};
std::vector<TensorType> infer(const Graph& graph, const Node& node);

/// numpy's broadcast of two shapes. kModelInvalid naming `where` if they do not fit.
Shape broadcast_shape(const Shape& a, const Shape& b, const std::string& where);

}  // namespace braze
