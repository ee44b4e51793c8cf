#include "passes/lower_precision.hpp"

#include <algorithm>

#include "graph/elements.hpp"
#include "passes/edit.hpp"

namespace braze {
namespace {

/// Operators whose float operands are scales, or are multiplied by scales, of full precision.
bool keeps_float32(const Node& node) {
  return node.kind() == OpKind::kQuantize || node.kind() == OpKind::kDequantize ||
         node.kind() == OpKind::kQLinearConv;
}

class Lowering {
 public:
  Lowering(Graph& graph, DType compute, bool borders)
      : graph_(graph), compute_(compute), borders_(borders) {}

  int run() {
    const ValueId before = graph_.value_count();
    if (!borders_) {
      for (const ValueId input : graph_.inputs) lower_input(input);
      for (GraphOutput& output : graph_.outputs) raise_output(output);
    }
    for (const NodeId id : graph_.order()) {
      if (keeps_float32(graph_.node(id))) surround(id);
    }
    const int changed = convert_all(before);
    drop_idle_casts();
    return changed;
  }

 private:
  bool is_float32(ValueId id) const {
    return id != kNoValue && graph_.value(id).dtype == DType::kFloat32;
  }
  void keep(ValueId id) { kept_.push_back(id); }
  bool kept(ValueId id) const { return std::find(kept_.begin(), kept_.end(), id) != kept_.end(); }

  ValueId cast(ValueId from, DType to, const std::string& suffix) {
    return insert(graph_, Cast{to}, {from}, graph_.value(from).name + suffix, {});
  }

  /// Readers of `from`, all but `except` and those that stay in float32, read `to`.
  void reroute(ValueId from, ValueId to, NodeId except) {
    const std::vector<NodeId> readers = graph_.users(from);
    for (const NodeId reader : readers) {
      if (reader == except || keeps_float32(graph_.node(reader))) continue;
      std::vector<ValueId>& operands = graph_.node(reader).inputs;
      std::replace(operands.begin(), operands.end(), from, to);
    }
    graph_.touch();
  }

  void lower_input(ValueId input) {
    if (!is_float32(input)) return;
    keep(input);
    if (graph_.users(input).empty()) return;
    const ValueId low = cast(input, compute_, "/lowered");
    reroute(input, low, graph_.producer(low));
  }

  void raise_output(GraphOutput& output) {
    if (!is_float32(output.value)) return;
    if (!kept(output.value)) {
      // The value is computed low; its float32 copy is the output.
      const ValueId high = cast(output.value, DType::kFloat32, "/raised");
      output.value = high;
    }
    keep(output.value);
  }

  /// A node that stays in float32: Casts before and behind it.
  void surround(NodeId id) {
    for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const ValueId input = graph_.node(id).inputs[i];
      if (!is_float32(input) || kept(input)) continue;
      const std::vector<NodeId>& readers = graph_.users(input);
      const bool only_such = std::all_of(readers.begin(), readers.end(), [this](NodeId reader) {
        return keeps_float32(graph_.node(reader));
      });
      if (graph_.value(input).is_constant() && only_such) {
        keep(input);
        continue;
      }
      const ValueId high = cast(input, DType::kFloat32, "/raised");
      keep(high);
      graph_.node(id).inputs[i] = high;
      graph_.touch();
    }
    for (const ValueId output : std::vector<ValueId>(graph_.node(id).outputs)) {
      if (!is_float32(output) || kept(output)) continue;
      keep(output);
      if (graph_.users(output).empty()) continue;
      const ValueId low = cast(output, compute_, "/lowered");
      reroute(output, low, graph_.producer(low));
    }
  }

  int convert_all(ValueId before) {
    int changed = 0;
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      Value& value = graph_.value(id);
      if (value.dtype != DType::kFloat32 || kept(id)) continue;
      value.dtype = compute_;
      if (value.constant) value.constant = braze::cast(*value.constant, compute_);
      if (id < before) ++changed;
    }
    for (const NodeId id : graph_.order()) {
      auto* op = graph_.node(id).as<Cast>();
      if (op != nullptr) op->to = graph_.value(graph_.node(id).output()).dtype;
    }
    return changed;
  }

  /// Casts between float32 and what was 16 bits wide before: now from a type to itself.
  void drop_idle_casts() {
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (node.as<Cast>() == nullptr || !node.origins.empty()) continue;
      const ValueId from = node.inputs[0];
      const ValueId to = node.output();
      if (graph_.value(from).dtype != graph_.value(to).dtype) continue;
      if (graph_.is_output(to) && (graph_.is_input(from) || graph_.value(from).is_constant()))
        continue;
      for (GraphOutput& output : graph_.outputs) {
        if (output.value == to) output.value = from;
      }
      reroute(to, from, id);
    }
    graph_.touch();
    graph_.remove_dead();
  }

  Graph& graph_;
  DType compute_;
  bool borders_;
  std::vector<ValueId> kept_;  // stay float32
};

}  // namespace

int lower_precision(Graph& graph, DType compute, bool borders) {
  return Lowering(graph, compute, borders).run();
}

}  // namespace braze
