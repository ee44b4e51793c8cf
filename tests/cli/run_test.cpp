// run and compile: inputs, pictures, outputs, engine files, and disks that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "braze/braze.hpp"
#include "program.hpp"
#include "support/onnx_case.hpp"

namespace braze::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Tensor tensor(const std::string& file) {
  const Result<Tensor> read = read_tensor(file);
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

void expect_equal(const std::string& got, const std::string& expected) {
  EXPECT_EQ(difference(tensor(got), tensor(expected), {1e-5, 1e-6, true}), "");
}

std::vector<std::string> run_arguments(const std::string& name, const TemporaryFolder& folder) {
  return {"run",          case_model(name), "--input", "x=" + case_tensor(name, "input_0"),
          "--output-dir", folder / "out"};
}

TEST(Run, WritesOutputsAndTheirList) {
  const TemporaryFolder folder;
  const Finished run = braze_program(run_arguments("conv_is_an_output", folder));
  ASSERT_EQ(run.code, 0) << run.err;
  const Json list = Json::parse(read_bytes(folder / "out/outputs.json"));
  EXPECT_EQ(list,
            Json::array(
                {{{"name", "c"}, {"file", "c.npy"}, {"dtype", "float"}, {"shape", {1, 4, 6, 6}}},
                 {{"name", "y"}, {"file", "y.npy"}, {"dtype", "float"}, {"shape", {1, 4, 6, 6}}}}));
  expect_equal(folder / "out/c.npy", case_tensor("conv_is_an_output", "output_0"));
  expect_equal(folder / "out/y.npy", case_tensor("conv_is_an_output", "output_1"));
  EXPECT_THAT(run.out, HasSubstr("y.npy"));
}

TEST(Run, TakesNpyToo) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_tensor(folder / "x=1.npy", tensor(case_tensor("bias_1C11", "input_0"))).ok());
  const Finished run = braze_program({"run", case_model("bias_1C11"), "--input",
                                      "x=" + (folder / "x=1.npy"), "--output-dir", folder / "o"});
  ASSERT_EQ(run.code, 0) << run.err;
  expect_equal(folder / "o/y.npy", case_tensor("bias_1C11", "output_0"));
}

TEST(Run, NamesOfOutputsBecomeFileNames) {
  const TemporaryFolder folder;
  const float values[] = {1, -2};
  ASSERT_TRUE(
      write_tensor(folder / "x.npy", Tensor::from<float>(DType::kFloat32, {1, 2}, values)).ok());
  const Finished run =
      braze_program({"run", data_file("names.onnx"), "--input", "x=" + (folder / "x.npy"),
                     "--output-dir", folder / "out", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  std::vector<std::string> files;
  for (const Json& output : run.json()) files.push_back(output["file"]);
  EXPECT_THAT(files,
              ElementsAre("dir_y_0.npy", "dir_y_0_2.npy", "_.._.._etc_passwd.npy", "__31m__.npy"));
  EXPECT_EQ(tensor(folder / "out/dir_y_0.npy").as<float>()[1], 0);    // Relu
  EXPECT_EQ(tensor(folder / "out/dir_y_0_2.npy").as<float>()[1], 2);  // Neg
  EXPECT_THAT(folder.files(), ElementsAre("out", "x.npy"));
}

TEST(Run, InputsThatDoNotFit) {
  const TemporaryFolder folder;
  const std::string model = case_model("residual_is_an_image_scale");
  const auto expect = [&](const std::vector<std::string>& inputs, int code, const char* part) {
    std::vector<std::string> arguments = {"run", model, "--output-dir", folder / "out"};
    arguments.insert(arguments.end(), inputs.begin(), inputs.end());
    const Finished run = braze_program(arguments);
    EXPECT_EQ(run.code, code) << run.err;
    EXPECT_THAT(run.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  };
  const std::string x = "x=" + case_tensor("residual_is_an_image_scale", "input_0");
  const std::string z = "z=" + case_tensor("residual_is_an_image_scale", "input_1");
  expect({}, 2, "not given (--input NAME=FILE): 'x' float[1,3,6,6], 'z' float[1,4,1,1]");
  expect({"--input", x}, 2, "'z' float[1,4,1,1]");
  expect({"--input", x, "--input", z, "--input", "q=" + z.substr(2)}, 2, "no input 'q'");
  expect({"--input", x, "--input", x}, 2, "twice");
  expect({"--input", "x"}, 2, "NAME=FILE");
  expect({"--input", "x=" + z.substr(2), "--input", z}, 2, "expected float [1,3,6,6]");
  expect({"--input", "x=" + (folder / "none.npy"), "--input", z}, 2, "none.npy");
  write_bytes(folder / "noise.npy", std::string(300, 'q'));
  expect({"--input", "x=" + (folder / "noise.npy"), "--input", z}, 2, "noise.npy");
  write_bytes(folder / "cut.npy", "\x93NUMPY\x01");
  expect({"--input", "x=" + (folder / "cut.npy"), "--input", z}, 2, "cut.npy");
}

TEST(Run, AnInputThatDecidesAShapeIsBound) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = run_arguments("shape_is_an_input", folder);
  const Finished without = braze_program(arguments);
  EXPECT_EQ(without.code, 3);
  EXPECT_THAT(without.err, HasSubstr("'shape'"));
  arguments.push_back("--input");
  arguments.push_back("shape=" + case_tensor("shape_is_an_input", "input_1"));
  const Finished run = braze_program(arguments);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("input 'shape' decides a shape"));
  expect_equal(folder / "out/y.npy", case_tensor("shape_is_an_input", "output_0"));
}

TEST(Run, BindsDimensions) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = run_arguments("batch_is_symbolic", folder);
  const Finished one = braze_program(arguments);  // the data has a batch of 2
  EXPECT_EQ(one.code, 2);
  EXPECT_THAT(one.err, HasSubstr("[1,3,6,6]"));
  arguments.insert(arguments.end(), {"--dim", "N=2"});
  const Finished two = braze_program(arguments);
  ASSERT_EQ(two.code, 0) << two.err;
  expect_equal(folder / "out/y.npy", case_tensor("batch_is_symbolic", "output_0"));
}

Shape listed_shape(const TemporaryFolder& folder) {
  return Json::parse(read_bytes(folder / "out/outputs.json")).at(0).at("shape").get<Shape>();
}

TEST(Run, ChannelsLastShapesWhereTheBytesAreTheSame) {
  const TemporaryFolder folder;  // one channel: [N, C, H, W] and [N, H, W, C] are the same bytes
  const Tensor x = tensor(case_tensor("conv_5x5_of_one_channel", "input_0"));
  const Shape nchw = x.shape();
  ASSERT_EQ(nchw[1], 1);
  const Tensor nhwc = x.reshaped({nchw[0], nchw[2], nchw[3], 1});
  ASSERT_TRUE(write_tensor(folder / "x.npy", nhwc).ok());
  const auto run = [&](const std::string& file) {
    return braze_program({"run", case_model("conv_5x5_of_one_channel"), "--io-layout", "nhwc",
                          "--input", "x=" + file, "--output-dir", folder / "out"});
  };
  EXPECT_EQ(run(case_tensor("conv_5x5_of_one_channel", "input_0")).code, 2);
  const Finished finished = run(folder / "x.npy");
  ASSERT_EQ(finished.code, 0) << finished.err;
  const Tensor expected = tensor(case_tensor("conv_5x5_of_one_channel", "output_0"));
  const Tensor got = tensor(folder / "out/y.npy");
  const Shape shape = expected.shape();
  ASSERT_EQ(got.shape(), (Shape{shape[0], shape[2], shape[3], shape[1]}));
  EXPECT_EQ(listed_shape(folder), got.shape());
  const std::int64_t pixels = shape[2] * shape[3];
  for (std::int64_t i = 0; i < expected.count(); ++i) {
    const std::int64_t n = i / (shape[1] * pixels), c = i / pixels % shape[1], p = i % pixels;
    EXPECT_NEAR(got.as<float>()[(n * pixels + p) * shape[1] + c], expected.as<float>()[i], 1e-4);
  }
}

Finished run_picture(const char* model, const std::string& picture, const TemporaryFolder& folder,
                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"run",          data_file(model), "--output-dir",
                                        folder / "out", "--image",        "x=" + picture};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return braze_program(arguments);
}

TEST(Picture, PixelsAreScaledShiftedAndPlanar) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_picture("picture.onnx", data_file("ramp.png"), folder).code, 0);
  const Tensor plain = tensor(folder / "out/y.npy");
  ASSERT_EQ(run_picture("picture.onnx", data_file("ramp.png"), folder,
                        {"--scale", "0.5", "--mean", "1,2,3", "--std", "4", "--bgr"})
                .code,
            0);
  const Tensor shifted = tensor(folder / "out/y.npy");
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 7; ++x) {
      const int rgb[] = {10 * y, 20 * x, 100 + y + x};
      for (int c = 0; c < 3; ++c) {
        const int at = (c * 5 + y) * 7 + x;
        EXPECT_FLOAT_EQ(plain.as<float>()[at], static_cast<float>(rgb[c]) / 255);
        EXPECT_FLOAT_EQ(shifted.as<float>()[at],
                        (static_cast<float>(rgb[2 - c]) * 0.5F - static_cast<float>(c + 1)) / 4);
      }
    }
  }
}

TEST(Picture, ChannelsLastInAnEngineToo) {
  const TemporaryFolder folder;
  ASSERT_EQ(braze_program({"compile", data_file("picture.onnx"), "--io-layout", "nhwc", "-o",
                           folder / "e.brz"})
                .code,
            0);
  const Finished run = braze_program({"run", folder / "e.brz", "--output-dir", folder / "out",
                                      "--image", "x=" + data_file("ramp.png"), "--scale", "1"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Tensor pixels = tensor(folder / "out/y.npy");
  ASSERT_EQ(pixels.shape(), (Shape{1, 5, 7, 3}));
  EXPECT_EQ(pixels.as<float>()[(2 * 7 + 3) * 3 + 1], 60);
}

TEST(Picture, UnsignedBytesStayAsTheyAre) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_picture("pixels.onnx", data_file("ramp.png"), folder).code, 0);
  const Tensor pixels = tensor(folder / "out/y.npy");
  EXPECT_EQ(pixels.as<std::uint8_t>()[(2 * 7 + 3) * 3 + 1], 60);
  const Finished run = run_picture("pixels.onnx", data_file("ramp.png"), folder, {"--mean", "1"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("uint8"));
}

TEST(Picture, HalfPrecision) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_picture("half.onnx", data_file("ramp.png"), folder, {"--scale", "0.25"}).code, 0);
  const Tensor half = tensor(folder / "out/y.npy");
  ASSERT_EQ(half.dtype(), DType::kFloat16);
  EXPECT_EQ(half.as<std::uint16_t>()[7], 0x4100);  // 10 / 4 = 2.5
  EXPECT_EQ(half.as<std::uint16_t>()[0], 0);
}

TEST(Picture, JpegIsScaledWhereAsked) {
  const TemporaryFolder folder;
  const Finished refused = run_picture("picture.onnx", data_file("plain.jpg"), folder);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("16 pixels wide and 8 high"));
  EXPECT_THAT(refused.err, HasSubstr("--resize"));
  ASSERT_EQ(
      run_picture("picture.onnx", data_file("plain.jpg"), folder, {"--resize", "--scale", "1"})
          .code,
      0);
  const Tensor pixels = tensor(folder / "out/y.npy");
  const float colour[] = {200, 100, 50};
  for (int i = 0; i < 105; ++i) EXPECT_NEAR(pixels.as<float>()[i], colour[i / 35], 3) << i;
}

TEST(Picture, FilesThatAreNone) {
  const TemporaryFolder folder;
  const std::string png = read_bytes(data_file("ramp.png"));
  for (const std::size_t size : {0UL, 1UL, 20UL, png.size() / 2, png.size() - 20}) {
    write_bytes(folder / "cut.png", png.substr(0, size));
    const Finished run = run_picture("picture.onnx", folder / "cut.png", folder);
    EXPECT_EQ(run.code, 2) << size << run.err;
    EXPECT_THAT(run.err, HasSubstr("cut.png"));
  }
  std::string huge = png;  // claims 2^31 - 1 by 2^31 - 1 pixels
  for (std::size_t i = 16; i < 24; ++i) huge[i] = i % 4 == 0 ? '\x7f' : '\xff';
  write_bytes(folder / "huge.png", huge);
  const Finished run = run_picture("picture.onnx", folder / "huge.png", folder, {"--resize"});
  EXPECT_EQ(run.code, 2) << run.err;
  EXPECT_EQ(run_picture("picture.onnx", folder / "none.png", folder).code, 2);
  EXPECT_EQ(run_picture("names.onnx", data_file("ramp.png"), folder).code, 2);
  EXPECT_EQ(run_picture("picture.onnx", data_file("ramp.png"), folder, {"--mean", "1,2"}).code, 2);
  EXPECT_EQ(run_picture("picture.onnx", data_file("ramp.png"), folder, {"--std", "0"}).code, 2);
}

TEST(Engine, IsNotWrittenOverItsModel) {
  const TemporaryFolder folder;
  const std::filesystem::path model(folder / "net.onnx");
  std::filesystem::copy_file(case_model("squeeze_excite"), model);
  const auto size = std::filesystem::file_size(model);
  const Finished compiled =
      braze_program({"compile", folder / "net.onnx", "-o", folder / "net.onnx"});
  EXPECT_EQ(compiled.code, 2);
  EXPECT_THAT(compiled.err, HasSubstr("is the model itself"));
  EXPECT_EQ(std::filesystem::file_size(model), size);
}

TEST(Engine, RunsAsTheModelDoes) {
  const TemporaryFolder folder;
  const Finished compiled = braze_program(
      {"compile", case_model("squeeze_excite"), "-o", folder / "net.engine", "--json"});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  EXPECT_EQ(compiled.json()["engine"], folder / "net.engine");
  const Finished run = braze_program({"run", folder / "net.engine", "--input",
                                      "x=" + case_tensor("squeeze_excite", "input_0"),
                                      "--output-dir", folder / "out"});
  ASSERT_EQ(run.code, 0) << run.err;
  expect_equal(folder / "out/y.npy", case_tensor("squeeze_excite", "output_0"));
  EXPECT_EQ(braze_program({"explain", folder / "net.engine", "--json"}).out,
            braze_program({"explain", case_model("squeeze_excite"), "--json"}).out);
  EXPECT_EQ(braze_program({"bench", folder / "net.engine"}).code, 0);
  EXPECT_EQ(braze_program({"verify", folder / "net.engine"}).code, 2);
  EXPECT_EQ(braze_program({"compile", folder / "net.engine", "-o", folder / "b"}).code, 2);
  const Finished fixed = braze_program({"explain", folder / "net.engine", "--fusion", "off"});
  EXPECT_EQ(fixed.code, 2);
  EXPECT_THAT(fixed.err, HasSubstr("--fusion was fixed"));
}

TEST(Engine, SameBytesEveryTime) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"})
    ASSERT_EQ(braze_program({"compile", case_model("dense_block"), "-o", folder / name}).code, 0);
  EXPECT_EQ(read_bytes(folder / "a"), read_bytes(folder / "b"));
}

TEST(Engine, DamageIsRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(braze_program({"compile", case_model("bias_1C11"), "-o", folder / "good"}).code, 0);
  const std::string good = read_bytes(folder / "good");
  for (std::size_t size = 8; size < good.size(); size += good.size() / 7) {
    write_bytes(folder / "cut", good.substr(0, size));
    EXPECT_EQ(braze_program({"explain", folder / "cut"}).code, 3) << size;
  }
  for (std::size_t at = 8; at < good.size(); at += good.size() / 11) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write_bytes(folder / "bad", bad);
    const Finished run = braze_program({"bench", folder / "bad"});
    EXPECT_EQ(run.code, 3) << at;
    EXPECT_THAT(run.err, HasSubstr("bad"));
  }
}

TEST(Disk, FoldersThatCannotBe) {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "");
  const Finished compiled =
      braze_program({"compile", case_model("bias_1C11"), "-o", folder / "file/net.engine"});
  EXPECT_EQ(compiled.code, 4);
  EXPECT_THAT(compiled.err, HasSubstr("net.engine"));
  const Finished run = braze_program({"run", case_model("bias_1C11"), "--input",
                                      "x=" + case_tensor("bias_1C11", "input_0"), "--output-dir",
                                      folder / "file/out"});
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("file/out"));
  EXPECT_THAT(folder.files(), ElementsAre("file"));
}

TEST(Disk, FullWhileWriting) {
  const TemporaryFolder folder;
  write_bytes(folder / "net.engine", "old");
  const Finished compiled = braze_program(
      {"compile", case_model("conv_wide"), "-o", folder / "net.engine"}, {.most_file_bytes = 4096});
  EXPECT_EQ(compiled.code, 4);
  EXPECT_THAT(compiled.err, HasSubstr("net.engine"));
  EXPECT_EQ(read_bytes(folder / "net.engine"), "old");
  EXPECT_THAT(folder.files(), ElementsAre("net.engine"));

  const Finished run = braze_program(run_arguments("conv_wide", folder), {.most_file_bytes = 4096});
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("y.npy"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "out"));
}

}  // namespace
}  // namespace braze::test
