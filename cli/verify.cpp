// braze verify: every output against the reference; --bisect names the first kernel that is off.
#include <algorithm>
#include <map>
#include <memory>

#include "cli/commands.hpp"
#include "cli/failure.hpp"
#include "cli/inputs.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

using Json = nlohmann::ordered_json;

const std::map<std::string, Reference> kReferences = {
    {"auto", Reference::kAuto}, {"interpreter", Reference::kInterpreter}, {"cpu", Reference::kCpu}};

const Deviation* first_bad(const std::vector<Deviation>& deviations) {
  const auto bad = std::find_if(deviations.begin(), deviations.end(),
                                [](const Deviation& deviation) { return !deviation.ok; });
  return bad == deviations.end() ? nullptr : &*bad;
}

Json json_of(const std::vector<Deviation>& deviations) {
  Json list = Json::array();
  for (const Deviation& deviation : deviations) {
    list.push_back({{"name", deviation.what},
                    {"max_error", deviation.max_error},
                    {"allowed", deviation.allowed},
                    {"ok", deviation.ok}});
  }
  return list;
}

std::string text_of(const std::vector<Deviation>& deviations) {
  std::string text;
  for (const Deviation& deviation : deviations) {
    text += fmt::format("{:<4} max error {:.3g}, allowed {:.3g}  {}\n", deviation.ok ? "ok" : "OFF",
                        deviation.max_error, deviation.allowed, printable(deviation.what));
  }
  return text;
}

struct VerifyCommand {
  ModelOptions model;
  InputOptions inputs;
  bool bisect = false;
  Reference reference = Reference::kAuto;

  void run() const {
    if (is_engine_file(model.file))
      fail(ErrorCode::kUsage, "{} is an engine file: verify takes the model it was compiled from",
           model.file.string());
    const OpenedModel opened = open_with_inputs(model, inputs, Missing::kRandom);
    const VerifyReport report = [&] {
      const Progress progress("comparing with the reference");
      return unwrap(opened.model.verify(opened.inputs, bisect, reference));
    }();
    print_out(model.json ? json_text(json_report(report)) : text_report(report));
    if (!report.ok()) fail(ErrorCode::kCheckFailed, "{}", failure(report));
  }

 private:
  [[nodiscard]] Json json_report(const VerifyReport& report) const {
    const bool by_cpu = report.reference == Reference::kCpu;
    Json json = {{"ok", report.ok()},
                 {"reference", by_cpu ? "cpu" : "interpreter"},
                 {"outputs", json_of(report.outputs)}};
    if (bisect) {
      const Deviation* bad = first_bad(report.kernels);
      json["kernels"] = json_of(report.kernels);
      json["first_off"] = bad == nullptr ? Json() : Json(bad->what);
    }
    return json;
  }

  [[nodiscard]] std::string text_report(const VerifyReport& report) const {
    std::string text = fmt::format("reference: {}\n", report.reference == Reference::kCpu
                                                          ? "the fp32 kernels of the CPU"
                                                          : "the interpreter") +
                       text_of(report.outputs);
    if (!bisect) return text;
    text += "\neach kernel on the reference's inputs\n" + text_of(report.kernels);
    const Deviation* bad = first_bad(report.kernels);
    return text + (bad == nullptr
                       ? "no kernel is off\n"
                       : fmt::format("first kernel that is off: {}\n", printable(bad->what)));
  }

  [[nodiscard]] std::string failure(const VerifyReport& report) const {
    const Deviation* output = first_bad(report.outputs);
    const Deviation* kernel = first_bad(report.kernels);
    const Deviation& bad = output != nullptr ? *output : *kernel;
    return fmt::format("{}: {} '{}' is off by {:.3g}, allowed {:.3g}", model.file.string(),
                       output != nullptr ? "output" : "kernel", bad.what, bad.max_error,
                       bad.allowed) +
           (bisect ? "" : " (--bisect finds the kernel)");
  }
};

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  auto self = std::make_shared<VerifyCommand>();
  CLI::App* command = app.add_subcommand("verify", "Compare every output with the reference");
  self->model.add_to(*command);
  self->inputs.add_to(*command);
  add_choice(
      *command, "--reference", self->reference, kReferences,
      "What to compare with; by default the interpreter, on a GPU for large networks the CPU");
  command->add_flag("--bisect", self->bisect, "Name the first kernel that is off");
  command->callback([self, &action] { action = [self] { self->run(); }; });
}

}  // namespace braze::cli
