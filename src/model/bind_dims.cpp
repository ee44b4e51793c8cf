#include "model/bind_dims.hpp"

#include <functional>
#include <set>
#include <vector>

#include "base/error.hpp"

namespace braze {
namespace {

std::string place(const Value& input, std::size_t axis) {
  return fmt::format("{}.{}", input.name, axis);
}

void for_each_axis(Graph& graph, const std::function<void(Value&, std::size_t)>& visit) {
  for (const ValueId id : graph.inputs) {
    for (std::size_t axis = 0; axis < graph.value(id).shape.size(); ++axis) {
      visit(graph.value(id), axis);
    }
  }
}

void check_ranks(const Graph& graph) {
  for (const ValueId id : graph.inputs) {
    if (!graph.value(id).known_rank) {
      fail(ErrorCode::kUnsupported, "input '{}' has no shape in the model", graph.value(id).name);
    }
  }
}

void check_names(Graph& graph, const std::map<std::string, std::int64_t>& dims) {
  std::set<std::string> symbols;
  std::set<std::string> accepted;
  std::map<std::string, std::int64_t> fixed;
  for_each_axis(graph, [&](const Value& input, std::size_t axis) {
    if (input.shape[axis] >= 0) {
      fixed.emplace(place(input, axis), input.shape[axis]);
      return;
    }
    symbols.insert(input.symbols[axis]);
    accepted.insert({input.symbols[axis], place(input, axis)});
  });
  for (const auto& [name, extent] : dims) {
    if (extent < 1) fail(ErrorCode::kUsage, "--dim {}={}: expected 1 or more", name, extent);
    if (accepted.contains(name)) continue;
    if (const auto found = fixed.find(name); found != fixed.end()) {
      fail(ErrorCode::kUsage, "--dim {}={}: the model says {} there, which cannot be changed", name,
           extent, found->second);
    }
    fail(ErrorCode::kUsage, "--dim {}={}: the model has no such dimension; it has {}", name, extent,
         symbols.empty() ? "none to bind" : fmt::format("{}", fmt::join(symbols, ", ")));
  }
}

/// The extent of every symbol that has one: given by name, given by place, or the batch's 1.
std::map<std::string, std::int64_t> extents_of_symbols(
    Graph& graph, const std::map<std::string, std::int64_t>& dims) {
  std::map<std::string, std::int64_t> extents = dims;
  for_each_axis(graph, [&](const Value& input, std::size_t axis) {
    const auto given = dims.find(place(input, axis));
    if (input.shape[axis] >= 0 || given == dims.end()) return;
    const auto [known, added] = extents.emplace(input.symbols[axis], given->second);
    if (known->second != given->second) {
      fail(ErrorCode::kUsage, "--dim {}={}: its symbol {} is {} already", given->first,
           given->second, known->first, known->second);
    }
  });
  for_each_axis(graph, [&](const Value& input, std::size_t axis) {
    if (axis == 0 && input.shape[0] < 0) extents.emplace(input.symbols[0], 1);
  });
  return extents;
}

}  // namespace

void bind_dims(Graph& graph, const std::map<std::string, std::int64_t>& dims) {
  check_ranks(graph);
  check_names(graph, dims);
  const std::map<std::string, std::int64_t> extents = extents_of_symbols(graph, dims);
  std::vector<std::string> unbound;
  for_each_axis(graph, [&](Value& input, std::size_t axis) {
    if (input.shape[axis] >= 0) return;
    const auto found = extents.find(input.symbols[axis]);
    if (found == extents.end()) {
      unbound.push_back(
          fmt::format("axis {} of input '{}' is symbolic; give it with --dim {}=VALUE", axis,
                      input.name, input.symbols[axis]));
      return;
    }
    input.shape[axis] = found->second;
    input.symbols[axis].clear();
  });
  if (!unbound.empty()) fail(ErrorCode::kUsage, "{}", fmt::join(unbound, "\n"));
}

}  // namespace braze
