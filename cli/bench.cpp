// braze bench: latency, throughput and the time of each kernel.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "cli/commands.hpp"
#include "cli/failure.hpp"
#include "cli/inputs.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

constexpr int kFewestIterations = 50;
constexpr int kMostIterations = 2000;   // unless asked for more
constexpr double kTargetSeconds = 1.0;  // go on until then, within those bounds
constexpr int kProfiledRuns = 20;

/// Microseconds of each iteration, ascending.
using Times = std::vector<double>;

/// The value that a fraction of the times does not exceed (nearest rank).
double percentile(const Times& sorted, double fraction) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

double median(Times times) {
  std::sort(times.begin(), times.end());
  const std::size_t half = times.size() / 2;
  return times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
}

Times measure(const OpenedModel& opened, int iterations, int runs) {
  const Progress progress("measuring");
  Times times;
  const auto add = [&](int count) {
    for (const double seconds : unwrap(opened.model.time(opened.inputs, count, runs)))
      times.push_back(seconds * 1e6);
  };
  if (iterations > 0) {
    add(iterations);
  } else {
    add(kFewestIterations);
    const double wanted = kTargetSeconds * 1e6 / std::max(median(times) * runs, 1e-3);
    add(static_cast<int>(
        std::clamp(wanted - kFewestIterations, 0.0, double{kMostIterations - kFewestIterations})));
  }
  std::sort(times.begin(), times.end());
  return times;
}

/// Median microseconds of each kernel.
std::vector<double> measure_kernels(const OpenedModel& opened) {
  std::vector<Times> runs(opened.model.plan().kernels.size());
  for (int i = 0; i < kProfiledRuns; ++i) {
    const std::vector<double> seconds = unwrap(opened.model.profile(opened.inputs));
    for (std::size_t k = 0; k < runs.size(); ++k) runs[k].push_back(seconds[k] * 1e6);
  }
  std::vector<double> medians;
  for (Times& times : runs) medians.push_back(median(std::move(times)));
  return medians;
}

struct BenchCommand {
  ModelOptions model;
  InputOptions inputs;
  bool per_kernel = false;
  int iterations = 0;
  int runs = 1;

  void run() const {
    const OpenedModel opened = open_with_inputs(model, inputs, Missing::kRandom);
    const Times times = measure(opened, iterations, runs);
    const std::vector<double> kernels =
        per_kernel ? measure_kernels(opened) : std::vector<double>();
    print_out(model.json ? json_text(json_of(opened.model.plan(), times, kernels))
                         : text_of(opened.model.plan(), times, kernels));
  }

 private:
  [[nodiscard]] nlohmann::ordered_json json_of(const PlanSummary& plan, const Times& times,
                                               const std::vector<double>& kernels) const {
    nlohmann::ordered_json json = {{"min_us", times.front()},
                                   {"median_us", median(times)},
                                   {"p99_us", percentile(times, 0.99)},
                                   {"iters", times.size()},
                                   {"runs_per_graph", runs},
                                   {"launches", plan.launches},
                                   {"runs_per_second", 1e6 / mean(times)},
                                   {"device", plan.device},
                                   {"peak_bytes", plan.peak_bytes}};
    if (per_kernel) {
      auto list = nlohmann::ordered_json::array();
      for (std::size_t k = 0; k < kernels.size(); ++k) {
        const KernelSummary& kernel = plan.kernels[k];
        list.push_back({{"name", kernel.name},
                        {"us", kernels[k]},
                        {"est_us", kernel.est_us},
                        {"nodes", kernel.nodes}});
      }
      json["kernels"] = std::move(list);
    }
    return json;
  }

  [[nodiscard]] std::string text_of(const PlanSummary& plan, const Times& times,
                                    const std::vector<double>& kernels) const {
    std::string text = fmt::format(
        "{} on {}: min {:.1f} us, median {:.1f} us, p99 {:.1f} us ({}, {})\n"
        "{:.1f} runs per second\n",
        printable(model.file.string()), printable(plan.device), times.front(), median(times),
        percentile(times, 0.99), count_text(times.size(), "iteration"),
        count_text(static_cast<std::size_t>(plan.launches), "launch"), 1e6 / mean(times));
    const double total = std::accumulate(kernels.begin(), kernels.end(), 0.0);
    if (per_kernel)
      text += fmt::format("\n{:>10}  {:>6}  {:>8}  kernel\n", "us", "share", "GFLOP/s");
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const KernelSummary& kernel = plan.kernels[k];
      text += fmt::format("{:>10.2f}  {:>5.1f}%  {:>8.1f}  {} ({}): {}\n", kernels[k],
                          total > 0 ? 100 * kernels[k] / total : 0.0,
                          kernels[k] > 0 ? kernel.flops / kernels[k] / 1e3 : 0.0, kernel.name,
                          kernel.kind, joined(kernel.nodes));
    }
    return text;
  }

  static double mean(const Times& times) {
    return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  }
};

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto self = std::make_shared<BenchCommand>();
  CLI::App* command = app.add_subcommand("bench", "Measure latency and throughput");
  self->model.add_to(*command);
  self->inputs.add_to(*command);
  command->add_flag("--per-kernel", self->per_kernel, "Time each kernel as well");
  command
      ->add_option("--iters", self->iterations,
                   "Iterations, at least 50; by default as many as fit in a second")
      ->check(CLI::Range(kFewestIterations, 100'000'000))
      ->type_name("N");
  command
      ->add_option("--runs-per-graph", self->runs,
                   "Runs that each time is the mean of; on a GPU one CUDA graph")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  command->callback([self, &action] { action = [self] { self->run(); }; });
}

}  // namespace braze::cli
