// Measures kernels and fills the tuning database.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/program.hpp"
#include "exec/tuning_db.hpp"
#include "plan/choices.hpp"

namespace braze {

struct TunerOptions {
  int candidates = 8;              // of each problem, the best few by estimate
  bool exhaustive = false;         // all of them
  bool convolutions_only = false;  // problems without a convolution are left alone
  std::function<void(const std::string&)> progress;  // may be empty, like stop
  std::function<bool()> stop;                        // true: no more, keep what is measured
};

/// A kernel problem of a plan that there are several ways to do.
struct KernelProblem {
  std::string text;
  std::vector<std::size_t> kernels;  // of the plan
  std::string favourite;             // the way that estimates prefer
  std::size_t measured = 0;          // ways measured now
};

struct TunerResult {
  std::vector<KernelProblem> problems;
  bool finished = true;  // false: `stop` ended it
};

/// Makes a plan ready to run on the device that is tuned for.
using MakeProgram = std::function<std::unique_ptr<const Program>(Plan)>;

/// Measures what the database does not know of the plan's kernel problems, and adds it, problem by
/// problem. `plan` is made by estimates; `knowledge` has the database as its measurements. A way
/// that fails to run is passed over; throws what the last one threw if all of a
/// problem do and nothing is known of it.
TunerResult tune_kernels(const Plan& plan, const Registry& registry, const Knowledge& knowledge,
                         TuningDatabase& database, const MakeProgram& make,
                         const TunerOptions& options);

}  // namespace braze
