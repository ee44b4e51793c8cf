// The commands of braze, one per file. Each adds itself to the program and, when chosen, sets
// `action` to what it does; the action throws Failure.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace braze::cli {

using Action = std::function<void()>;

void add_explain(CLI::App& app, Action& action);
void add_compile(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_devices(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);

}  // namespace braze::cli
