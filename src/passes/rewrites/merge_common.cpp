// f(x) and f(x) are one node; equal small constants are one constant
#include <cstring>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "graph/fields.hpp"
#include "passes/edit.hpp"
#include "passes/rewrites.hpp"

namespace braze {
namespace {

constexpr std::size_t kSmallConstant = 4096;  // bytes

/// Text that is equal for equal nodes, and only for those.
class Key {
 public:
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void add(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values) add(value);
  }
  void add(const Window& window) {
    for_each_field(window, [this](const char*, const auto& field) { add(field); });
  }
  void add(const Tensor& tensor) {
    add(tensor.dtype());
    add(tensor.shape());
    if (tensor.defined()) text_.append(static_cast<const char*>(tensor.data()), tensor.bytes());
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string key_of(const Graph& graph, const Node& node) {
  Key key;
  key.add(node.kind());
  std::visit(
      [&key](const auto& op) {
        for_each_field(op, [&key](const char*, const auto& field) { key.add(field); });
      },
      node.op);
  key.add(node.inputs);
  for (const ValueId output : node.outputs) {
    key.add(output == kNoValue);
    if (output != kNoValue) key.add(graph.value(output).dtype);
  }
  return key.text();
}

int merge_constants(Graph& graph) {
  std::unordered_map<std::string, ValueId> first;
  int merged = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (!value.is_constant() || value.constant->bytes() > kSmallConstant || graph.users(id).empty())
      continue;
    if (graph.is_output(id)) continue;
    Key key;
    key.add(*value.constant);
    const auto [it, added] = first.emplace(key.text(), id);
    if (added) continue;
    graph.replace_uses(id, it->second);
    ++merged;
  }
  return merged;
}

bool makes_output(const Graph& graph, const Node& node) {
  for (const ValueId output : node.outputs) {
    if (output != kNoValue && graph.is_output(output)) return true;
  }
  return false;
}

}  // namespace

int merge_common(Graph& graph) {
  int merged = merge_constants(graph);
  std::unordered_map<std::string, NodeId> first;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const auto [it, added] = first.emplace(key_of(graph, node), id);
    // Each graph output stays a value of its own.
    if (added || makes_output(graph, node)) continue;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue)
        graph.replace_uses(node.outputs[i], graph.node(it->second).outputs[i]);
    }
    absorb(graph, it->second, {id});
    ++merged;
  }
  return merged;
}

}  // namespace braze
