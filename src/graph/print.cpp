// One line per input, node and output:
//   conv1: Conv(x, w=float[8,3,3,3], b=float[8]) window=3x3 pads=1,1:1,1 -> y float[1,8,32,32]
// Attributes are shown where they differ from the operator's default; small integer constants are
// shown in full.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/fields.hpp"
#include "graph/graph.hpp"
#include "graph/print.hpp"

namespace braze {
namespace {

constexpr std::int64_t kShownElements = 8;

std::string text(double value) { return fmt::format("{}", value); }
std::string text(std::int64_t value) { return fmt::format("{}", value); }
std::string text(bool value) { return value ? "yes" : "no"; }
std::string text(DType value) { return to_string(value); }
std::string text(const Ints& values) { return to_string(values); }
std::string text(const std::vector<double>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

template <class Enum>
  requires std::is_enum_v<Enum>
std::string text(Enum value) {
  return to_string(value);
}

template <class T>
std::string elements(const Tensor& tensor) {
  return fmt::format("{{{}}}", fmt::join(tensor.as<T>(), tensor.as<T>() + tensor.count(), ","));
}

std::string text(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  if (tensor.count() <= kShownElements && tensor.shape().size() <= 1) {
    if (tensor.dtype() == DType::kInt64) return elements<std::int64_t>(tensor);
    if (tensor.dtype() == DType::kFloat32) return elements<float>(tensor);
  }
  return fmt::format("{}{}", to_string(tensor.dtype()), to_string(tensor.shape()));
}

bool all_equal(const Ints& values, std::int64_t wanted) {
  return std::all_of(values.begin(), values.end(),
                     [wanted](std::int64_t value) { return value == wanted; });
}

std::string text(const Window& window) {
  std::string line = fmt::format("{}", fmt::join(window.kernel, "x"));
  if (!all_equal(window.strides, 1))
    line += fmt::format(" strides={}", fmt::join(window.strides, "x"));
  if (!all_equal(window.dilations, 1))
    line += fmt::format(" dilations={}", fmt::join(window.dilations, "x"));
  if (!all_equal(window.pads_begin, 0) || !all_equal(window.pads_end, 0)) {
    line += fmt::format(" pads={}:{}", fmt::join(window.pads_begin, ","),
                        fmt::join(window.pads_end, ","));
  }
  if (window.auto_pad != AutoPad::kNotSet)
    line += fmt::format(" auto_pad={}", to_string(window.auto_pad));
  return line;
}

template <class Op>
std::string attributes(const Op& op) {
  const Op standard{};
  std::string line;
  const auto append = [&](const auto& field) {
    const std::string value = text(op.*field.member);
    const std::string_view name = field.name;
    if (name == "fn" || value != text(standard.*field.member))
      line += fmt::format(" {}={}", name, value);
  };
  std::apply([&](const auto&... field) { (append(field), ...); }, fields(&op));
  return line;
}

std::string type_text(const Value& value) {
  std::vector<std::string> extents;
  for (std::size_t i = 0; i < value.shape.size(); ++i) {
    if (value.shape[i] >= 0) {
      extents.push_back(fmt::format("{}", value.shape[i]));
    } else {
      const bool named = i < value.symbols.size() && !value.symbols[i].empty();
      extents.push_back(named ? value.symbols[i] : "?");
    }
  }
  return fmt::format("{}[{}]", to_string(value.dtype), fmt::join(extents, ","));
}

std::string name_of(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "_";
  const std::string& name = graph.value(id).name;
  return name.empty() ? fmt::format("%{}", id) : name;
}

std::string operand(const Graph& graph, ValueId id) {
  std::string name = name_of(graph, id);
  if (id == kNoValue || !graph.value(id).is_constant()) return name;
  return fmt::format("{}={}", name, text(*graph.value(id).constant));
}

std::string result(const Graph& graph, ValueId id) {
  return id == kNoValue ? "_"
                        : fmt::format("{} {}", name_of(graph, id), type_text(graph.value(id)));
}

}  // namespace

std::string print_attributes(const Attributes& op) {
  return std::visit([](const auto& one) { return attributes(one); }, op);
}

std::string print(const Graph& graph, const Node& node) {
  std::vector<std::string> operands;
  std::vector<std::string> results;
  operands.reserve(node.inputs.size());
  results.reserve(node.outputs.size());
  for (const ValueId id : node.inputs) operands.push_back(operand(graph, id));
  for (const ValueId id : node.outputs) results.push_back(result(graph, id));
  return fmt::format("{}: {}({}){} -> {}", node.id, to_string(node.kind()),
                     fmt::join(operands, ", "), print_attributes(node.op),
                     fmt::join(results, ", "));
}

std::string print(const Graph& graph) {
  std::string lines = fmt::format("graph {}\n", graph.name);
  for (const ValueId id : graph.inputs) lines += fmt::format("input {}\n", result(graph, id));
  for (const NodeId id : graph.order()) lines += print(graph, graph.node(id)) + '\n';
  for (const GraphOutput& output : graph.outputs) {
    const std::string name = name_of(graph, output.value);
    lines += output.name == name ? fmt::format("output {}\n", name)
                                 : fmt::format("output {} = {}\n", output.name, name);
  }
  return lines;
}

}  // namespace braze
