// What the command line says of GPUs where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "program.hpp"

namespace braze::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

bool has_gpu() {
  const Json found = braze_program({"devices", "--json"}).json();
  for (const Json& device : found["devices"])
    if (device["name"] == "cuda") return device["usable"];
  return false;
}

TEST(GpuEngine, IsExplainedWithoutAGpuAndNotRun) {
  const TemporaryFolder folder;
  const std::string engine = folder / "net.brz";
  const Finished compiled =
      braze_program({"compile", case_model("residual_before_relu"), "-o", engine, "--device",
                     "cuda:sm_90", "--precision", "tf32", "--cache-dir", folder / "cache"});
  if (compiled.code == 4) GTEST_SKIP() << compiled.err;
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  const Finished explained = braze_program({"explain", engine});
  ASSERT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("cuda:sm_90"));
  const Json plan = braze_program({"explain", engine, "--json"}).json();
  ASSERT_EQ(plan["kernels"].size(), 1U);
  EXPECT_EQ(plan["kernels"][0]["backend"], "cuda");
  const std::string name = plan["kernels"][0]["name"];
  const Finished source = braze_program({"explain", engine, "--source", name});
  ASSERT_EQ(source.code, 0) << source.err;
  EXPECT_THAT(source.out, HasSubstr("extern \"C\" __global__"));
  // The same as of the model.
  EXPECT_EQ(source.out, braze_program({"explain", case_model("residual_before_relu"), "--device",
                                       "cuda:sm_90", "--precision", "tf32", "--source", name})
                            .out);
  if (has_gpu()) return;
  const Finished run = braze_program({"bench", engine});
  EXPECT_EQ(run.code, 4);
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_THAT(run.err, HasSubstr("device 'cuda': no GPU can be used"));
}

TEST(Verify, SaysWhatItComparedWith) {
  const std::string model = case_model("conv_1x1");
  EXPECT_THAT(braze_program({"verify", model}).out, HasSubstr("reference: the interpreter\n"));
  EXPECT_EQ(braze_program({"verify", model, "--json"}).json()["reference"], "interpreter");
  EXPECT_EQ(braze_program({"verify", model, "--reference", "interpreter"}).code, 0);
  const Finished itself = braze_program({"verify", model, "--reference", "cpu"});
  EXPECT_EQ(itself.code, 2);
  EXPECT_THAT(itself.err, HasSubstr("cannot be the reference for themselves"));
  EXPECT_EQ(braze_program({"verify", model, "--reference", "oracle"}).code, 2);
}

TEST(Streams, AreAnOption) {
  const std::string model = case_model("conv_1x1");
  EXPECT_EQ(braze_program({"explain", model, "--streams", "1"}).code, 0);
  EXPECT_EQ(braze_program({"explain", model, "--streams", "-1"}).code, 2);
}

}  // namespace
}  // namespace braze::test
