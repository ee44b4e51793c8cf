#include "tune.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "exec/cuda/kernel_cache.hpp"
#include "exec/tuner.hpp"
#include "kernels/version.hpp"
#include "model/read_onnx.hpp"
#include "plan/make_plan.hpp"
#include "select.hpp"
#include "state.hpp"

namespace braze {
namespace {

/// Candidates of a convolution that are measured while a network is compiled.
constexpr int kCandidatesWhileCompiling = 4;
/// The two plans of a network take turns, for this many seconds in all, each turn for so long.
constexpr double kSeconds = 2, kTurnSeconds = 0.1;

TunerOptions tuner_options(const Options& options) {
  TunerOptions tuner;
  tuner.progress = options.progress;
  return tuner;
}

TunerResult measure(const Machine& machine, const Graph& graph, const Options& options,
                    TuningDatabase& database, const TunerOptions& tuner) {
  const Plan estimated = plan_for(machine, graph, options, nullptr);
  return tune_kernels(
      estimated, machine.registry, {&database, machine.alternatives}, database,
      [&](Plan plan) { return make_program(std::move(plan), machine, options); }, tuner);
}

Model model_of(const Machine& machine, const Model::State& prepared, Plan plan,
               const Options& options) {
  auto state = std::make_shared<Model::State>();
  state->reference = prepared.reference;
  state->simplified = prepared.simplified;
  state->max_error = prepared.max_error;
  state->program = make_program(std::move(plan), machine, options);
  describe(*state);
  return Model(std::move(state));
}

template <class T>
T unwrap(Result<T> result) {
  if (!result) throw Exception(result.error());
  return std::move(result).value();
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// Microseconds of whole runs of two models, in turns: the median on a GPU, which is ours; on the
/// CPU, where others take time, the least. Nothing if stopped.
std::optional<std::array<double, 2>> compare(const Model& a, const Model& b, DeviceKind kind,
                                             const std::function<bool()>& stop) {
  using Clock = std::chrono::steady_clock;
  const std::vector<Tensor> inputs = random_inputs(a);
  const Clock::time_point begin = Clock::now();
  std::array<std::vector<double>, 2> times;
  int iterations = 3;
  for (std::chrono::duration<double> turn{}, all{}; all.count() < kSeconds;) {
    const Clock::time_point before = Clock::now();
    for (const std::size_t i : {0U, 1U}) {
      if (stop && stop()) return std::nullopt;
      std::ranges::copy(unwrap((i == 0 ? a : b).time(inputs, iterations)),
                        std::back_inserter(times[i]));
    }
    turn = Clock::now() - before, all = Clock::now() - begin;
    // What a turn took by the clock, warm-ups and other processes' time included.
    iterations =
        static_cast<int>(std::clamp(iterations * 2 * kTurnSeconds / turn.count(), 3.0, 1000.0));
  }
  const auto typical = [kind](std::vector<double>& seconds) {
    return 1e6 * (kind == DeviceKind::kCuda ? median(std::move(seconds))
                                            : *std::ranges::min_element(seconds));
  };
  return std::array{typical(times[0]), typical(times[1])};
}

bool same_kernels(const Plan& a, const Plan& b) {
  return std::ranges::equal(a.kernels, b.kernels, [](const KernelPlan& one, const KernelPlan& two) {
    return name_of(one.family, one.candidate) == name_of(two.family, two.candidate);
  });
}

TunedProblem describe(const KernelProblem& problem, const Plan& tuned,
                      const TuningDatabase& database) {
  const KernelPlan& kernel = tuned.kernels[problem.kernels[0]];
  TunedProblem result;
  for (const std::size_t k : problem.kernels) result.kernels.push_back(tuned.kernels[k].name);
  result.estimated = problem.favourite;
  result.tuned = name_of(kernel.family, kernel.candidate);
  result.estimated_us = database.us(problem.text, result.estimated).value_or(0);
  result.tuned_us = database.us(problem.text, result.tuned).value_or(0);
  result.measured = problem.measured;
  return result;
}

}  // namespace

std::unique_ptr<TuningDatabase> open_database(const Machine& machine, const Options& options) {
  if (machine.name.empty()) return nullptr;
  return std::make_unique<TuningDatabase>(cuda::cache_folder(options.cache_dir), machine.name,
                                          kernels_version(machine.device.kind));
}

Plan plan_for(const Machine& machine, const Graph& graph, const Options& options,
              const TuningDatabase* database) {
  return make_plan(graph, machine.device, plan_options(options), machine.registry,
                   {database, machine.alternatives});
}

std::optional<std::string> measure_unknown(const Machine& machine, const Graph& graph,
                                           const Options& options, TuningDatabase& database) {
  if (machine.alternatives.empty() || machine.gpu == nullptr || options.plan_only)
    return std::nullopt;
  TunerOptions tuner = tuner_options(options);
  tuner.candidates = kCandidatesWhileCompiling;
  tuner.convolutions_only = true;
  try {
    measure(machine, graph, options, database, tuner);
  } catch (const Exception& exception) {
    return fmt::format("kernels could not be measured ({}); plans go by what is known",
                       exception.what());
  }
  return std::nullopt;
}

TuneReport tune_for(const Machine& machine, Graph graph, const Options& options,
                    const TuneOptions& tuning) {
  if (machine.device.kind == DeviceKind::kCuda && machine.gpu == nullptr)
    fail(ErrorCode::kUsage, "device '{}' names an architecture, not a GPU: nothing can be measured",
         machine.device.name);
  const std::shared_ptr<Model::State> prepared = prepare(machine, std::move(graph), options);
  const std::unique_ptr<TuningDatabase> database = open_database(machine, options);
  ensure(database != nullptr, "a machine that can be measured has a name");

  TunerOptions tuner = tuner_options(options);
  tuner.candidates = tuning.candidates;
  tuner.exhaustive = tuning.exhaustive;
  tuner.stop = tuning.stop;
  const TunerResult result = measure(machine, *prepared->simplified, options, *database, tuner);

  Plan by_estimates = plan_for(machine, *prepared->simplified, options, nullptr);
  Plan tuned = plan_for(machine, *prepared->simplified, options, database.get());
  TuneReport report;
  report.device = machine.name;
  report.database = database->file();
  report.finished = result.finished;
  report.same_plan = same_kernels(by_estimates, tuned);
  for (const KernelProblem& problem : result.problems)
    report.problems.push_back(describe(problem, tuned, *database));
  if (report.finished && !report.same_plan) {
    if (options.progress) options.progress("measuring the network with both plans");
    const Model before = model_of(machine, *prepared, std::move(by_estimates), options);
    const Model after = model_of(machine, *prepared, std::move(tuned), options);
    const auto us = compare(before, after, machine.device.kind, tuning.stop);
    report.finished = us.has_value();
    if (us) report.estimated_us = us->at(0), report.tuned_us = us->at(1);
  }
  report.warnings = database->warnings();
  return report;
}

Result<TuneReport> tune(const std::filesystem::path& file, const Options& options,
                        const TuneOptions& tuning) {
  return guarded(
      [&] { return tune_for(select_machine(options), read_onnx(file), options, tuning); });
}

}  // namespace braze
