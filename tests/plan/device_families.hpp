// Kernel families that exist only for the planner's tests: what each takes, and no kernels.
#pragma once

#include "target/problem.hpp"

namespace braze::test {

template <OpKind... kinds>
Support takes(const Graph&, const Node& node, const Device&) {
  return ((node.kind() == kinds) || ...) ? Support::yes() : Support::no("operator", "");
}
inline Support takes_all(const Graph&, const Node&, const Device&) { return Support::yes(); }

inline Registry device_families() {
  using enum OpKind;
  using enum LayoutRule;
  return {
      {.name = "conv",
       .backend = "cpu",
       .layouts = kEach,
       .epilogue = true,
       .pitched = true,
       .supports = takes<kConv>},
      {.name = "pool",
       .backend = "cpu",
       .layouts = kSame,
       .epilogue = true,
       .pitched = true,
       .supports = takes<kPool, kReduce>},
      {.name = "pointwise",
       .backend = "cpu",
       .layouts = kSame,
       .epilogue = true,
       .pitched = true,
       .in_place = true,
       .supports = takes<kUnary, kBinary>},
      {.name = "concat",
       .backend = "cpu",
       .layouts = kSame,
       .pitched = true,
       .supports = takes<kConcat>},
      {.name = "slice",
       .backend = "cpu",
       .layouts = kSame,
       .pitched = true,
       .supports = takes<kSlice, kSplit, kPad>},
      {.name = "transpose",
       .backend = "cpu",
       .layouts = kEach,
       .pitched = true,
       .supports = takes<kTranspose, kChannelShuffle>},
      {.name = "relayout",
       .backend = "cpu",
       .layouts = kEach,
       .pitched = true,
       .supports = takes<>},
      {.name = "reference", .backend = "cpu", .layouts = kModelOnly, .supports = takes_all},
  };
}

}  // namespace braze::test
