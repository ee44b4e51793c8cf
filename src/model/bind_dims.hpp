// Numbers for the symbolic dimensions of a model's inputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.hpp"

namespace braze {

/// Gives every symbolic dimension of the graph's inputs a number. `dims` maps a symbol (see
/// read_onnx()), or "INPUT.AXIS", to an extent of 1 or more. A symbol is one number wherever it
/// occurs. A symbol without one is 1 if it is the first axis of an input: the batch.
/// kUsage naming input, axis and symbol if others have none; also for names that are no symbol and
/// for axes that the model gives an extent already. kUnsupported for an input without a rank.
void bind_dims(Graph& graph, const std::map<std::string, std::int64_t>& dims);

}  // namespace braze
