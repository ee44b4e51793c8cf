// The one table of what each operator takes: how many inputs and outputs, and which dtypes.
#pragma once

#include <string>

#include "graph/graph.hpp"

namespace braze::graph {

/// As the model reader makes nodes, or as resolve() leaves them.
enum class Form : std::uint8_t { kRead, kResolved };

/// What is wrong with a node's inputs and outputs, "" if nothing: "has 1 inputs, expected 2 to 3".
std::string illegal(const Graph& graph, const Node& node, Form form);

}  // namespace braze::graph
