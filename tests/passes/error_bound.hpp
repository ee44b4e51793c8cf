// What rounding may do to a graph's results, worked out along with them.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.hpp"

namespace braze::test {

struct BoundedResults {
  std::vector<Tensor> values;  // as interpret() gives them
  std::vector<std::vector<double>>
      bounds;  // |value - what exact arithmetic would give| of each element
};

/// Runs a resolved graph of floats and, by first-order running error analysis, bounds how far each
/// result may be from that of exact arithmetic: every operation rounds each of its terms by `u`,
/// the unit round-off of its dtype, and amplifies the errors of its inputs. Float constants count
/// as rounded `constant_roundings` times: 0 for a model as it came, 2 for one whose constants were
/// computed from others.
BoundedResults run_with_bounds(const Graph& graph, std::span<const Tensor> inputs,
                               int constant_roundings);

/// Runs both graphs. Each element of each output must differ by no more than the sum of the two
/// bounds; what is not finite must be equal. Reports the first element that is off as a test
/// failure.
void expect_same_results(const Graph& model, const Graph& simplified,
                         std::span<const Tensor> inputs);

}  // namespace braze::test
