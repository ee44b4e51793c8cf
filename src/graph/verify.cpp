#include "graph/verify.hpp"

#include "base/error.hpp"
#include "graph/check_attributes.hpp"
#include "graph/legality.hpp"
#include "graph/shape.hpp"

namespace braze {
namespace {

/// What the checks share: the graph, what makes each value, and the message of a failure.
class Verifier {
 public:
  Verifier(const Graph& graph, std::string_view after)
      : graph_(graph), after_(after), made_(static_cast<std::size_t>(graph.value_count()), false) {}

  void run() {
    for (const ValueId id : graph_.inputs) make(id, "the graph's inputs");
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (graph_.value(id).is_constant() && !graph_.is_input(id)) {
        make(id, "the constants");
        check_constant(graph_.value(id));
      }
    }
    for (const NodeId id : order()) check_node(graph_.node(id));
    for (const GraphOutput& output : graph_.outputs) {
      if (!is_made(output.value))
        broken(fmt::format("graph output '{}'", output.name), "is made by nothing");
    }
  }

 private:
  [[noreturn]] void broken(const std::string& where, const std::string& what) const {
    fail(ErrorCode::kInternal, "internal error: after {}: {}: {}", after_, where, what);
  }

  [[nodiscard]] bool exists(ValueId id) const { return id >= 0 && id < graph_.value_count(); }
  [[nodiscard]] bool is_made(ValueId id) const {
    return exists(id) && made_[static_cast<std::size_t>(id)];
  }

  void make(ValueId id, const std::string& where) {
    if (!exists(id)) broken(where, "an output is no value of the graph");
    if (is_made(id)) broken(where, fmt::format("'{}' is made twice", graph_.value(id).name));
    made_[static_cast<std::size_t>(id)] = true;
  }

  void check_constant(const Value& value) const {
    const Tensor& tensor = *value.constant;
    if (tensor.dtype() != value.dtype || tensor.shape() != value.shape) {
      broken(
          fmt::format("constant '{}'", value.name),
          fmt::format("holds {}{}, expected {}{}", to_string(tensor.dtype()),
                      to_string(tensor.shape()), to_string(value.dtype), to_string(value.shape)));
    }
  }

  [[nodiscard]] std::vector<NodeId> order() const {
    try {
      return graph_.order();
    } catch (const Exception& error) {
      broken("the graph", error.what());
    }
  }

  void check_node(const Node& node) {
    const std::string where = fmt::format("node '{}' ({})", node.id, to_string(node.kind()));
    const std::string wrong = graph::illegal(graph_, node, graph::Form::kResolved);
    if (!wrong.empty()) broken(where, wrong);
    for (const ValueId input : node.inputs) {
      if (input != kNoValue && !is_made(input)) {
        broken(where, fmt::format("input '{}' is made by nothing", graph_.value(input).name));
      }
    }
    const std::vector<TensorType> types = inferred(node);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      make(node.outputs[i], where);
      const Value& value = graph_.value(node.outputs[i]);
      if (value.dtype != types[i].dtype || value.shape != types[i].shape) {
        broken(where, fmt::format("'{}' is {}{}, expected {}{}", value.name, to_string(value.dtype),
                                  to_string(value.shape), to_string(types[i].dtype),
                                  to_string(types[i].shape)));
      }
    }
  }

  [[nodiscard]] std::vector<TensorType> inferred(const Node& node) const {
    try {
      check_attributes(graph_, node);
      return infer(graph_, node);
    } catch (const Exception& error) {
      fail(ErrorCode::kInternal, "internal error: after {}: {}", after_, error.what());
    }
  }

  const Graph& graph_;
  std::string_view after_;
  std::vector<bool> made_;
};

}  // namespace

void verify(const Graph& graph, std::string_view after) { Verifier(graph, after).run(); }

}  // namespace braze
