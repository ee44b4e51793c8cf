// Runs build/bin/braze as a user would.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace braze::test {

struct Finished {
  int code = -1;  // exit status; 128 + signal where a signal ended it
  std::string out = {};
  std::string err = {};

  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(out); }
};

struct Limits {
  std::filesystem::path out = {};             // where stdout goes instead of Finished::out
  long most_file_bytes = -1;                  // writing more fails as on a full disk
  std::filesystem::path interrupt_when = {};  // Ctrl-C as soon as there is this file
};

Finished braze_program(const std::vector<std::string>& arguments, const Limits& limits = {});

/// Model of one of the cases in tests/cases.
std::string case_model(const std::string& name);
/// Its tensor file, "input_0" say.
std::string case_tensor(const std::string& name, const std::string& tensor);
/// A file of tests/cli/data.
std::string data_file(const std::string& name);

std::string read_bytes(const std::filesystem::path& file);
void write_bytes(const std::filesystem::path& file, const std::string& bytes);

}  // namespace braze::test
