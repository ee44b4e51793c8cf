// The operators that Braze reads: one row each.
#pragma once

#include <string_view>

#include "model/node_reader.hpp"

namespace braze::model {

/// The versions of the default operator set that can be read.
inline constexpr int kFirstOpset = 7;
inline constexpr int kLastOpset = 23;
/// For rows: any number of inputs or outputs.
inline constexpr int kMany = 1 << 30;

/// The ONNX operator `name` of the default domain.
struct OpRow {
  std::string_view name;
  int since;       // the first opset that has it; kFirstOpset if it is older
  int until;       // the last one
  int min_inputs;  // inputs 0 to min_inputs - 1 must be there
  int max_inputs;
  int max_outputs;                 // output 0 must be there
  void (*read)(NodeReader& node);  // reads every attribute, emits graph nodes
};

/// The row of an operator of the default domain; null if Braze does not have it.
const OpRow* find_op(std::string_view name);

}  // namespace braze::model
