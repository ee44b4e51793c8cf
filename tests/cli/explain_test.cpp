// explain, bench and verify: the JSON that scripts depend on, and that fusion changes launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "program.hpp"

namespace braze::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::set<std::string> keys(const Json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

TEST(Explain, JsonHasTheSchema) {
  const Finished run =
      braze_program({"explain", case_model("conv_is_an_output"), "--json", "--fusion", "epilogue"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json plan = run.json();
  EXPECT_EQ(keys(plan),
            (std::set<std::string>{"kernels", "folded", "not_fused", "launches", "peak_bytes"}));
  const std::set<std::string> kinds = {"single", "epilogue", "group", "relayout", "reference"};
  for (const Json& kernel : plan["kernels"]) {
    EXPECT_EQ(keys(kernel),
              (std::set<std::string>{"name", "backend", "nodes", "kind", "flops", "dram_bytes",
                                     "onchip_bytes", "est_us", "measured", "stream", "waits"}));
    EXPECT_TRUE(kinds.contains(kernel["kind"])) << kernel["kind"];
    EXPECT_TRUE(kernel["nodes"].is_array());
    EXPECT_GT(kernel["est_us"].get<double>(), 0);
  }
  EXPECT_EQ(plan["launches"], plan["kernels"].size());
  EXPECT_TRUE(plan["peak_bytes"].is_number_integer());
  ASSERT_EQ(plan["not_fused"].size(), 1U);
  EXPECT_EQ(plan["not_fused"][0], Json({{"nodes", {"c", "y"}},
                                        {"rule", "graph-output"},
                                        {"reason", "'c' is also a graph output"}}));
}

TEST(Explain, FoldedNodesSayIntoWhat) {
  const Json plan = braze_program({"explain", case_model("bias_1C11"), "--json"}).json();
  EXPECT_EQ(plan["folded"], Json::array({{{"node", "s"}, {"into", "c"}}}));
}

TEST(Explain, FusionChangesLaunches) {
  const std::map<std::string, int> expected = {{"off", 3}, {"epilogue", 1}, {"full", 1}};
  for (const auto& [fusion, launches] : expected) {
    const std::string model = case_model("residual_before_relu");
    const Json plan = braze_program({"explain", model, "--json", "--fusion", fusion}).json();
    EXPECT_EQ(plan["launches"], launches) << fusion;
    EXPECT_EQ(plan["kernels"][0]["kind"], launches == 1 ? "epilogue" : "single") << fusion;
    EXPECT_EQ(plan["kernels"][0]["onchip_bytes"].get<double>() > 0, launches == 1) << fusion;
  }
}

TEST(Explain, TextNamesNodesRulesAndReasons) {
  const Finished run =
      braze_program({"explain", case_model("conv_read_twice"), "--fusion", "epilogue"});
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* part : {"nodes: r, y", "not fused: 1 join", "several-readers (1)",
                           "'c' is read by 'r', 'y'", "folded: 0 nodes"})
    EXPECT_THAT(run.out, HasSubstr(part));
}

TEST(Explain, AGroupKeepsWhatIsBetweenItsMembersOnChip) {
  const std::string model = case_model("separable_block");
  const Json whole = braze_program({"explain", model, "--json", "--threads", "1"}).json();
  ASSERT_EQ(whole["kernels"].size(), 1U);
  const Json& group = whole["kernels"][0];
  EXPECT_EQ(group["kind"], "group");
  EXPECT_EQ(group["nodes"].size(), 6U);
  const double hidden = 24 * 9 * 9 * 4;
  EXPECT_GE(group["onchip_bytes"].get<double>(), 2 * hidden);
  const Json parts =
      braze_program({"explain", model, "--json", "--fusion", "epilogue", "--threads", "1"}).json();
  EXPECT_EQ(whole["peak_bytes"], 0);
  EXPECT_GE(parts["peak_bytes"].get<double>(), 2 * hidden);
  double bytes = 0;
  for (const Json& kernel : parts["kernels"]) bytes += kernel["dram_bytes"].get<double>();
  EXPECT_LT(group["dram_bytes"].get<double>(), bytes - 4 * hidden + 1);
}

TEST(Explain, SourceOfACompiledInKernel) {
  const Finished run =
      braze_program({"explain", case_model("bias_1C11"), "--source", "k0_conv_direct"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("compiled into the library"));
  EXPECT_THAT(run.out, HasSubstr("family conv_direct"));
}

TEST(Explain, SourceAsJson) {
  const auto source = [](const std::string& device, const std::string& kernel) {
    return braze_program({"explain", case_model("bias_1C11"), "--device", device, "--source",
                          kernel, "--json"})
        .json();
  };
  EXPECT_EQ(source("cpu", "k0_conv_direct"), Json({{"kernel", "k0_conv_direct"}, {"source", ""}}));
  const std::string name =
      braze_program({"explain", case_model("bias_1C11"), "--device", "cuda:sm_90", "--json"})
          .json()["kernels"][0]["name"];
  const Json emitted = source("cuda:sm_90", name);
  EXPECT_EQ(keys(emitted), (std::set<std::string>{"kernel", "source"}));
  EXPECT_EQ(emitted["kernel"], name);
  EXPECT_THAT(emitted["source"].get<std::string>(), HasSubstr("__global__"));
}

TEST(Explain, NamesTheAlgorithmAndTheLimitThatExcludesIt) {
  const std::string model = case_model("conv_3x3_residual");
  EXPECT_THAT(braze_program({"explain", model}).out, HasSubstr("winograd F(4x4,3x3)"));
  const Finished tight = braze_program({"explain", model, "--max-error", "1e-7"});
  EXPECT_THAT(tight.out, HasSubstr("conv_direct"));
  EXPECT_THAT(tight.out, HasSubstr("accuracy (1)"));
  EXPECT_THAT(tight.out, HasSubstr("--max-error is 1e-07"));
}

TEST(Explain, SameTextEveryTime) {
  const std::string model = case_model("separable_block");
  EXPECT_EQ(braze_program({"explain", model}).out, braze_program({"explain", model}).out);
}

TEST(Bench, JsonHasTimes) {
  const Finished run =
      braze_program({"bench", case_model("conv_then_1x1"), "--json", "--per-kernel", "--iters",
                     "60", "--threads", "1", "--fusion", "epilogue"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json json = run.json();
  EXPECT_EQ(json["iters"], 60);
  EXPECT_EQ(json["launches"], 2);
  EXPECT_GT(json["min_us"].get<double>(), 0);
  EXPECT_LE(json["min_us"], json["median_us"]);
  EXPECT_LE(json["median_us"], json["p99_us"]);
  ASSERT_EQ(json["kernels"].size(), 2U);
  EXPECT_EQ(json["kernels"][0]["nodes"], Json({"c", "r"}));
  EXPECT_GT(json["kernels"][0]["us"].get<double>(), 0);
}

TEST(Bench, TextAndAtLeastFiftyIterations) {
  const Finished run = braze_program({"bench", case_model("bias_1C11"), "--per-kernel"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("median"));
  EXPECT_THAT(run.out, HasSubstr("k0_conv_direct"));
  const Json json = braze_program({"bench", case_model("bias_1C11"), "--json"}).json();
  EXPECT_GE(json["iters"].get<int>(), 50);
}

TEST(Verify, PassesAndBisects) {
  const Finished run =
      braze_program({"verify", case_model("squeeze_excite"), "--bisect", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json json = run.json();
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["outputs"][0]["name"], "y");
  EXPECT_LE(json["outputs"][0]["max_error"], json["outputs"][0]["allowed"]);
  EXPECT_EQ(json["kernels"].size(), 5U);
  EXPECT_TRUE(json["first_off"].is_null());
  EXPECT_THAT(braze_program({"verify", case_model("squeeze_excite"), "--bisect"}).out,
              HasSubstr("no kernel is off"));
}

TEST(Verify, FailureIsExitCodeOne) {
  const Finished run = braze_program({"verify", data_file("unstable.onnx"), "--json"});
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.json()["ok"], false);
  EXPECT_THAT(run.err, HasSubstr("output 'y' is off by"));
  EXPECT_THAT(braze_program({"verify", data_file("unstable.onnx")}).out, HasSubstr("OFF"));
}

}  // namespace
}  // namespace braze::test
