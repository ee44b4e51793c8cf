// Are the attributes of a node in the ranges that resolve() leaves them in?
#pragma once

#include "graph/graph.hpp"

namespace braze {

/// Checks what infer() and the kernels take for granted of a resolved node: one entry per axis
/// where there should be, axes that exist, strides and blocks that are not zero, numbers whose
/// products fit into 64 bits. For a node with legal inputs and outputs (graph::illegal) whose
/// shapes passed check_shape(). kModelInvalid naming the node and the attribute.
void check_attributes(const Graph& graph, const Node& node);

}  // namespace braze
