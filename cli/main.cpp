// braze: the command line. Results go to stdout, errors and notes to stderr; exit codes are those
// of braze::exit_code.
#include <exception>
#include <new>

#include "braze/braze.hpp"
#include "cli/commands.hpp"
#include "cli/failure.hpp"
#include "cli/text.hpp"

namespace {

using namespace braze;

int report(ErrorCode code, std::string_view message) {
  cli::print_note(message);
  return exit_code(code);
}

int run(int argc, char** argv) {
  CLI::App app("Braze compiles convolutional networks so that convolutions run joined.", "braze");
  app.set_version_flag("--version", fmt::format("braze {}", version()));
  app.require_subcommand(1);
  app.footer("braze COMMAND --help lists the options of a command.");

  cli::Action action;
  cli::add_explain(app, action);
  cli::add_compile(app, action);
  cli::add_run(app, action);
  cli::add_bench(app, action);
  cli::add_verify(app, action);
  cli::add_devices(app, action);
  cli::add_tune(app, action);

  const auto is_named = [argv](const CLI::App* command) { return command->check_name(argv[1]); };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_named).empty()) {
    return report(ErrorCode::kUsage,
                  fmt::format("'{}' is no command (braze --help lists them)", argv[1]));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    return report(ErrorCode::kUsage,
                  fmt::format("{} (braze --help shows the usage)", error.what()));
  }
  action();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const cli::Failure& failure) {
    return report(failure.error().code, failure.error().message);
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::kOutOfMemory, "out of memory");
  } catch (const std::exception& error) {
    return report(ErrorCode::kInternal, error.what());
  }
}
