// Dtypes without shapes, for readers that need a constant of the right dtype.
#pragma once

#include "graph/graph.hpp"

namespace braze::model {

/// The dtype of one output of a node as the model reader makes it, if its inputs are legal.
DType result_dtype(const Graph& graph, const Node& node, std::size_t output);

}  // namespace braze::model
