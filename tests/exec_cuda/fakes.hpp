// The stand-ins for NVIDIA's libraries.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.hpp"
#include "exec/cuda/library.hpp"
#include "exec_cuda/fake/driver.hpp"
#include "support/temporary_folder.hpp"

namespace braze::cuda {

inline std::filesystem::path fakes(const char* folder) {
  return std::filesystem::path(BRAZE_FAKES) / folder;
}

/// A search that finds only what is in a folder.
inline SearchPath only(const std::filesystem::path& folder) {
  SearchPath search;
  search.option = folder;
  search.linker = false;
  search.toolkit.clear();
  search.drivers.clear();
  return search;
}

/// The state of the fake driver, as new.
inline fake::State& fake_driver() {
  const Search found = open_library(Library::kDriver, only(fakes("driver")));
  auto* get = reinterpret_cast<fake::State* (*)()>(found.library->symbol("fake_state"));
  *get() = fake::State{};
  return *get();
}

using test::TemporaryFolder;

inline std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// The error that `run` throws; code kInternal and no text if it throws none.
template <class Run>
Error error_of(Run run) {
  try {
    run();
  } catch (const Exception& error) {
    return error.error();
  }
  return {ErrorCode::kInternal, ""};
}

}  // namespace braze::cuda
