#include "graph/graph.hpp"

#include <algorithm>
#include <queue>

#include "base/error.hpp"

namespace braze {

ValueId Graph::add_value(std::string value_name, DType dtype, Shape shape) {
  Value value;
  value.name = std::move(value_name);
  value.dtype = dtype;
  value.shape = std::move(shape);
  values_.push_back(std::move(value));
  touch();
  return value_count() - 1;
}

ValueId Graph::add_constant(std::string value_name, Tensor tensor) {
  const ValueId id = add_value(std::move(value_name), tensor.dtype(), tensor.shape());
  value(id).known_rank = true;
  value(id).constant = std::move(tensor);
  return id;
}

NodeId Graph::add_node(Attributes op, std::vector<ValueId> node_inputs,
                       std::vector<ValueId> node_outputs, std::string id,
                       std::vector<std::string> origins) {
  Node node;
  node.op = std::move(op);
  node.inputs = std::move(node_inputs);
  node.outputs = std::move(node_outputs);
  node.id = std::move(id);
  node.origins = std::move(origins);
  nodes_.push_back(std::move(node));
  touch();
  return node_count() - 1;
}

void Graph::build_index() const {
  producer_.assign(values_.size(), kNoNode);
  users_.assign(values_.size(), {});
  for (NodeId id = 0; id < node_count(); ++id) {
    if (node(id).erased) continue;
    for (const ValueId output : node(id).outputs) {
      if (output != kNoValue) producer_[static_cast<std::size_t>(output)] = id;
    }
    for (const ValueId input : node(id).inputs) {
      if (input != kNoValue) users_[static_cast<std::size_t>(input)].push_back(id);
    }
  }
  index_valid_ = true;
}

NodeId Graph::producer(ValueId id) const {
  if (!index_valid_) build_index();
  return producer_[static_cast<std::size_t>(id)];
}

const std::vector<NodeId>& Graph::users(ValueId id) const {
  if (!index_valid_) build_index();
  return users_[static_cast<std::size_t>(id)];
}

bool Graph::is_output(ValueId id) const {
  return std::any_of(outputs.begin(), outputs.end(),
                     [id](const GraphOutput& output) { return output.value == id; });
}

bool Graph::is_input(ValueId id) const {
  return std::find(inputs.begin(), inputs.end(), id) != inputs.end();
}

NodeId Graph::only_user(ValueId id) const {
  return users(id).size() == 1 && !is_output(id) ? users(id).front() : kNoNode;
}

std::vector<NodeId> Graph::order() const {
  if (!index_valid_) build_index();
  std::vector<int> waiting(nodes_.size(), 0);
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  std::size_t live = 0;
  for (NodeId id = 0; id < node_count(); ++id) {
    if (node(id).erased) continue;
    ++live;
    for (const ValueId input : node(id).inputs) {
      if (input != kNoValue && producer(input) != kNoNode) ++waiting[static_cast<std::size_t>(id)];
    }
    if (waiting[static_cast<std::size_t>(id)] == 0) ready.push(id);
  }
  std::vector<NodeId> sorted;
  sorted.reserve(live);
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    sorted.push_back(id);
    for (const ValueId output : node(id).outputs) {
      if (output == kNoValue) continue;
      for (const NodeId user : users(output)) {
        if (--waiting[static_cast<std::size_t>(user)] == 0) ready.push(user);
      }
    }
  }
  if (sorted.size() != live) {
    for (NodeId id = 0; id < node_count(); ++id) {
      if (!node(id).erased && waiting[static_cast<std::size_t>(id)] > 0) {
        fail(ErrorCode::kModelInvalid, "node '{}' is part of a cycle", node(id).id);
      }
    }
  }
  return sorted;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& node : nodes_) {
    if (!node.erased) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  }
  for (GraphOutput& output : outputs) {
    if (output.value == from) output.value = to;
  }
  touch();
}

void Graph::erase(NodeId id) {
  for (const ValueId output : node(id).outputs) {
    const bool unread = output == kNoValue || value(output).is_constant() ||
                        (users(output).empty() && !is_output(output));
    ensure(unread, "an erased node has no readers, or constant outputs");
  }
  node(id).erased = true;
  touch();
}

void Graph::fold(NodeId id, const std::string& into) {
  for (const std::string& origin : node(id).origins) folded.push_back({origin, into});
  erase(id);
}

void Graph::remove_dead() {
  const std::vector<NodeId> sorted = order();
  for (auto it = sorted.rbegin(); it != sorted.rend(); ++it) {
    const Node& candidate = node(*it);
    const bool dead =
        std::all_of(candidate.outputs.begin(), candidate.outputs.end(), [this](ValueId output) {
          return output == kNoValue || (users(output).empty() && !is_output(output));
        });
    if (dead) fold(*it, "unused");
  }
  // A model node that still has a part in the graph is not folded away.
  std::vector<std::string> alive;
  for (const Node& node : nodes_) {
    if (!node.erased) alive.insert(alive.end(), node.origins.begin(), node.origins.end());
  }
  std::sort(alive.begin(), alive.end());
  std::erase_if(folded, [&alive](const Folded& entry) {
    return entry.into == "unused" && std::binary_search(alive.begin(), alive.end(), entry.node);
  });
  for (ValueId id = 0; id < value_count(); ++id) {
    if (value(id).is_constant() && users(id).empty() && !is_output(id)) value(id).constant.reset();
  }
}

Graph Graph::compacted() const {
  Graph result;
  result.name = name;
  result.folded = folded;
  std::vector<ValueId> renamed(values_.size(), kNoValue);
  const auto keep = [&](ValueId id) {
    if (id == kNoValue) return kNoValue;
    ValueId& target = renamed[static_cast<std::size_t>(id)];
    if (target == kNoValue) {
      result.values_.push_back(value(id));
      target = result.value_count() - 1;
    }
    return target;
  };
  for (const ValueId input : inputs) result.inputs.push_back(keep(input));
  for (const NodeId id : order()) {
    Node copy = node(id);
    for (ValueId& input : copy.inputs) input = keep(input);
    for (ValueId& output : copy.outputs) output = keep(output);
    result.nodes_.push_back(std::move(copy));
  }
  for (const GraphOutput& output : outputs)
    result.outputs.push_back({output.name, keep(output.value)});
  return result;
}

}  // namespace braze
