// For backends without 16-bit arithmetic: the CPU computes float16 and bfloat16 networks in
// float32.
#pragma once

#include "graph/graph.hpp"

namespace braze {

/// Makes every float16 and bfloat16 value of a resolved graph a float32, constants included. Graph
/// inputs and outputs keep their dtype: a Cast, which stands for no model node, follows such an
/// input and precedes such an output. A Cast to a 16-bit float inside becomes one to float32, so
/// intermediate results are no longer rounded to 16 bits, nor do they overflow there. Returns the
/// number of values changed.
int promote_half(Graph& graph);

/// The same for graph inputs and outputs too: they become float32 (--io-dtype compute).
int promote_half_and_borders(Graph& graph);

}  // namespace braze
