// Every operator test of ONNX (libonnx-testdata): passed, or refused with a reason; never wrong,
// never a crash. BRAZE_UPDATE_DOCS=1 rewrites docs/operators.md from what the node suite gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "support/onnx_case.hpp"

namespace braze::test {
namespace {

struct Count {
  int passed = 0;
  int refused = 0;
  std::string reason;       // of the first refusal, if possible of one that is about the operator
  bool own_reason = false;  // it is
};

/// A reason without the file's and the node's name: what follows "node 'y' (Acos): ".
std::string shortened(std::string reason) {
  if (const std::size_t file = reason.find(".onnx': "); file != std::string::npos)
    reason.erase(0, file + 8);
  if (const std::size_t node = reason.find("): ");
      reason.starts_with("node '") && node != std::string::npos)
    reason.erase(0, node + 3);
  for (const char separator : {'\n', '|'})
    std::replace(reason.begin(), reason.end(), separator, ' ');
  return reason.size() > 140 ? reason.substr(0, 137) + "..." : reason;
}

/// Is the refusal about this operator, or about another one of the same model?
bool is_about(const std::string& reason, const std::string& operator_name) {
  return reason.find("(" + operator_name + ")") != std::string::npos;
}

void write_table(const std::map<std::string, Count>& operators, int passed, int refused) {
  std::ofstream page(std::filesystem::path(BRAZE_SOURCE_DIR) / "docs" / "operators.md");
  page << "# Operators\n\nHow the node tests of ONNX 1.12 end, by the operators of their models. "
          "Made by `conformance_tests`.\n\n"
       << fmt::format("{} tests pass, {} are refused with a reason, none is wrong.\n\n", passed,
                      refused)
       << "| operator | passed | refused | a reason |\n|---|---|---|---|\n";
  for (const auto& [name, count] : operators)
    page << fmt::format("| {} | {} | {} | {} |\n", name, count.passed, count.refused, count.reason);
}

struct Suite {
  const char* name;
  int floor;  // cases that pass; fewer is a regression
};

class Conformance : public ::testing::TestWithParam<Suite> {};

TEST_P(Conformance, PassedOrRefusedNeverWrong) {
  const std::filesystem::path root =
      std::filesystem::path("/usr/share/libonnx-testdata/data") / GetParam().name;
  const std::vector<std::filesystem::path> cases = find_cases(root);
  if (cases.empty())
    GTEST_SKIP() << "there are no cases in " << root << " (Debian's libonnx-testdata)";
  std::map<std::string, Count> operators;
  int passed = 0;
  int refused = 0;
  Options options;
  options.threads = 1;
  for (const std::filesystem::path& folder : cases) {
    const Outcome outcome = run_case(folder, options, {});
    EXPECT_NE(outcome.verdict, Verdict::kWrong)
        << folder.filename().string() << ": " << outcome.reason;
    (outcome.verdict == Verdict::kPassed ? passed : refused) +=
        outcome.verdict == Verdict::kWrong ? 0 : 1;
    for (const std::string& name : operators_of(folder / "model.onnx")) {
      Count& count = operators[name];
      if (outcome.verdict == Verdict::kPassed) ++count.passed;
      if (outcome.verdict != Verdict::kRefused) continue;
      ++count.refused;
      const bool better = !count.own_reason && is_about(outcome.reason, name);
      if (!count.reason.empty() && !better) continue;
      count.reason = shortened(outcome.reason);
      count.own_reason = is_about(outcome.reason, name);
    }
  }
  fmt::print("{}: {} passed, {} refused of {}\n", GetParam().name, passed, refused, cases.size());
  EXPECT_GE(passed, GetParam().floor);
  if (std::getenv("BRAZE_UPDATE_DOCS") != nullptr && std::string_view(GetParam().name) == "node")
    write_table(operators, passed, refused);
}

INSTANTIATE_TEST_SUITE_P(Onnx, Conformance,
                         ::testing::Values(Suite{"node", 545}, Suite{"pytorch-converted", 2},
                                           Suite{"pytorch-operator", 0}, Suite{"simple", 6}),
                         [](const auto& suite) {
                           std::string name = suite.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace braze::test
