// How rewrites change a graph, so that every model node stays accounted for: its id is an origin of
// a live node, or is recorded in graph.folded.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace braze {

/// The node computes `op` of `inputs` from now on. Its id, its outputs and its origins stay.
void become(Graph& graph, NodeId node, Attributes op, std::vector<ValueId> inputs);

/// Adds a node `id` with one output, whose dtype and shape are inferred, and returns that output.
ValueId insert(Graph& graph, Attributes op, std::vector<ValueId> inputs, const std::string& id,
               std::vector<std::string> origins);

/// `into` has a part in the model nodes of `from` too.
void share_origins(Graph& graph, NodeId into, NodeId from);

/// Drops those of `nodes` that nobody reads any more; `into` stands for their model nodes from now
/// on.
void absorb(Graph& graph, NodeId into, const std::vector<NodeId>& nodes);

/// Drops `node` if nobody reads it any more, and records that `into` does it.
void fold_if_unread(Graph& graph, NodeId node, NodeId into);

/// `producer`, whose only output nobody but `node` reads, makes the output of `node`, which is
/// recorded as folded into it.
void take_over(Graph& graph, NodeId producer, NodeId node);

/// Settles who accounts for each model node, once no pass will run any more: a live node (the last,
/// where several have a part in it) before a record in graph.folded, and one record only. Records
/// then name a model node, "constant", "unused" or "view".
void settle_origins(Graph& graph);

}  // namespace braze
