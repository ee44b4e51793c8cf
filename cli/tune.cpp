// braze tune: measures kernels, fills the tuning database, and says what that brings.
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>

#include "cli/commands.hpp"
#include "cli/failure.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

/// Gains below this are within what two measurements of one plan differ by.
constexpr double kNoGain = 0.99;

std::atomic<bool> interrupted = false;  // lock-free, so that a signal handler may set it

/// While it lives, the first Ctrl-C sets `interrupted`; the second ends the process.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction action{};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // files are being written
    ::sigaction(SIGINT, &action, &before_);
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible() { ::sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_{};
};

struct TuneCommand {
  ModelOptions model;
  TuneOptions tuning;

  void run() {
    if (is_engine_file(model.file))
      fail(ErrorCode::kUsage, "{} is an engine file; tune the model and compile it again",
           model.file.string());
    const TuneReport report = measure();
    for (const std::string& warning : report.warnings) print_note(warning);
    print_out(model.json ? json_text(json_of(report)) : text_of(report));
    if (report.finished) return;
    print_note("interrupted; what was measured is kept");
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);  // whoever called sees that it was
  }

 private:
  [[nodiscard]] TuneReport measure() {
    const Interruptible scope;
    const Progress progress("tuning " + model.file.string());
    Options options = model.parsed();
    options.progress = [&progress](const std::string& text) { progress.show(text); };
    tuning.stop = [] { return interrupted.load(); };
    return unwrap(tune(model.file, options, tuning));
  }

  static std::size_t measured(const TuneReport& report) {
    std::size_t count = 0;
    for (const TunedProblem& problem : report.problems) count += problem.measured;
    return count;
  }

  static nlohmann::ordered_json json_of(const TuneReport& report) {
    auto problems = nlohmann::ordered_json::array();
    for (const TunedProblem& problem : report.problems) {
      problems.push_back({{"kernels", problem.kernels},
                          {"estimated", problem.estimated},
                          {"estimated_us", problem.estimated_us},
                          {"tuned", problem.tuned},
                          {"tuned_us", problem.tuned_us},
                          {"measured", problem.measured}});
    }
    return {{"device", report.device},
            {"database", report.database.string()},
            {"problems", problems},
            {"measured", measured(report)},
            {"finished", report.finished},
            {"same_plan", report.same_plan},
            {"estimated_plan_us", report.estimated_us},
            {"tuned_plan_us", report.tuned_us}};
  }

  [[nodiscard]] std::string text_of(const TuneReport& report) const {
    std::string text = fmt::format(
        "{} on {}: {} with a choice, {} measured now\n{}\n\n", printable(model.file.string()),
        printable(report.device), count_text(report.problems.size(), "kernel problem"),
        count_text(measured(report), "candidate"),
        report.database.empty() ? "no cache folder: nothing is kept"
                                : "in " + printable(report.database.string()));
    text += fmt::format("{:>9}  {:>9}  {:>6}  kernels\n", "by est.", "tuned", "ratio");
    for (const TunedProblem& problem : report.problems) {
      const bool known = problem.estimated_us > 0 && problem.tuned_us > 0;
      text += fmt::format("{:>9.2f}  {:>9.2f}  {:>6.3f}  {}\n", problem.estimated_us,
                          problem.tuned_us, known ? problem.tuned_us / problem.estimated_us : 1.0,
                          joined(problem.kernels));
      if (problem.tuned != problem.estimated)
        text += fmt::format("    {} for {}\n", problem.tuned, problem.estimated);
    }
    return text + "\n" + result_text(report);
  }

  static std::string result_text(const TuneReport& report) {
    if (!report.finished) return "not all was measured: the network was not timed\n";
    if (report.same_plan) return "the plan is the one by estimates: no gain\n";
    const double ratio = report.tuned_us / report.estimated_us;
    return fmt::format("network: {:.1f} us by estimates, {:.1f} us tuned: {:.3f} of the time{}\n",
                       report.estimated_us, report.tuned_us, ratio,
                       ratio > kNoGain ? ", no gain" : "");
  }
};

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  auto self = std::make_shared<TuneCommand>();
  CLI::App* command = app.add_subcommand("tune", "Measure kernels and fill the tuning database");
  self->model.add_to(*command);
  CLI::Option* const candidates =
      command
          ->add_option("--candidates", self->tuning.candidates,
                       "Candidates to measure of each kernel problem, the best by estimate")
          ->check(CLI::Range(1, 10'000))
          ->type_name("N");
  command->add_flag("--exhaustive", self->tuning.exhaustive, "Measure all candidates")
      ->excludes(candidates);
  command->callback([self, &action] { action = [self] { self->run(); }; });
}

}  // namespace braze::cli
