// The stand-ins for NVIDIA's libraries, and a folder for a test's files.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.hpp"
#include "exec/cuda/library.hpp"
#include "exec_cuda/fake/driver.hpp"

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

/// A new, empty folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = testing::TempDir() + "braze-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

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
