#include "model/npy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"

namespace braze {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;  // of the first element in the file

struct Kind {
  DType dtype;
  std::string_view code;  // without the byte order
};
constexpr Kind kKinds[] = {
    {DType::kFloat32, "f4"}, {DType::kFloat16, "f2"}, {DType::kFloat64, "f8"},
    {DType::kInt8, "i1"},    {DType::kUInt8, "u1"},   {DType::kInt16, "i2"},
    {DType::kUInt16, "u2"},  {DType::kInt32, "i4"},   {DType::kUInt32, "u4"},
    {DType::kInt64, "i8"},   {DType::kUInt64, "u8"},  {DType::kBool, "b1"},
};

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

/// The Python dictionary in an .npy header: {'descr': '<f4', 'fortran_order': False, 'shape': (2,
/// 3)}
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  Header parse() {
    Header header;
    expect("{");
    while (!accept("}")) {
      const std::string key = quoted();
      expect(":");
      if (key == "descr") {
        header.descr = quoted();
      } else if (key == "fortran_order") {
        header.fortran_order = accept("True");
        if (!*header.fortran_order) expect("False");
      } else if (key == "shape") {
        header.shape = tuple();
      } else {
        invalid(fmt::format("key '{}' in its header", key));
      }
      if (!accept(",")) {
        expect("}");
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) invalid("text after its header");
    return header;
  }

 private:
  [[noreturn]] void invalid(const std::string& found) const {
    fail(ErrorCode::kInput, "'{}' is no array of numbers: found {}", name_, found);
  }
  void skip_space() {
    const std::size_t start = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(start == std::string_view::npos ? rest_.size() : start);
  }
  bool accept(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (accept(token)) return;
    const std::string_view found = rest_.substr(0, 20);
    invalid(fmt::format("'{}' in its header, expected '{}'", found, token));
  }
  std::string quoted() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const std::size_t end = rest_.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos) {
      invalid("no quoted text where its header needs one");
    }
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  Shape tuple() {
    Shape shape;
    expect("(");
    while (!accept(")")) {
      skip_space();
      std::int64_t extent = 0;
      const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc() || extent < 0) invalid("a shape that is none in its header");
      rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
      accept("L");  // Python 2 wrote long integers so
      shape.push_back(extent);
      if (!accept(",")) {
        expect(")");
        break;
      }
    }
    return shape;
  }

  std::string_view rest_;
  const std::string& name_;
};

DType dtype_of(const std::string& descr, const std::string& name) {
  const std::string_view code =
      std::string_view(descr).substr(std::min<std::size_t>(1, descr.size()));
  const auto* const kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                        [code](const Kind& each) { return each.code == code; });
  if (kind == std::end(kKinds)) {
    fail(ErrorCode::kInput, "'{}' has elements of type '{}', which are not supported", name, descr);
  }
  const bool little = descr[0] == '<' || descr[0] == '|' || descr[0] == '=';
  if (!little && size_of(kind->dtype) > 1) {
    fail(ErrorCode::kInput, "'{}' is big-endian ('{}'), expected little-endian", name, descr);
  }
  return kind->dtype;
}

/// Fortran order, axis 0 running fastest, to C order.
Tensor to_row_major(const Tensor& column_major) {
  const Shape& shape = column_major.shape();
  Tensor result = Tensor::make(column_major.dtype(), shape);
  const std::size_t element = size_of(column_major.dtype());
  Shape index(shape.size(), 0);
  const auto* from = static_cast<const std::byte*>(column_major.data());
  auto* to = static_cast<std::byte*>(result.data());
  for (std::int64_t i = 0; i < result.count(); ++i) {
    std::int64_t offset = 0;  // Horner's rule, from the slowest axis of the source
    for (std::size_t axis = shape.size(); axis-- > 0;) offset = offset * shape[axis] + index[axis];
    std::memcpy(to, from + static_cast<std::size_t>(offset) * element, element);
    to += element;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
  return result;
}

/// The header's text, and where the elements begin.
std::pair<std::string_view, std::size_t> find_header(std::span<const std::byte> bytes,
                                                     const std::string& name) {
  const auto byte = [bytes](std::size_t i) { return std::to_integer<std::size_t>(bytes[i]); };
  if (!looks_like_npy(bytes) || bytes.size() < kMagic.size() + 4) {
    fail(ErrorCode::kInput, "'{}' is no .npy file", name);
  }
  const std::size_t version = byte(kMagic.size());
  if (version < 1 || version > 3) {
    fail(ErrorCode::kInput, "'{}' has .npy format {}; supported are 1 to 3", name, version);
  }
  const std::size_t digits = version == 1 ? 2 : 4;
  const std::size_t begin = kMagic.size() + 2 + digits;
  std::size_t length = 0;
  for (std::size_t i = 0; i < digits && begin <= bytes.size(); ++i) {
    length |= byte(kMagic.size() + 2 + i) << (8 * i);
  }
  if (begin > bytes.size() || length > bytes.size() - begin) {
    fail(ErrorCode::kInput, "'{}' ends within its header", name);
  }
  return {{reinterpret_cast<const char*>(bytes.data()) + begin, length}, begin + length};
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                 const std::string& name) {
  const auto [text, begin] = find_header(bytes, name);
  Header header = HeaderParser(text, name).parse();
  if (!header.descr || !header.fortran_order || !header.shape) {
    fail(ErrorCode::kInput, "'{}' lacks descr, fortran_order or shape in its header", name);
  }
  const DType dtype = dtype_of(*header.descr, name);
  std::int64_t expected = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : *header.shape) {
    if (__builtin_mul_overflow(expected, extent, &expected)) {
      fail(ErrorCode::kInput, "'{}' claims the shape {}", name, to_string(*header.shape));
    }
  }
  const std::size_t found = bytes.size() - begin;
  if (found != static_cast<std::size_t>(expected)) {
    fail(ErrorCode::kInput, "'{}' holds {} bytes of elements, expected {} for {}{}", name, found,
         expected, to_string(dtype), to_string(*header.shape));
  }
  const std::byte* data = bytes.data() + begin;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0;
  Tensor tensor = Tensor::share(dtype, *header.shape, std::move(owner), data);
  if (*header.fortran_order && header.shape->size() > 1) return to_row_major(tensor);
  return aligned && found > 0 ? tensor : tensor.clone();
}

Tensor read_npy(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file, ErrorCode::kInput);
  return parse_npy(mapped->bytes(), mapped, file.string());
}

void write_npy(const std::filesystem::path& file, const Tensor& tensor) {
  const auto* const kind =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&tensor](const Kind& each) { return each.dtype == tensor.dtype(); });
  if (kind == std::end(kKinds)) {
    fail(ErrorCode::kInput, "cannot write '{}': .npy has no {}; .pb has", file.string(),
         to_string(tensor.dtype()));
  }
  const Shape& shape = tensor.shape();
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   size_of(kind->dtype) == 1 ? '|' : '<', kind->code,
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  std::size_t digits = 2;
  const auto pad = [&] {
    const std::size_t size = kMagic.size() + 2 + digits + header.size() + 1;
    return (kAlignment - size % kAlignment) % kAlignment;
  };
  if (header.size() + kAlignment > 0xFFFF) digits = 4;
  header.append(pad(), ' ');
  header += '\n';

  std::string start(kMagic);
  start += digits == 2 ? '\1' : '\2';
  start += '\0';
  for (std::size_t i = 0; i < digits; ++i)
    start += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  FileWriter writer(file);
  writer.write(std::as_bytes(std::span(start)));
  writer.write(std::as_bytes(std::span(header)));
  writer.write({static_cast<const std::byte*>(tensor.data()), tensor.bytes()});
  writer.commit();
}

}  // namespace braze
