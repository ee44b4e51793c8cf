// Exit codes and messages: 2 for usage and inputs, 3 for models, 4 for devices and disks; errors on
// stderr only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.hpp"

namespace braze::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

void expect_error(const std::vector<std::string>& arguments, int code, const std::string& part) {
  SCOPED_TRACE(::testing::PrintToString(arguments));
  const Finished run = braze_program(arguments);
  EXPECT_EQ(run.code, code);
  EXPECT_THAT(run.out, IsEmpty());
  EXPECT_THAT(run.err, StartsWith("braze: "));
  EXPECT_THAT(run.err, HasSubstr(part));
  EXPECT_THAT(run.err, EndsWith("\n"));
}

TEST(Usage, HelpAndVersionGoToStdout) {
  for (const char* option : {"--help", "--version"}) {
    const Finished run = braze_program({option});
    EXPECT_EQ(run.code, 0);
    EXPECT_THAT(run.out, HasSubstr("braze"));
    EXPECT_THAT(run.err, IsEmpty());
  }
  const std::string help = braze_program({"--help"}).out;
  for (const char* command : {"explain", "compile", "run", "bench", "verify", "devices", "tune"}) {
    EXPECT_THAT(help, HasSubstr(command));
    EXPECT_EQ(braze_program({command, "--help"}).code, 0) << command;
  }
}

TEST(Usage, WrongOptionsAreUsageErrors) {
  const std::string model = case_model("bias_1C11");
  expect_error({}, 2, "subcommand");
  expect_error({"fuse", model}, 2, "'fuse' is no command");
  expect_error({"explain"}, 2, "MODEL");
  expect_error({"explain", model, "extra"}, 2, "extra");
  expect_error({"explain", model, "--fast"}, 2, "--fast");
  expect_error({"explain", model, "--fusion", "most"}, 2, "'most' is none of epilogue|full|off");
  expect_error({"explain", model, "--precision", "fp8"}, 2, "fp8");
  expect_error({"explain", model, "--device", "tpu"}, 2, "'tpu' is none of cpu, cuda");
  expect_error({"explain", model, "--device", "cuda:sm_x"}, 2, "cuda:sm_x");
  expect_error({"explain", model, "--threads", "-1"}, 2, "threads");
  expect_error({"explain", model, "--threads", "two"}, 2, "threads");
  for (const char* error : {"0", "-1", "nan", "inf"})
    expect_error({"explain", model, "--max-error", error}, 2, "max-error");
  expect_error({"explain", model, "--dim", "N"}, 2, "NAME=VALUE");
  expect_error({"explain", model, "--dim", "N=0"}, 2, "positive");
  expect_error({"explain", model, "--dim", "N=1x"}, 2, "positive");
  expect_error({"explain", model, "--dim", "N=1"}, 2, "no such dimension");
  expect_error({"explain", case_model("batch_is_symbolic"), "--dim", "N=1", "--dim", "N=2"}, 2,
               "twice");
  expect_error({"compile", model}, 2, "--output");
  expect_error({"run", model}, 2, "--output-dir");
  expect_error({"bench", model, "--iters", "10"}, 2, "iters");
  expect_error({"explain", model, "--source", "k9"}, 2, "k0_conv_direct");
}

// Whatever this machine has: what it lacks is exit code 4.
TEST(Usage, OptionsThatContradictEachOtherAreUsageErrors) {
  const std::string model = case_model("bias_1C11");
  const auto on = [&](const char* command, std::vector<std::string> options) {
    options.insert(options.begin(), {command, model});
    if (command == std::string("run")) options.insert(options.end(), {"--output-dir", "/proc/no"});
    return options;
  };
  for (const char* command : {"explain", "run", "bench", "verify", "tune"}) {
    for (const char* precision : {"tf32", "fp16", "bf16"})
      expect_error(on(command, {"--precision", precision}), 2, "the CPU computes in fp32");
    expect_error(on(command, {"--backend", "cudnn"}), 2, "needs --device cuda");
    for (const char* device : {"cuda:sm_20", "cuda:sm_9000"}) {
      expect_error(on(command, {"--device", device}), 2, device);
    }
  }
  for (const char* command : {"run", "bench", "verify", "tune"})
    expect_error(on(command, {"--device", "cuda:sm_90"}), 2, "names an architecture");
  expect_error(on("explain", {"--device", "cuda:sm_90", "--backend", "cudnn"}), 2,
               "names an architecture");
  expect_error(on("verify", {"--reference", "cpu"}), 2, "cannot be the reference");
}

TEST(Usage, ModelsThatAreNone) {
  const TemporaryFolder folder;
  expect_error({"explain", folder / "missing.onnx"}, 3, "missing.onnx");
  expect_error({"explain", folder.path().string()}, 3, "folder");
  write_bytes(folder / "empty.onnx", "");
  expect_error({"explain", folder / "empty.onnx"}, 3, "empty.onnx");
  write_bytes(folder / "noise.onnx", std::string(1000, '\xff'));
  expect_error({"verify", folder / "noise.onnx"}, 3, "noise.onnx");
  const std::string model = read_bytes(case_model("squeeze_excite"));
  for (std::size_t size = 1; size < model.size(); size += 41) {
    write_bytes(folder / "cut.onnx", model.substr(0, size));
    const Finished run = braze_program({"explain", folder / "cut.onnx"});
    EXPECT_EQ(run.code, 3) << size << " bytes: " << run.err;
  }
  expect_error({"explain", case_model("batch_norm_in_training_mode")}, 3, "training_mode");
}

TEST(Usage, DevicesThatAreNotHere) {
  const std::string model = case_model("bias_1C11");
  const Finished here = braze_program({"devices", "--json"});
  ASSERT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(here.json()["devices"][0]["name"], "cpu");
  EXPECT_EQ(here.json()["devices"][0]["usable"], true);
  EXPECT_THAT(braze_program({"devices"}).out, HasSubstr("cpu"));
  expect_error({"explain", model, "--device", "cuda:99"}, 4, "cuda:99");
}

TEST(Usage, NamesDoNotSteerTheTerminal) {
  const Finished text = braze_program({"explain", data_file("names.onnx")});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(text.out, HasSubstr("\\x1b[31m"));
  const Finished json = braze_program({"explain", data_file("names.onnx"), "--json"});
  EXPECT_EQ(json.out.find('\x1b'), std::string::npos);
  EXPECT_NO_THROW(static_cast<void>(json.json()));
}

TEST(Usage, FullDiskBehindStdout) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  for (const char* command : {"explain", "verify"}) {
    const Finished run = braze_program({command, case_model("bias_1C11")}, {.out = "/dev/full"});
    EXPECT_EQ(run.code, 4);
    EXPECT_THAT(run.err, HasSubstr("standard output"));
  }
}

}  // namespace
}  // namespace braze::test
