// Every way in which ONNX writes the elements of a tensor, and what may be wrong with it.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "model/decode_tensor.hpp"
#include "model/external_data.hpp"
#include "model/onnx_model.hpp"
#include "model/read_tensor.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;

constexpr ErrorCode kInvalid = ErrorCode::kModelInvalid;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

Tensor decode(onnx::TensorProto proto, const std::filesystem::path& folder = "/nonexistent") {
  model::ExternalData external(folder);
  return model::decode_tensor(proto, external, "tensor 't'");
}

void expect_wrong(ErrorCode code, const std::vector<std::string>& parts,
                  const onnx::TensorProto& proto,
                  const std::filesystem::path& folder = "/nonexistent") {
  expect_error(code, parts, [&] { decode(proto, folder); });
}

onnx::TensorProto proto_of(int type, const Shape& shape) {
  onnx::TensorProto proto;
  proto.set_data_type(type);
  for (const std::int64_t extent : shape) proto.add_dims(extent);
  return proto;
}

TEST(DecodeTensor, RawRoundTripOfEveryDtype) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor tensor = make_tensor(dtype, {2, 2}, std::vector<double>{0, 1, 1, 0});
    onnx::TensorProto proto;
    model::encode_tensor(tensor, "t", proto);
    const Tensor read = decode(proto);
    EXPECT_EQ(read.dtype(), dtype);
    EXPECT_EQ(read.shape(), tensor.shape());
    EXPECT_THAT(load<double>(read), ElementsAre(0, 1, 1, 0)) << to_string(dtype);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.data()) % size_of(dtype), 0U);
  }
}

TEST(DecodeTensor, TypedFields) {
  using Proto = onnx::TensorProto;
  Proto floats = proto_of(Proto::FLOAT, {2});
  floats.add_float_data(1.5F);
  floats.add_float_data(-2);
  EXPECT_THAT(load<double>(decode(floats)), ElementsAre(1.5, -2));
  Proto doubles = proto_of(Proto::DOUBLE, {1});
  doubles.add_double_data(0.1);
  EXPECT_THAT(load<double>(decode(doubles)), ElementsAre(0.1));
  Proto longs = proto_of(Proto::INT64, {1});
  longs.add_int64_data(INT64_MIN);
  EXPECT_THAT(load<std::int64_t>(decode(longs)), ElementsAre(INT64_MIN));
  for (const int type : {Proto::UINT32, Proto::UINT64}) {
    Proto unsigned_ones = proto_of(type, {1});
    unsigned_ones.add_uint64_data(4000000000U);
    EXPECT_THAT(load<std::int64_t>(decode(unsigned_ones)), ElementsAre(4000000000));
  }
  for (const int type : {Proto::INT8, Proto::INT16, Proto::INT32}) {
    Proto proto = proto_of(type, {2});
    proto.add_int32_data(-7);
    proto.add_int32_data(100);
    EXPECT_THAT(load<std::int64_t>(decode(proto)), ElementsAre(-7, 100));
  }
  for (const int type : {Proto::UINT8, Proto::UINT16, Proto::BOOL}) {
    Proto proto = proto_of(type, {2});
    proto.add_int32_data(1);
    proto.add_int32_data(0);
    EXPECT_THAT(load<std::int64_t>(decode(proto)), ElementsAre(1, 0));
  }
}

TEST(DecodeTensor, HalvesAreBitsInInt32Data) {
  onnx::TensorProto half = proto_of(onnx::TensorProto::FLOAT16, {2});
  half.add_int32_data(0x3C00);
  half.add_int32_data(0xC000);
  EXPECT_THAT(load<double>(decode(half)), ElementsAre(1, -2));
  onnx::TensorProto brain = proto_of(onnx::TensorProto::BFLOAT16, {1});
  brain.add_int32_data(0x3F80);
  EXPECT_THAT(load<double>(decode(brain)), ElementsAre(1));
}

TEST(DecodeTensor, EmptyTensorsAndScalars) {
  EXPECT_EQ(decode(proto_of(onnx::TensorProto::FLOAT, {0, 3})).count(), 0);
  onnx::TensorProto scalar = proto_of(onnx::TensorProto::FLOAT, {});
  scalar.add_float_data(4);
  EXPECT_THAT(load<double>(decode(scalar)), ElementsAre(4));
}

TEST(DecodeTensor, WrongNumbersOfElements) {
  onnx::TensorProto raw = proto_of(onnx::TensorProto::FLOAT, {3});
  raw.set_raw_data("12345678");
  expect_wrong(kInvalid, {"tensor 't'", "8 bytes", "expected 12", "float[3]"}, raw);
  onnx::TensorProto typed = proto_of(onnx::TensorProto::FLOAT, {3});
  typed.add_float_data(1);
  expect_wrong(kInvalid, {"tensor 't'", "1 elements", "expected 3"}, typed);
  onnx::TensorProto range = proto_of(onnx::TensorProto::UINT8, {1});
  range.add_int32_data(300);
  expect_wrong(kInvalid, {"tensor 't'", "300", "uint8"}, range);
}

TEST(DecodeTensor, ImpossibleShapesFailBeforeAnythingIsAllocated) {
  expect_wrong(kInvalid, {"[-1]", "negative"}, proto_of(onnx::TensorProto::FLOAT, {-1}));
  const std::int64_t huge = std::int64_t{1} << 60;
  expect_wrong(kInvalid, {"0 elements", "expected"}, proto_of(onnx::TensorProto::INT8, {huge}));
  expect_wrong(kInvalid, {"2^63"}, proto_of(onnx::TensorProto::DOUBLE, {huge}));
  expect_wrong(kInvalid, {"2^63"}, proto_of(onnx::TensorProto::INT8, {huge, huge}));
}

TEST(DecodeTensor, DtypesThatAreNotSupported) {
  expect_wrong(kUnsupported, {"tensor 't'", "string"}, proto_of(onnx::TensorProto::STRING, {1}));
  expect_wrong(kUnsupported, {"complex128"}, proto_of(onnx::TensorProto::COMPLEX128, {1}));
  expect_wrong(kUnsupported, {"uint4"}, proto_of(21, {1}));
  expect_wrong(kInvalid, {"tensor 't'", "0 is not"}, proto_of(0, {1}));
  onnx::TensorProto segment = proto_of(onnx::TensorProto::FLOAT, {1});
  segment.mutable_segment();
  expect_wrong(kUnsupported, {"segments"}, segment);
}

/// A folder with data.bin: the floats 0, 1, 2, ..., 15.
class ExternalTensor : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_ / "sub");
    std::vector<float> values;
    for (int i = 0; i < 16; ++i) values.push_back(static_cast<float>(i));
    for (const char* name : {"data.bin", "sub/data.bin"}) {
      std::ofstream file(folder_ / name, std::ios::binary);
      file.write(reinterpret_cast<const char*>(values.data()), 64);
      file.put('x');
    }
  }

  static onnx::TensorProto external(const std::string& location, const std::string& offset,
                                    const std::string& length) {
    onnx::TensorProto proto = proto_of(onnx::TensorProto::FLOAT, {4});
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    const std::pair<const char*, const std::string*> entries[] = {
        {"location", &location}, {"offset", &offset}, {"length", &length}};
    for (const auto& [key, value] : entries) {
      if (value->empty()) continue;
      auto& entry = *proto.add_external_data();
      entry.set_key(key);
      entry.set_value(*value);
    }
    return proto;
  }

  const TemporaryFolder folder_;
};

TEST_F(ExternalTensor, IsMappedWhereItIsAligned) {
  EXPECT_THAT(load<double>(decode(external("data.bin", "", ""), folder_.path())),
              ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(load<double>(decode(external("sub/data.bin", "48", "16"), folder_.path())),
              ElementsAre(12, 13, 14, 15));
  model::ExternalData data(folder_.path());
  onnx::TensorProto first = external("data.bin", "0", "16");
  onnx::TensorProto second = external("data.bin", "16", "16");
  const Tensor a = model::decode_tensor(first, data, "a");
  const Tensor b = model::decode_tensor(second, data, "b");
  EXPECT_EQ(a.as<float>() + 4, b.as<float>());  // one mapping, no copies
}

TEST_F(ExternalTensor, IsCopiedWhereItIsNot) {
  onnx::TensorProto proto = external("data.bin", "1", "16");
  const Tensor tensor = decode(proto, folder_.path());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 4, 0U);
  std::ifstream file(folder_ / "data.bin", std::ios::binary);
  file.seekg(1);
  char expected[16];
  file.read(expected, 16);
  EXPECT_EQ(std::memcmp(tensor.data(), expected, 16), 0);
}

TEST_F(ExternalTensor, OutlivesTheModel) {
  OnnxModel model;
  *model.graph().add_initializer() = external("data.bin", "4", "16");
  model.graph().mutable_initializer(0)->set_name("w");
  model.node("Relu", {"w"}, {"y"}).output("y");
  const Graph graph = model.read(folder_.path());
  EXPECT_THAT(load<double>(*graph.value(graph.node(0).inputs[0]).constant),
              ElementsAre(1, 2, 3, 4));
}

TEST_F(ExternalTensor, MayNotLeaveItsFolder) {
  const std::string mine = folder_.path().filename().string();
  for (const std::string& location : {std::string("/etc/passwd"), "../" + mine + "/data.bin",
                                      std::string("sub/../data.bin"), std::string("..")}) {
    expect_wrong(kInvalid, {"tensor 't'", location, "leaves the model's folder"},
                 external(location, "", ""), folder_.path());
  }
  expect_wrong(kInvalid, {"external location"}, external(std::string("data.bin\0x", 10), "", ""),
               folder_.path());
}

TEST_F(ExternalTensor, WrongRanges) {
  expect_wrong(kInvalid, {"tensor 't'", "without a location"}, external("", "", ""),
               folder_.path());
  expect_wrong(kInvalid, {"none.bin", "No such file"}, external("none.bin", "", ""),
               folder_.path());
  expect_wrong(kInvalid, {"folder"}, external("sub", "", ""), folder_.path());
  expect_wrong(kInvalid, {"offset is 'x1'"}, external("data.bin", "x1", ""), folder_.path());
  expect_wrong(kInvalid, {"offset is '-4'"}, external("data.bin", "-4", ""), folder_.path());
  expect_wrong(kInvalid, {"length is '16k'"}, external("data.bin", "", "16k"), folder_.path());
  expect_wrong(kInvalid, {"12 bytes", "expected 16"}, external("data.bin", "", "12"),
               folder_.path());
  expect_wrong(kInvalid, {"52 to 68", "only 65"}, external("data.bin", "52", "16"), folder_.path());
  expect_wrong(kInvalid, {"only 65"}, external("data.bin", "18446744073709551615", ""),
               folder_.path());
}

TEST(TensorFile, ProtoRoundTrip) {
  const TemporaryFolder folder;
  const std::string file = folder / "tensor.pb";
  const Tensor tensor = make_tensor(DType::kBFloat16, {3}, std::vector<double>{1, -2, 0.5});
  write_tensor_file(file, tensor);
  const Tensor read = read_tensor_file(file);
  EXPECT_EQ(read.dtype(), DType::kBFloat16);
  EXPECT_THAT(load<double>(read), ElementsAre(1, -2, 0.5));
}

TEST(TensorFile, ErrorsAreTheInputs) {
  const TemporaryFolder folder;
  const std::string file = folder / "bad.pb";
  std::ofstream(file) << "no tensor";
  expect_error(ErrorCode::kInput, {file, "neither"}, [&] { read_tensor_file(file); });
  std::ofstream(file) << proto_of(onnx::TensorProto::FLOAT, {3}).SerializeAsString();
  expect_error(ErrorCode::kInput, {file, "expected 3"}, [&] { read_tensor_file(file); });
  std::ofstream(file) << proto_of(onnx::TensorProto::STRING, {3}).SerializeAsString();
  expect_error(ErrorCode::kInput, {file, "string"}, [&] { read_tensor_file(file); });
  expect_error(ErrorCode::kInput, {"/nonexistent.pb"}, [] { read_tensor_file("/nonexistent.pb"); });
  expect_error(ErrorCode::kUsage, {"x.txt", ".npy"},
               [] { write_tensor_file("x.txt", Tensor::make(DType::kInt8, {1})); });
}

}  // namespace
}  // namespace braze::test
