// Plans from measured times.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "braze/braze.hpp"
#include "exec/tuning_db.hpp"
#include "machine.hpp"

namespace braze {

/// What is known of the machine's kernels; null if it has no name to file it under.
std::unique_ptr<TuningDatabase> open_database(const Machine& machine, const Options& options);

/// Where several libraries' kernels compete (machine.alternatives): measures convolutions that the
/// database does not know. What fails is no error, as a plan can be made without: returns why.
std::optional<std::string> measure_unknown(const Machine& machine, const Graph& graph,
                                           const Options& options, TuningDatabase& database);

/// The plan by what `database` knows; by estimates if it is null.
Plan plan_for(const Machine& machine, const Graph& graph, const Options& options,
              const TuningDatabase* database);

/// Everything of tune() after reading the model. Errors are thrown.
TuneReport tune_for(const Machine& machine, Graph graph, const Options& options,
                    const TuneOptions& tuning);

}  // namespace braze
