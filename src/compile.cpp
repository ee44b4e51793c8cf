// The path: bytes -> Graph -> simpler Graph -> Plan -> kernels -> a Model that runs.
#include "braze/braze.hpp"
#include "graph/shape.hpp"
#include "machine.hpp"
#include "model/bind_dims.hpp"
#include "model/read_onnx.hpp"
#include "passes/lower_precision.hpp"
#include "passes/pipeline.hpp"
#include "passes/promote_half.hpp"
#include "select.hpp"
#include "state.hpp"
#include "tune.hpp"

namespace braze {

std::shared_ptr<Model::State> prepare(const Machine& machine, Graph graph, const Options& options) {
  check_supported(options, machine.device);

  bind_dims(graph, options.dims);
  bind_constants(graph, options.constants);
  resolve_graph(graph);
  if (options.compute_dtype_io) promote_half_and_borders(graph);

  auto state = std::make_shared<Model::State>();
  state->max_error = options.max_error;
  state->reference = graph.compacted();

  simplify(graph, pass_options(options));
  if (const DType compute = compute_type(options); compute != DType::kFloat32)
    lower_precision(graph, compute, options.compute_dtype_io);
  state->simplified = graph.compacted();
  return state;
}

Model compile_for(const Machine& machine, Graph graph, const Options& options) {
  const std::shared_ptr<Model::State> state = prepare(machine, std::move(graph), options);

  const std::unique_ptr<TuningDatabase> database = open_database(machine, options);
  std::optional<std::string> unmeasured;
  if (database != nullptr)
    unmeasured = measure_unknown(machine, *state->simplified, options, *database);

  Plan plan = plan_for(machine, *state->simplified, options, database.get());
  state->program = make_program(std::move(plan), machine, options);
  describe(*state);
  if (database != nullptr) state->summary.warnings = database->warnings();
  if (unmeasured) state->summary.warnings.push_back(*unmeasured);
  return Model(state);
}

Result<Model> compile(const std::filesystem::path& file, const Options& options) {
  return guarded([&] { return compile_for(select_machine(options), read_onnx(file), options); });
}

Result<Model> compile(std::span<const std::byte> bytes, const std::filesystem::path& folder,
                      const Options& options) {
  return guarded(
      [&] { return compile_for(select_machine(options), read_onnx(bytes, folder), options); });
}

}  // namespace braze
