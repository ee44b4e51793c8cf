// What every test of a simplification checks besides the shape of the graph it wants.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "passes/error_bound.hpp"
#include "passes/matchers.hpp"
#include "passes/net.hpp"
#include "passes/pipeline.hpp"

namespace braze::test {

/// Each model node is an origin of exactly one live node, or was folded once, into another.
inline void expect_accounted(const Graph& graph, const std::vector<std::string>& ids) {
  std::map<std::string, int> places;
  std::vector<std::string> targets = ids;
  targets.insert(targets.end(), {"constant", "unused", "view"});
  for (const NodeId node : graph.order()) {
    for (const std::string& origin : graph.node(node).origins) ++places[origin];
  }
  for (const Folded& entry : graph.folded) {
    ++places[entry.node];
    EXPECT_NE(std::find(targets.begin(), targets.end(), entry.into), targets.end())
        << entry.node << " was folded into '" << entry.into << "', no node of the model, in\n"
        << print(graph);
  }
  for (const std::string& id : ids) EXPECT_EQ(places[id], 1) << id << " in\n" << print(graph);
  EXPECT_EQ(places.size(), ids.size()) << print(graph);
}

/// The net's graph simplified, with everything checked that must hold whatever was rewritten.
inline Graph simplified(Net& net, const PassOptions& options = {}) {
  Graph graph = net.graph;
  simplify(graph, options);
  expect_accounted(graph, net.ids());
  expect_same_results(net.graph, graph, net.inputs());
  return graph;
}

/// The ids that stand behind the node that makes `ref`, in alphabetical order.
inline std::vector<std::string> origins_of(const Ref& ref) {
  const NodeId node = ref.graph->producer(ref.id);
  if (node == kNoNode) return {};
  std::vector<std::string> origins = ref.graph->node(node).origins;
  std::sort(origins.begin(), origins.end());
  return origins;
}

/// What a model node was folded into, "" if it was not.
inline std::string folded_into(const Graph& graph, const std::string& node) {
  for (const Folded& entry : graph.folded) {
    if (entry.node == node) return entry.into;
  }
  return "";
}

/// One tensor of these values.
inline std::vector<Tensor> values(Shape shape, const std::vector<double>& elements,
                                  DType dtype = DType::kFloat32) {
  return {make_tensor(dtype, std::move(shape), elements)};
}

}  // namespace braze::test
