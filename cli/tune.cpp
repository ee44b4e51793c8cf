// braze tune: fills the tuning database by measuring. This build has no device whose plans are
// measured.
#include <memory>

#include "cli/commands.hpp"
#include "cli/failure.hpp"
#include "cli/options.hpp"

namespace braze::cli {

void add_tune(CLI::App& app, Action& action) {
  auto model = std::make_shared<ModelOptions>();
  CLI::App* command = app.add_subcommand("tune", "Fill the tuning database");
  model->add_to(*command);
  command->callback([model, &action] {
    action = [model] {
      fail(ErrorCode::kUnsupported,
           "{}: nothing was tuned: this version plans for '{}' by its cost model alone and has no "
           "candidates to measure",
           model->file.string(), model->options.device);
    };
  });
}

}  // namespace braze::cli
