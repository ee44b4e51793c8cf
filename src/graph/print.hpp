// Text of parts of a graph; graph.hpp declares print() of the whole.
#pragma once

#include <string>

#include "graph/op.hpp"

namespace braze {

/// " group=2 window=3x3": the attributes that differ from the operator's default.
std::string print_attributes(const Attributes& op);

}  // namespace braze
