#include "passes/promote_half.hpp"

#include <algorithm>

#include "graph/elements.hpp"
#include "passes/edit.hpp"

namespace braze {
namespace {

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

bool is_cast(const Graph& graph, NodeId node) {
  return node != kNoNode && graph.node(node).kind() == OpKind::kCast;
}

/// Readers of a 16-bit input read a float32 copy, but for those that convert it themselves.
void widen_input(Graph& graph, ValueId input) {
  std::vector<NodeId> readers = graph.users(input);
  std::erase_if(readers, [&graph](NodeId reader) { return is_cast(graph, reader); });
  if (readers.empty()) return;
  const std::string name = graph.value(input).name + "/float32";
  const ValueId wide = insert(graph, Cast{DType::kFloat32}, {input}, name, {});
  for (const NodeId reader : readers) {
    std::vector<ValueId>& operands = graph.node(reader).inputs;
    std::replace(operands.begin(), operands.end(), input, wide);
  }
  graph.touch();
}

/// A 16-bit graph output that becomes float32 inside is cast back on its way out.
void narrow_output(Graph& graph, GraphOutput& output) {
  const bool made_for_it =
      graph.value(output.value).is_constant() || is_cast(graph, graph.producer(output.value));
  if (made_for_it && graph.users(output.value).empty()) return;
  output.value = insert(graph, Cast{graph.value(output.value).dtype}, {output.value},
                        output.name + "/cast", {});
}

/// Every 16-bit value but those in `kept` becomes float32. Returns the number of values changed.
int promote_all_but(Graph& graph, const std::vector<ValueId>& kept) {
  std::vector<bool> keep(static_cast<std::size_t>(graph.value_count()), false);
  for (const ValueId id : kept) keep[static_cast<std::size_t>(id)] = true;

  int changed = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    Value& value = graph.value(id);
    if (!is_half(value.dtype) || keep[static_cast<std::size_t>(id)]) continue;
    value.dtype = DType::kFloat32;
    if (value.constant) value.constant = cast(*value.constant, DType::kFloat32);
    ++changed;
  }
  for (const NodeId id : graph.order()) {
    auto* op = graph.node(id).as<Cast>();
    if (op != nullptr && is_half(op->to) &&
        !keep[static_cast<std::size_t>(graph.node(id).output())]) {
      op->to = DType::kFloat32;
    }
  }
  return changed;
}

}  // namespace

int promote_half(Graph& graph) {
  std::vector<ValueId> kept;  // as they are: what users see
  for (const ValueId input : graph.inputs) {
    if (!is_half(graph.value(input).dtype)) continue;
    widen_input(graph, input);
    kept.push_back(input);
  }
  for (GraphOutput& output : graph.outputs) {
    if (!is_half(graph.value(output.value).dtype) || graph.is_input(output.value)) continue;
    narrow_output(graph, output);
    kept.push_back(output.value);
  }
  return promote_all_but(graph, kept);
}

int promote_half_and_borders(Graph& graph) { return promote_all_but(graph, {}); }

}  // namespace braze
