// Graph to graph: simpler, with the same meaning.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace braze {

/// What a pass did, for whoever traces it.
struct PassTrace {
  std::string_view pass;
  int sweep = 0;       ///< the passes run over and over until none finds anything
  int rewrites = 0;    ///< how often it changed the graph; passes that found nothing are not traced
  const Graph& graph;  ///< after it; print(graph) is its text
};

struct PassOptions {
  std::vector<std::string> disabled;  ///< passes that do not run
  bool promote_half = false;  ///< compute float16 and bfloat16 in float32 (see promote_half.hpp)
  std::function<void(const PassTrace&)> trace;
  std::string dump_directory;  ///< where the graph before a failing pass is written; "": nowhere
};

/// Names of all passes, in the order in which they run.
std::vector<std::string_view> pass_names();

/// Simplifies a graph that resolve_graph() has been through; it is verified after each pass that
/// changed it. Afterwards every model node is an origin of exactly one live node, or in
/// graph.folded once. Errors: kUsage for an unknown name in `disabled`; what a pass throws, with
/// the pass and the dump file in its message.
void simplify(Graph& graph, const PassOptions& options = {});

}  // namespace braze
