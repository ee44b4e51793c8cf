// What a compiled Model holds.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "braze/braze.hpp"
#include "exec/program.hpp"
#include "graph/graph.hpp"
#include "plan/make_plan.hpp"

namespace braze {

struct Model::State {
  std::unique_ptr<const Program> program;
  std::optional<Graph>
      reference;  // the resolved graph as read, for verify; none in a loaded engine
  std::optional<Graph> simplified;  // after the passes: the values that the plan's kernels make
  double max_error = 0;
  PlanSummary summary;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
};

/// The model's graph as it was read, and simplified for the machine; no program yet.
std::shared_ptr<Model::State> prepare(const struct Machine& machine, Graph graph,
                                      const Options& options);

/// Fills summary, inputs and outputs from the program's plan.
void describe(Model::State& state);

/// Calls `body` and turns what it throws into an Error: the door between exceptions inside and
/// values outside.
template <class Body>
auto guarded(const Body& body) -> Result<decltype(body())>;

/// Runs the program against the reference graph.
VerifyReport verify_against_reference(const Model::State& state, std::span<const Tensor> inputs,
                                      bool bisect, Reference with);

}  // namespace braze

#include <exception>
#include <new>

#include "base/error.hpp"

template <class Body>
auto braze::guarded(const Body& body) -> Result<decltype(body())> {
  try {
    return body();
  } catch (const Exception& exception) {
    return exception.error();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory on the host"};
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kInternal, exception.what()};
  }
}
