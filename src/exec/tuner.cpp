#include "exec/tuner.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/error.hpp"

namespace braze {
namespace {

/// Ways that estimates think this much slower than the favourite are not tried.
constexpr double kHopeless = 4;
/// Packed weights of all ways that are measured by one program.
constexpr double kMostWeightBytes = 1024.0 * 1024 * 1024;
/// Of a time that is kept: clocks have a resolution.
constexpr double kLeastUs = 0.001;
/// What is kept of a way that did not run where others did, or for which the program took another
/// family, because the library that was asked for has no such kernel: not tried again, not chosen.
constexpr double kNeverUs = 1e12;

/// On a GPU each way is measured once: its launches run back to back, and the device is ours.
constexpr std::size_t kGpuSamples = 9;
/// On the CPU others may take time, so ways take turns: first a run of each that is thrown away
/// (memory is touched, weights come in), then rounds of one run each, of the ways that are not
/// clearly slower. What counts is the least time.
constexpr std::size_t kFewestRounds = 3, kMostRounds = 40;
constexpr double kSecondsEach = 0.1;     // of runs of one way, then it has enough
constexpr double kClearlySlower = 1.25;  // than the fastest so far

struct Problem {
  KernelProblem about;
  std::vector<Way> missing;  // to be measured
};

bool has_convolution(const Plan& plan, const Group& group) {
  return std::ranges::any_of(group.members, [&](const Group::Member& member) {
    const OpKind kind = plan.graph.node(member.anchor).kind();
    return kind == OpKind::kConv;
  });
}

/// The best few by estimate, among them the favourite; and of each other backend the best.
std::vector<Way> best_few(const std::vector<Way>& ways, const TunerOptions& options) {
  if (options.exhaustive) return ways;
  const Way& favourite = ways.front();
  const auto is_foreign = [&](const Way& way) {
    return way.family->backend != favourite.family->backend;
  };
  std::vector<Way> own;  // in the order of their estimates
  for (const Way& way : ways) {
    if (&way == &favourite || is_foreign(way) || way.est_us > kHopeless * favourite.est_us)
      continue;
    own.insert(std::ranges::upper_bound(own, way.est_us, {}, &Way::est_us), way);
  }
  own.insert(own.begin(), favourite);
  own.resize(std::min(own.size(), static_cast<std::size_t>(std::max(options.candidates, 1))));
  std::set<std::string_view> backends;
  for (const Way& way : ways) {
    if (is_foreign(way) && backends.insert(way.family->backend).second) own.push_back(way);
  }
  return own;
}

std::vector<Problem> problems_of(const Plan& plan, const Registry& registry,
                                 const Knowledge& knowledge, const TunerOptions& options) {
  std::vector<Problem> problems;
  std::map<std::string, std::size_t> known;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const KernelPlan& kernel = plan.kernels[k];
    if (options.convolutions_only && !has_convolution(plan, kernel.group)) continue;
    std::string text = problem_text(plan, kernel);
    if (const auto found = known.find(text); found != known.end()) {
      if (found->second < problems.size()) problems[found->second].about.kernels.push_back(k);
      continue;
    }
    const std::vector<Way> all = ways_of(plan, kernel, registry, knowledge);
    const std::vector<Way> ways = best_few(all, options);
    // While compiling, what is alone among the best few is not worth the time.
    const bool has_choice = (options.convolutions_only ? ways : all).size() > 1;
    known[text] = has_choice ? problems.size() : std::string::npos;
    if (!has_choice) continue;
    Problem& problem = problems.emplace_back();
    problem.about = {text, {k}, name_of(ways.front()), 0};
    std::ranges::copy_if(ways, std::back_inserter(problem.missing), [&](const Way& way) {
      return !knowledge.measurements->us(text, name_of(way));
    });
  }
  return problems;
}

/// Bytes that the weights of a problem's ways take together, about.
double weight_bytes(const Plan& plan, const Problem& problem) {
  std::set<ValueId> constants;
  for (const Group::Member& member : plan.kernels[problem.about.kernels[0]].group.members) {
    for (const ValueId id : plan.graph.node(member.anchor).inputs) {
      if (id != kNoValue && plan.graph.value(id).is_constant()) constants.insert(id);
    }
  }
  double bytes = 0;
  for (const ValueId id : constants)
    bytes += static_cast<double>(plan.graph.value(id).constant->bytes());
  return bytes * static_cast<double>(problem.missing.size());
}

/// As many problems as one program may hold, at least one.
std::span<Problem* const> batch_from(const Plan& plan, std::span<Problem* const> open) {
  double bytes = weight_bytes(plan, *open[0]);
  std::size_t count = 1;
  for (; count < open.size(); ++count) {
    bytes += weight_bytes(plan, *open[count]);
    if (bytes > kMostWeightBytes) break;
  }
  return open.first(count);
}

/// The plan whose kernels are the ways of these problems, in order.
Plan plan_of_ways(const Plan& plan, std::span<Problem* const> problems) {
  Plan all = plan;
  all.kernels.clear();
  for (const Problem* const problem : problems) {
    for (const Way& way : problem->missing) {
      KernelPlan& kernel = all.kernels.emplace_back(plan.kernels[problem->about.kernels[0]]);
      take(kernel, way);
      kernel.name = fmt::format("t{}_{}", all.kernels.size() - 1, kernel.family);
      kernel.stream = 0;
      kernel.waits.clear();
    }
  }
  return all;
}

/// What is known of a way while its problem is measured.
struct Trial {
  std::size_t k = 0;  // of the program
  std::string way = {};
  std::vector<double> seconds = {};
  std::exception_ptr error = {};
  bool out_of_memory = false;
  [[nodiscard]] bool failed() const { return error != nullptr; }
  [[nodiscard]] double least() const {
    double least = std::numeric_limits<double>::infinity();
    for (const double one : seconds) least = std::min(least, one);
    return least;
  }
  [[nodiscard]] double total() const {
    double sum = 0;
    for (const double one : seconds) sum += one;
    return sum;
  }
};

void try_to(Trial& trial, const auto& body) {
  try {
    body();
  } catch (const Exception& exception) {
    trial.error = std::current_exception();
    trial.out_of_memory = exception.error().code == ErrorCode::kOutOfMemory;
  }
}

/// Median of several runs of each. False: stopped.
bool measure_on_gpu(KernelTimer& timer, std::span<Trial> trials,
                    const std::function<bool()>& stop) {
  for (Trial& trial : trials) {
    if (stop()) return false;
    std::array<double, kGpuSamples> seconds{};
    try_to(trial, [&] {
      timer.time(trial.k, seconds);
      std::ranges::nth_element(seconds, seconds.begin() + kGpuSamples / 2);
      trial.seconds = {seconds[kGpuSamples / 2]};
    });
  }
  return true;
}

bool measure_on_cpu(KernelTimer& timer, std::span<Trial> trials,
                    const std::function<bool()>& stop) {
  double fastest = 0;
  for (std::size_t round = 0; round <= kMostRounds; ++round) {
    bool more = false;
    for (Trial& trial : trials) {
      const bool enough = round > kFewestRounds && (trial.total() > kSecondsEach ||
                                                    trial.least() > fastest * kClearlySlower);
      if (trial.failed() || enough) continue;
      if (stop()) return false;
      more = true;
      double seconds = 0;
      try_to(trial, [&] { timer.time(trial.k, {&seconds, 1}); });
      if (round > 0 && !trial.failed()) trial.seconds.push_back(seconds);
    }
    if (!more) return true;
    fastest = std::numeric_limits<double>::infinity();
    for (const Trial& trial : trials) fastest = std::min(fastest, trial.least());
  }
  return true;
}

/// Measures one problem's missing ways with kernels k, k + 1, ... of the program. Nothing: stopped.
std::optional<std::vector<TuningDatabase::Time>> measure(const Program& program, std::size_t k,
                                                         const Problem& problem, bool known,
                                                         const std::function<bool()>& stop) {
  std::vector<TuningDatabase::Time> times;
  std::vector<Trial> trials;
  for (const Way& way : problem.missing) {
    if (program.plan().kernels[k].family == way.family->name) {
      trials.push_back({.k = k, .way = name_of(way)});
    } else {
      times.push_back({name_of(way), kNeverUs, 1});
    }
    ++k;
  }
  if (trials.empty()) return times;
  const std::unique_ptr<KernelTimer> timer = program.timer(trials[0].k);
  const auto by_device =
      program.plan().device.kind == DeviceKind::kCuda ? &measure_on_gpu : &measure_on_cpu;
  if (!by_device(*timer, trials, stop)) return std::nullopt;
  if (std::ranges::all_of(trials, &Trial::failed)) {
    if (!known) std::rethrow_exception(trials.back().error);
    return times;  // perhaps the device was lost
  }
  for (const Trial& trial : trials) {
    if (!trial.failed()) {
      times.push_back({trial.way, std::max(trial.least() * 1e6, kLeastUs), 1});
    } else if (!trial.out_of_memory) {  // there may be more another time
      times.push_back({trial.way, kNeverUs, 1});
    }
  }
  return times;
}

}  // namespace

TunerResult tune_kernels(const Plan& plan, const Registry& registry, const Knowledge& knowledge,
                         TuningDatabase& database, const MakeProgram& make,
                         const TunerOptions& options) {
  const auto stop = [&] { return options.stop && options.stop(); };
  const auto progress = [&](const std::string& text) {
    if (options.progress) options.progress(text);
  };
  std::vector<Problem> problems = problems_of(plan, registry, knowledge, options);
  std::vector<Problem*> open;
  for (Problem& problem : problems) {
    if (!problem.missing.empty()) open.push_back(&problem);
  }
  bool finished = true;
  std::string best;  // of the problem before
  for (std::size_t next = 0; next < open.size() && finished;) {
    const std::span<Problem* const> batch = batch_from(plan, std::span(open).subspan(next));
    const Plan ways = plan_of_ways(plan, batch);
    progress(fmt::format("preparing {} candidates of {} kernel problems", ways.kernels.size(),
                         batch.size()));
    finished = !stop();
    if (!finished) break;
    const std::unique_ptr<const Program> program = make(ways);
    std::size_t k = 0;
    for (Problem* const problem : batch) {
      const std::string& text = problem->about.text;
      progress(fmt::format("measuring kernel problem {} of {}, {} candidates{}", ++next,
                           open.size(), problem->missing.size(), best));
      const auto times = measure(*program, k, *problem, database.knows(text), stop);
      finished = times.has_value();
      if (!finished) break;
      k += problem->missing.size();
      if (times->empty()) continue;
      database.add(text, *times);
      problem->about.measured = times->size();
      const auto& fastest = *std::ranges::min_element(*times, {}, &TuningDatabase::Time::us);
      best = fmt::format("; before: {}, {:.1f} us", fastest.way, fastest.us);
    }
  }
  TunerResult result{{}, finished};
  for (Problem& problem : problems) result.problems.push_back(std::move(problem.about));
  return result;
}

}  // namespace braze
