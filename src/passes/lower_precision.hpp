// For backends with 16-bit arithmetic: --precision fp16 and bf16.
#pragma once

#include "graph/graph.hpp"

namespace braze {

/// Makes every float32 value of a simplified graph a `compute` (float16 or bfloat16), constants
/// included, but for what quantization operators read and make. Graph inputs and outputs keep their
/// dtype unless `borders`: a Cast, which stands for no model node, follows such an input and
/// precedes such an output. Returns the number of values changed.
int lower_precision(Graph& graph, DType compute, bool borders);

}  // namespace braze
