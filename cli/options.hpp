// The options that commands share.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "braze/braze.hpp"

namespace braze::cli {

/// An option whose values are the keys of `choices`, listed in the help and in the error.
template <class T>
CLI::Option* add_choice(CLI::App& command, const std::string& name, T& variable,
                        const std::map<std::string, T>& choices, const std::string& help) {
  std::string listed;
  for (const auto& [key, value] : choices) listed += (listed.empty() ? "" : "|") + key;
  const auto assign = [&variable, &choices, listed](const std::string& text) {
    const auto found = choices.find(text);
    if (found == choices.end())
      throw CLI::ValidationError(fmt::format("'{}' is none of {}", text, listed));
    variable = found->second;
  };
  return command.add_option_function<std::string>(name, assign, help)->type_name(listed);
}

/// What a command works on, and how.
struct ModelOptions {
  std::filesystem::path file;
  Options options;
  bool json = false;
  std::vector<std::string> dims;                 // NAME=VALUE, as given
  std::vector<const CLI::Option*> compile_only;  // options that an engine file has fixed already

  /// Adds MODEL and the common options to a command.
  void add_to(CLI::App& command);

  /// The file compiled with these options, or loaded if it is an engine, with graph inputs bound to
  /// `constants`. Throws kUsage where an option is given that an engine does not take.
  [[nodiscard]] Result<Model> try_open(const std::map<std::string, Tensor>& constants) const;
  /// The same without constants; throws the error.
  [[nodiscard]] Model open() const;
  /// `options` with `dims` parsed. kUsage.
  [[nodiscard]] Options parsed() const;
};

/// "NAME=REST" cut at the given '='.
struct Binding {
  std::string name;
  std::string value;
};
/// Cuts at the last '=' (names of dimensions may hold one). kUsage naming `option` where there is
/// none or a side is empty.
Binding split_binding(const std::string& text, const char* option);

/// Lets an option be given several times, one value each.
CLI::Option* repeatable(CLI::Option* option);

}  // namespace braze::cli
