#include "passes/edit.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "graph/shape.hpp"

namespace braze {
namespace {

bool is_unread(const Graph& graph, NodeId node) {
  const std::vector<ValueId>& outputs = graph.node(node).outputs;
  return std::all_of(outputs.begin(), outputs.end(), [&](ValueId output) {
    return output == kNoValue || (graph.users(output).empty() && !graph.is_output(output));
  });
}

/// Erases `node`, which `into` does now; a helper, which stands for no model node, then stands for
/// those of `node`.
void fold_into(Graph& graph, NodeId node, NodeId into) {
  if (!graph.node(into).origins.empty()) return graph.fold(node, graph.node(into).id);
  share_origins(graph, into, node);
  graph.erase(node);
}

}  // namespace

void become(Graph& graph, NodeId node, Attributes op, std::vector<ValueId> inputs) {
  graph.node(node).op = std::move(op);
  graph.node(node).inputs = std::move(inputs);
  graph.touch();
}

ValueId insert(Graph& graph, Attributes op, std::vector<ValueId> inputs, const std::string& id,
               std::vector<std::string> origins) {
  const ValueId output = graph.add_value(id);
  set_types(graph,
            graph.add_node(std::move(op), std::move(inputs), {output}, id, std::move(origins)));
  return output;
}

void share_origins(Graph& graph, NodeId into, NodeId from) {
  std::vector<std::string>& origins = graph.node(into).origins;
  for (const std::string& origin : graph.node(from).origins) {
    if (std::find(origins.begin(), origins.end(), origin) == origins.end())
      origins.push_back(origin);
  }
}

void absorb(Graph& graph, NodeId into, const std::vector<NodeId>& nodes) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const NodeId node : nodes) {
      if (node == into || graph.node(node).erased || !is_unread(graph, node)) continue;
      share_origins(graph, into, node);
      graph.erase(node);
      changed = true;
    }
  }
}

void fold_if_unread(Graph& graph, NodeId node, NodeId into) {
  if (!graph.node(node).erased && is_unread(graph, node)) fold_into(graph, node, into);
}

void take_over(Graph& graph, NodeId producer, NodeId node) {
  ensure(graph.node(producer).outputs.size() == 1 && graph.node(node).outputs.size() == 1,
         "a node that takes over another has one output, as that one has");
  graph.node(producer).outputs = std::move(graph.node(node).outputs);
  graph.node(node).outputs.clear();
  graph.touch();
  fold_into(graph, node, producer);
}

namespace {

/// Of each node that is none of the model's, live or erased: a model node that it has a part in.
std::map<std::string, std::string> model_nodes(const Graph& graph) {
  std::map<std::string, std::string> result;
  for (const bool erased : {true, false}) {  // where both have an id, the live one counts
    for (NodeId id = 0; id < graph.node_count(); ++id) {
      const Node& node = graph.node(id);
      if (node.erased != erased || node.origins.empty()) continue;
      if (std::ranges::find(node.origins, node.id) == node.origins.end())
        result[node.id] = node.origins.front();
    }
  }
  return result;
}

}  // namespace

void settle_origins(Graph& graph) {
  const std::map<std::string, std::string> model_node = model_nodes(graph);
  std::set<std::string> live;
  const std::vector<NodeId> order = graph.order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    std::erase_if(graph.node(*it).origins,
                  [&](const std::string& origin) { return !live.insert(origin).second; });
  }

  std::map<std::string, std::string> into;  // model node -> what it was folded into
  for (const Folded& entry : graph.folded) {
    if (live.contains(entry.node)) continue;
    const auto [it, added] = into.emplace(entry.node, entry.into);
    if (added) continue;
    const auto target = model_node.find(it->second);
    const bool says_nothing =
        it->second == "unused" || (target != model_node.end() && target->second == entry.node);
    if (says_nothing) it->second = entry.into;
  }
  // Follows a name to the model node that did the work in the end; each step goes to a node that
  // lived longer, or from a node that a pass made to the model node it is a part of.
  const auto follow = [&](std::string name) {
    for (std::size_t step = 0; step <= into.size(); ++step) {
      if (live.contains(name)) break;
      if (const auto folded = into.find(name); folded != into.end()) {
        name = folded->second;
      } else if (const auto of = model_node.find(name); of != model_node.end()) {
        name = of->second;
      } else {
        break;
      }
    }
    return name;
  };

  std::vector<Folded> settled;
  std::set<std::string> recorded;
  for (const Folded& entry : graph.folded) {
    const auto it = into.find(entry.node);
    if (it == into.end()) continue;
    if (recorded.insert(entry.node).second) settled.push_back({entry.node, follow(it->second)});
  }
  graph.folded = std::move(settled);
}

}  // namespace braze
