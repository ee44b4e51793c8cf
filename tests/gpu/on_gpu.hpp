// What tests on a real GPU share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "braze/braze.hpp"
#include "machine.hpp"
#include "passes/net.hpp"

namespace braze::test {

/// Why no GPU can be used; "" if one can.
inline std::string missing_gpu() {
  for (const DeviceReport& report : devices()) {
    if (report.name == "cuda") return report.usable ? "" : report.detail;
  }
  return "this build knows no GPUs";
}

/// Ends the test as skipped, visibly, where there is no GPU.
#define BRAZE_NEEDS_GPU() \
  if (const std::string why = ::braze::test::missing_gpu(); !why.empty()) GTEST_SKIP() << why

/// The folder of test cases: beside an installed program, or in the sources.
inline std::filesystem::path cases_folder() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto installed = program.parent_path().parent_path() / "share/braze/tests/cases";
  return std::filesystem::is_directory(installed, ignored)
             ? installed
             : std::filesystem::path(BRAZE_TESTS_DIR) / "cases";
}

inline Model compile_on(const std::string& device, const Net& net, Precision precision,
                        int streams = 0) {
  Options options;
  options.device = device;
  options.precision = precision;
  options.streams = streams;
  return compile_for(select_machine(options), net.graph, options);
}

inline std::vector<Tensor> run(const Model& model, std::span<const Tensor> inputs) {
  Result<std::vector<Tensor>> outputs = model.run(inputs);
  if (!outputs.ok()) throw std::runtime_error(outputs.error().message);
  return std::move(outputs).value();
}

}  // namespace braze::test
