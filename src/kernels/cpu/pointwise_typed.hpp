// Element-by-element functions of every dtype, where fp32 rows do not do.
#pragma once

#include "graph/graph.hpp"
#include "kernels/cpu/pointwise_loop.hpp"

namespace braze::cpu {

/// Pointers to a chunk's first elements.
struct TypedArguments {
  void* y = nullptr;
  std::array<const void*, kOperands> x{};
  const Attributes* op = nullptr;
};
using TypedChunk = void (*)(const Chunk& chunk, const TypedArguments& arguments);

/// The function of a Unary, Binary, Where, Cast or Identity node for its dtypes; null if there is
/// none (fp32 arithmetic, which is pointwise_rows' work, excluded).
TypedChunk typed_chunk(const Graph& graph, const Node& node);

}  // namespace braze::cpu
