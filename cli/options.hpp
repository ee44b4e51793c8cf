// The options that commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "braze/braze.hpp"

namespace braze::cli {

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
