// braze compile: plan and weights into an engine file.
#include <filesystem>
#include <memory>
#include <system_error>

#include "cli/commands.hpp"
#include "cli/failure.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

struct CompileCommand {
  ModelOptions model;
  std::filesystem::path output;

  void run() const {
    if (is_engine_file(model.file))
      fail(ErrorCode::kUsage, "{} is an engine file already", model.file.string());
    std::error_code ignored;
    if (std::filesystem::equivalent(model.file, output, ignored))
      fail(ErrorCode::kUsage, "{} is the model itself; the engine needs a file of its own",
           output.string());
    Model compiled = [&] {
      const Progress progress("compiling " + model.file.string());
      return model.open();
    }();
    unwrap(compiled.save(output));
    const PlanSummary& plan = compiled.plan();
    if (model.json) {
      print_out(json_text({{"engine", output.string()},
                           {"device", plan.device},
                           {"launches", plan.launches},
                           {"peak_bytes", plan.peak_bytes}}));
    } else {
      print_out(fmt::format("{}: {} for {}\n", printable(output.string()),
                            count_text(plan.kernels.size(), "kernel"), plan.device));
    }
  }
};

}  // namespace

void add_compile(CLI::App& app, Action& action) {
  auto self = std::make_shared<CompileCommand>();
  CLI::App* command = app.add_subcommand("compile", "Write an engine file: plan and weights");
  self->model.add_to(*command);
  command->add_option("-o,--output", self->output, "Engine file to write")
      ->required()
      ->type_name("FILE");
  command->callback([self, &action] { action = [self] { self->run(); }; });
}

}  // namespace braze::cli
