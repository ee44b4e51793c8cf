// Our own networks (generate.py), and those of a folder beside the repository where there is one:
// the numbers at every level of fusion and after a trip through an engine file; and that what
// should have been fused was, and what should not was not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/onnx_case.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using Json = nlohmann::json;

const std::vector<std::pair<std::string, Fusion>> kLevels = {
    {"off", Fusion::kOff}, {"epilogue", Fusion::kEpilogue}, {"full", Fusion::kFull}};

struct Case {
  std::filesystem::path folder;
  Json record = Json::object();  // case.json

  [[nodiscard]] std::string name() const { return folder.filename().string(); }
  [[nodiscard]] std::filesystem::path model() const { return folder / "model.onnx"; }
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.folder.string(); }

std::vector<Case> read_cases(const std::filesystem::path& root) {
  std::vector<Case> cases;
  for (const std::filesystem::path& folder : find_cases(root)) {
    Case& one = cases.emplace_back(folder);
    std::ifstream record(folder / "case.json");
    if (record) one.record = Json::parse(record);
  }
  return cases;
}

std::vector<Case> own_cases() {
  return read_cases(std::filesystem::path(BRAZE_TESTS_DIR) / "cases");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = own_cases();
  for (Case& one : read_cases(std::filesystem::path(BRAZE_SOURCE_DIR) / ".." / "shared" / "cases"))
    cases.push_back(std::move(one));
  return cases;
}

Options one_thread(Fusion fusion) {
  Options options;
  options.threads = 1;
  options.fusion = fusion;
  return options;
}

class Network : public ::testing::TestWithParam<Case> {};
class ExpectedPlan : public ::testing::TestWithParam<Case> {};
class Refused : public ::testing::TestWithParam<Case> {};

TEST_P(Network, NumbersAreRight) {
  const double relative = GetParam().record.value("tolerance", 1e-5);
  for (const auto& [name, fusion] : kLevels) {
    const Outcome outcome = run_case(GetParam().folder, one_thread(fusion),
                                     {.relative = relative, .absolute = 1e-6, .of_range = true});
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << "fusion " << name << ": " << outcome.reason;
  }
}

TEST_P(Refused, SaysWhy) {
  const Result<Model> model = compile(GetParam().model(), one_thread(Fusion::kFull));
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(model.error().message, ::testing::HasSubstr(GetParam().record["refused"]));
}

TEST_P(Network, EngineFileGivesTheSameBits) {
  const Result<Model> model = compile(GetParam().model(), one_thread(Fusion::kFull));
  if (!model.ok()) GTEST_SKIP() << model.error().message;
  const TemporaryFolder folder;
  const std::string file = folder / "net.engine";
  const Status saved = model->save(file);
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  const Result<Model> loaded = load(file, one_thread(Fusion::kFull));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const std::vector<Tensor> inputs = random_inputs(*model);
  const auto expected = model->run(inputs);
  const auto got = loaded->run(inputs);
  ASSERT_TRUE(expected.ok() && got.ok());
  for (std::size_t i = 0; i < got->size(); ++i) {
    const Tensor& a = expected.value()[i];
    const Tensor& b = got.value()[i];
    ASSERT_EQ(a.shape(), b.shape());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0) << "output " << i;
  }
}

/// Each kernel's nodes, sorted; relayouts have none and are not listed.
std::vector<std::vector<std::string>> nodes_of(const PlanSummary& plan) {
  std::vector<std::vector<std::string>> kernels;
  for (const KernelSummary& kernel : plan.kernels) {
    if (kernel.nodes.empty()) continue;
    kernels.push_back(kernel.nodes);
    std::sort(kernels.back().begin(), kernels.back().end());
  }
  return kernels;
}

void expect_plan(const PlanSummary& plan, const Json& expected) {
  std::vector<std::vector<std::string>> kernels = expected["kernels"];
  for (auto& nodes : kernels) std::sort(nodes.begin(), nodes.end());
  EXPECT_THAT(nodes_of(plan), ::testing::UnorderedElementsAreArray(kernels));

  std::map<std::string, std::string> folded;
  for (const FoldedNode& node : plan.folded) folded[node.node] = node.into;
  const std::map<std::string, std::string> expected_folded =
      expected.value("folded", std::map<std::string, std::string>());
  EXPECT_EQ(folded, expected_folded);

  std::set<std::string> rules;
  for (const NotFused& join : plan.not_fused) {
    rules.insert(join.rule);
    EXPECT_GE(join.nodes.size(), 2U);
    EXPECT_FALSE(join.reason.empty());
  }
  EXPECT_THAT(rules, ::testing::UnorderedElementsAreArray(
                         expected.value("not_fused", std::vector<std::string>())));
}

TEST_P(ExpectedPlan, IsMade) {
  for (const auto& [name, fusion] : kLevels) {
    if (!GetParam().record["plans"].contains(name)) continue;
    SCOPED_TRACE("fusion " + name);
    const Result<Model> model = compile(GetParam().model(), one_thread(fusion));
    ASSERT_TRUE(model.ok()) << model.error().message;
    expect_plan(model->plan(), GetParam().record["plans"][name]);
  }
}

/// Plans for GPUs, under names like "full cuda:sm_90": made, not compiled.
TEST_P(ExpectedPlan, IsMadeForGpus) {
  for (const auto& [key, expected] : GetParam().record["plans"].items()) {
    const std::size_t space = key.find(' ');
    if (space == std::string::npos) continue;
    SCOPED_TRACE(key);
    Options options = one_thread(Fusion::kFull);
    ASSERT_EQ(key.substr(0, space), "full");
    options.device = key.substr(space + 1);
    options.plan_only = true;
    const Result<Model> model = compile(GetParam().model(), options);
    ASSERT_TRUE(model.ok()) << model.error().message;
    expect_plan(model->plan(), expected);
  }
}

/// Every node of the model is in exactly one kernel or folded, at every level of fusion; with
/// fusion off no kernel has an epilogue; refusals and folds name nodes of the model; memory is near
/// what is alive at once.
TEST_P(Network, HasEveryNodeInOnePlace) {
  for (const auto& [name, fusion] : kLevels) {
    SCOPED_TRACE("fusion " + name);
    const Result<Model> model = compile(GetParam().model(), one_thread(fusion));
    if (!model.ok()) GTEST_SKIP() << model.error().message;
    std::multiset<std::string> nodes;
    for (const KernelSummary& kernel : model->plan().kernels) {
      nodes.insert(kernel.nodes.begin(), kernel.nodes.end());
      EXPECT_FALSE(fusion == Fusion::kOff && kernel.kind == "epilogue") << kernel.name;
    }
    for (const FoldedNode& node : model->plan().folded) nodes.insert(node.node);
    const std::set<std::string> distinct(nodes.begin(), nodes.end());
    EXPECT_EQ(nodes.size(), distinct.size()) << ::testing::PrintToString(nodes);
    EXPECT_EQ(nodes.size(), node_count_of(GetParam().model())) << ::testing::PrintToString(nodes);
    std::set<std::string> targets = distinct;
    targets.insert({"constant", "unused", "view"});
    for (const FoldedNode& node : model->plan().folded)
      EXPECT_TRUE(targets.contains(node.into)) << node.node << " into " << node.into;
    for (const NotFused& join : model->plan().not_fused)
      EXPECT_THAT(join.nodes, ::testing::Each(::testing::AnyOfArray(distinct))) << join.reason;
    EXPECT_LE(static_cast<double>(model->plan().peak_bytes),
              1.1 * static_cast<double>(model->plan().largest_live_bytes));
  }
}

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
  const bool own = info.param.folder.string().starts_with(BRAZE_TESTS_DIR);
  return (own ? "own_" : "shared_") + info.param.name();
}

std::vector<Case> cases_with(const char* key, bool wanted) {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& one) { return one.record.contains(key) != wanted; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, Network, ::testing::ValuesIn(cases_with("refused", false)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Cases, ExpectedPlan, ::testing::ValuesIn(cases_with("plans", true)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Cases, Refused, ::testing::ValuesIn(cases_with("refused", true)),
                         test_name);

TEST(Cases, AreThere) { EXPECT_GT(own_cases().size(), 150U); }

}  // namespace
}  // namespace braze::test
