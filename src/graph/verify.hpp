// What a legal resolved graph is: one table, run after every pass.
#pragma once

#include "graph/graph.hpp"

namespace braze {

/// Checks every live node against the legality table (arity, dtypes, shapes known and equal to
/// infer(), attribute ranges, single producer, no cycle, outputs made by something). kInternal
/// naming `after` and the node: a broken graph here is a bug of the pass that ran last.
void verify(const Graph& graph, std::string_view after);

}  // namespace braze
