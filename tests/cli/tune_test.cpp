// braze tune: measures what the database does not know, plans use it, Ctrl-C keeps what there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/write_onnx.hpp"
#include "passes/net.hpp"
#include "program.hpp"

namespace braze::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A chain of convolutions, each another problem that one family alone runs.
void write_chain(const std::string& file, int length, std::int64_t extent) {
  Net net;
  ValueId v = net.input("x", {1, 16, extent, extent});
  for (int i = 0; i < length; ++i) {
    const std::string name = std::to_string(i);
    v = net.unary("relu" + name, UnaryFn::kRelu,
                  net.conv("conv" + name, v, 16 + 8 * i, window2d(5, 2)));
  }
  net.output(v);
  write_onnx(net.graph, file);
}

class Tune : public ::testing::Test {
 protected:
  Finished braze(std::vector<std::string> arguments, const Limits& limits = {}) const {
    arguments.insert(arguments.end(), {"--cache-dir", folder_ / "cache", "--threads", "1"});
    // A kernel for each convolution.
    if (!arguments[1].ends_with(".brz"))
      arguments.insert(arguments.end(), {"--fusion", "epilogue"});
    return braze_program(arguments, limits);
  }
  [[nodiscard]] std::string database() const { return folder_ / "cache/tuning.db"; }

  const TemporaryFolder folder_;
};

TEST_F(Tune, MeasuresOnceAndPlansUseIt) {
  const std::string model = folder_ / "chain.onnx";
  write_chain(model, 3, 20);
  const Finished before = braze({"explain", model, "--json"});
  ASSERT_EQ(before.code, 0) << before.err;
  const nlohmann::json estimated = before.json();
  for (const auto& kernel : estimated["kernels"]) EXPECT_EQ(kernel["measured"], false);
  EXPECT_FALSE(std::filesystem::exists(database()));

  const Finished first = braze({"tune", model, "--json"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, IsEmpty());
  const nlohmann::json report = first.json();
  EXPECT_EQ(report["database"], database());
  EXPECT_EQ(report["finished"], true);
  EXPECT_EQ(report["problems"].size(), 3U);
  EXPECT_EQ(report["measured"], 3 * 8);
  EXPECT_EQ(report["estimated_plan_us"] > 0, report["same_plan"] == false);
  for (const auto& problem : report["problems"]) {
    EXPECT_GT(problem["tuned_us"].get<double>(), 0);
    // Never slower as measured, but that ties go to the estimates' favourite.
    EXPECT_LE(problem["tuned_us"].get<double>(), problem["estimated_us"].get<double>());
  }

  const Finished after = braze({"explain", model, "--json"});
  for (std::size_t k = 0; k < 3; ++k) {
    const nlohmann::json kernel = after.json()["kernels"][k];
    EXPECT_EQ(kernel["measured"], true);
    EXPECT_EQ(kernel["est_us"], report["problems"][k]["tuned_us"]);
  }
  const std::string text = braze({"explain", model}).out;
  EXPECT_THAT(text, HasSubstr(" measured\n"));
  EXPECT_EQ(braze({"explain", model}).out, text);
  EXPECT_EQ(braze({"verify", model}).code, 0);

  const std::string bytes = read_bytes(database());
  const Finished second = braze({"tune", model, "--json"});
  EXPECT_EQ(second.json()["measured"], 0);
  EXPECT_EQ(read_bytes(database()), bytes);
  const Finished more = braze({"tune", model, "--json", "--exhaustive"});
  EXPECT_EQ(more.json()["measured"], 3 * 13 - 3 * 8);
  const Finished most = braze({"tune", model, "--json", "--candidates", "100"});
  EXPECT_EQ(most.json()["measured"], 0);
}

TEST_F(Tune, EnginesKeepTheirCandidates) {
  const std::string model = folder_ / "chain.onnx";
  write_chain(model, 2, 20);
  ASSERT_EQ(braze({"tune", model}).code, 0);
  ASSERT_EQ(braze({"compile", model, "-o", folder_ / "chain.brz"}).code, 0);
  const auto plan = [](Finished run) {
    EXPECT_EQ(run.code, 0) << run.err;
    return run.out.substr(run.out.find('\n'));
  };
  const std::string tuned = plan(braze({"explain", model}));
  EXPECT_THAT(tuned, HasSubstr(" measured\n"));
  std::filesystem::remove(database());
  EXPECT_EQ(plan(braze({"explain", folder_ / "chain.brz"})), tuned);
  EXPECT_NE(plan(braze({"explain", model})), tuned);
}

TEST_F(Tune, SaysWhatItFound) {
  const std::string model = folder_ / "chain.onnx";
  write_chain(model, 2, 20);
  const Finished run = braze({"tune", model});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("2 kernel problems with a choice, 16 candidates measured now"));
  EXPECT_THAT(run.out, HasSubstr(database()));
  EXPECT_TRUE(run.out.find("of the time") != std::string::npos ||
              run.out.find("no gain") != std::string::npos)
      << run.out;
}

TEST_F(Tune, AModelWithoutAChoiceIsFine) {
  const Finished run = braze({"tune", case_model("activation_relu"), "--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["measured"].get<int>() == 0, run.json()["problems"].empty());
}

TEST_F(Tune, InterruptedItKeepsWhatWasMeasured) {
  const std::string model = folder_ / "chain.onnx";
  write_chain(model, 16, 64);
  const Finished run = braze({"tune", model, "--exhaustive"}, {.interrupt_when = database()});
  EXPECT_EQ(run.code, 128 + 2);
  EXPECT_THAT(run.err, HasSubstr("interrupted"));
  EXPECT_THAT(run.out, HasSubstr("not all was measured"));
  const nlohmann::json plan = braze({"explain", model, "--json"}).json();
  std::size_t measured = 0;
  for (const auto& kernel : plan["kernels"]) measured += kernel["measured"] == true ? 1 : 0;
  EXPECT_GT(measured, 0U) << run.err << run.out;
  EXPECT_LT(measured, 16U);
}

TEST_F(Tune, OneCandidateIsTheOneOfTheEstimates) {
  const std::string model = folder_ / "chain.onnx";
  write_chain(model, 2, 12);
  const nlohmann::json before = braze({"explain", model, "--json"}).json();
  const nlohmann::json report = braze({"tune", model, "--json", "--candidates", "1"}).json();
  EXPECT_EQ(report["measured"], 2);
  EXPECT_EQ(report["same_plan"], true);
  for (const auto& problem : report["problems"]) {
    EXPECT_EQ(problem["tuned"], problem["estimated"]);
    EXPECT_GT(problem["tuned_us"].get<double>(), 0);
  }
  const nlohmann::json after = braze({"explain", model, "--json"}).json();
  for (std::size_t k = 0; k < after["kernels"].size(); ++k) {
    EXPECT_EQ(after["kernels"][k]["name"], before["kernels"][k]["name"]);
    EXPECT_EQ(after["kernels"][k]["measured"], true);
  }
  EXPECT_EQ(braze({"tune", model, "--json"}).json()["measured"], 2 * 7);
}

TEST_F(Tune, WarnsOfADatabaseThatIsNone) {
  const std::string model = folder_ / "chain.onnx";
  write_chain(model, 1, 12);
  std::filesystem::create_directory(folder_ / "cache");
  write_bytes(database(), "not a database at all");
  const Finished warned = braze({"explain", model});
  EXPECT_EQ(warned.code, 0);
  EXPECT_THAT(warned.err, HasSubstr("tuning.db.unusable"));
  EXPECT_THAT(braze({"explain", model}).err, IsEmpty());
}

TEST_F(Tune, WhereNothingCanBeKeptItSaysSo) {
  const std::string model = folder_ / "chain.onnx";
  write_chain(model, 1, 12);
  const Finished run =
      braze_program({"tune", model, "--json", "--cache-dir", "/proc/self", "--threads", "1"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("does not keep what was measured"));
  EXPECT_EQ(run.json()["measured"], 8);
}

TEST_F(Tune, Refusals) {
  const std::string model = folder_ / "chain.onnx";
  write_chain(model, 1, 12);
  ASSERT_EQ(braze({"compile", model, "-o", folder_ / "chain.brz"}).code, 0);
  EXPECT_EQ(braze({"tune", folder_ / "chain.brz"}).code, 2);
  EXPECT_EQ(braze({"tune", model, "--candidates", "0"}).code, 2);
  EXPECT_EQ(braze({"tune", model, "--candidates", "4", "--exhaustive"}).code, 2);
  EXPECT_EQ(braze({"tune", folder_ / "missing.onnx"}).code, 3);
  const Finished nowhere = braze({"tune", model, "--device", "cuda:sm_90"});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("nothing can be measured"));
}

}  // namespace
}  // namespace braze::test
