// The reference: naive and obviously right. Every other way to run a graph is checked against it.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.hpp"

namespace braze {

/// Runs one resolved node. `inputs` match node.inputs (an undefined Tensor where absent). Each
/// output is computed in double (integers in int64) and rounded once to its dtype. Floating point
/// sums run in double.
std::vector<Tensor> interpret_node(const Graph& graph, const Node& node,
                                   std::span<const Tensor> inputs);

/// Runs a resolved graph. `inputs` match graph.inputs in dtype and shape (kInput otherwise); the
/// result matches graph.outputs.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs);

/// All values by ValueId (undefined where never made): for verify --bisect.
std::vector<Tensor> interpret_all(const Graph& graph, std::span<const Tensor> inputs);

/// f(x) and f(a, b) in double, as defined in op.hpp.
double evaluate(const Unary& op, double x);
double evaluate(BinaryFn fn, double a, double b);

}  // namespace braze
