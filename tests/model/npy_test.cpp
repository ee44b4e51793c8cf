// numpy's array files, byte by byte.
#include "model/npy.hpp"

#include <fstream>
#include <iterator>

#include "base/file.hpp"
#include "model/onnx_model.hpp"
#include "model/read_tensor.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using testing::ElementsAre;

constexpr ErrorCode kInput = ErrorCode::kInput;

/// An .npy file of format 1.0 with this header and these elements.
std::string npy(const std::string& header, const std::string& elements, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  const int digits = version == 1 ? 2 : 4;
  for (int i = 0; i < digits; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return text + header + elements;
}

Tensor parse(const std::string& text) {
  const auto owner = std::make_shared<std::string>(text);
  return parse_npy(std::as_bytes(std::span(*owner)), owner, "a.npy");
}

void expect_wrong(const std::vector<std::string>& parts, const std::string& text) {
  expect_error(kInput, parts, [&text] { parse(text); });
}

TEST(Npy, RoundTripOfEveryDtype) {
  const TemporaryFolder folder;
  const std::string file = folder / "round.npy";
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor tensor = make_tensor(dtype, {1, 3}, std::vector<double>{0, 1, 1});
    if (dtype == DType::kBFloat16) {
      expect_error(kInput, {file, "bfloat16", ".pb"}, [&] { write_npy(file, tensor); });
      continue;
    }
    write_tensor_file(file, tensor);
    const Tensor read = read_tensor_file(file);
    EXPECT_EQ(read.dtype(), dtype);
    EXPECT_THAT(read.shape(), ElementsAre(1, 3));
    EXPECT_THAT(load<double>(read), ElementsAre(0, 1, 1)) << to_string(dtype);
  }
}

TEST(Npy, WritesWhatNumpyWrites) {
  const TemporaryFolder folder;
  const std::string file = folder / "bytes.npy";
  write_npy(file, make_tensor(DType::kUInt8, {2}, Ints{65, 66}));
  const auto mapped = MappedFile::open(file);
  const std::string text(reinterpret_cast<const char*>(mapped->bytes().data()),
                         mapped->bytes().size());
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
  header.append(128 - 10 - 1 - header.size(), ' ');
  EXPECT_EQ(text, npy(header + "\n", "AB"));
}

TEST(Npy, ShapesOfEveryRank) {
  const TemporaryFolder folder;
  const std::string file = folder / "rank.npy";
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 4}, Shape{1, 1, 1, 1, 1, 1}}) {
    write_npy(file, Tensor::make(DType::kInt32, shape));
    EXPECT_EQ(read_npy(file).shape(), shape);
  }
}

TEST(Npy, HeadersAsOthersWriteThem) {
  EXPECT_THAT(load<double>(parse(npy("{\"shape\":(2L,),'fortran_order':False,'descr':'<i2'}",
                                     std::string("\1\0\2\0", 4)))),
              ElementsAre(1, 2));
  const std::string plain = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2)}  \n";
  EXPECT_THAT(parse(npy(plain, "AB", 2)).shape(), ElementsAre(1, 2));
  EXPECT_THAT(parse(npy(plain, "AB", 3)).shape(), ElementsAre(1, 2));
}

TEST(Npy, FortranOrderIsTurnedAround) {
  // [[1, 2, 3], [4, 5, 6]] column by column
  const Tensor tensor =
      parse(npy("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }", "\1\4\2\5\3\6"));
  EXPECT_THAT(tensor.shape(), ElementsAre(2, 3));
  EXPECT_THAT(load<double>(tensor), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Npy, ElementsAreMappedWhereTheyAreAligned) {
  const TemporaryFolder folder;
  const std::string file = folder / "mapped.npy";
  write_npy(file, make_tensor(DType::kFloat64, {4}, Ints{1, 2, 3, 4}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read_npy(file).data()) % 64, 0U);
}

TEST(Npy, WhatIsNoArray) {
  expect_wrong({"a.npy", "no .npy file"}, "hello");
  expect_wrong({"a.npy"}, "\x93NUMPY");
  expect_wrong({"format 9"}, npy("{}", "", 9));
  expect_wrong({"within its header"}, npy("{'descr': '<f4'", "").substr(0, 20));
  expect_wrong({"lacks"}, npy("{}", ""));
  expect_wrong({"lacks"}, npy("{'descr': '<f4', 'fortran_order': False}", ""));
  expect_wrong({"'color'"}, npy("{'color': 'red'}", ""));
  for (const char* header :
       {"", "{", "{'descr", "{'descr':}", "{'descr': '<f4' 'x'}", "{'shape': (1 2)}",
        "{'shape': (-1,)}", "{'shape': (99999999999999999999,)}", "{'shape': 3}",
        "{'fortran_order': Maybe}", "{} {}"}) {
    expect_wrong({"a.npy", "no array of numbers"}, npy(header, ""));
  }
}

TEST(Npy, DtypesThatAreNotSupported) {
  const auto with = [](const char* descr) {
    return npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ()}}", descr),
               "12345678");
  };
  expect_wrong({"a.npy", "big-endian"}, with(">f8"));
  for (const char* descr : {"<c8", "<U2", "|O", "|V2", "", "<", "f", "<M8[ns]"}) {
    expect_wrong({"a.npy", "not supported"}, with(descr));
  }
  expect_wrong({"no array of numbers"}, npy("{'descr': [('x', '<f4')], 'shape': ()}", ""));
}

TEST(Npy, WrongNumbersOfBytes) {
  const auto shaped = [](const char* shape) {
    return npy(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}}}", shape),
               "1234");
  };
  expect_wrong({"4 bytes", "expected 8", "float[2]"}, shaped("(2,)"));
  expect_wrong({"4 bytes", "expected 0"}, shaped("(0,)"));
  expect_wrong({"4 bytes"}, shaped("(1152921504606846976,)"));
  expect_wrong({"claims the shape"}, shaped("(1152921504606846976, 1152921504606846976)"));
}

TEST(Npy, MissingFiles) {
  expect_error(kInput, {"/nonexistent.npy", "No such file"}, [] { read_npy("/nonexistent.npy"); });
  expect_error(ErrorCode::kIo, {"/nonexistent/x.npy"},
               [] { write_npy("/nonexistent/x.npy", Tensor::make(DType::kInt8, {1})); });
}

}  // namespace
}  // namespace braze::test
