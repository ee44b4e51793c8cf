#include "exec/engine_file.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "exec/blobs.hpp"
#include "exec/cbor.hpp"
#include "exec/check_plan.hpp"
#include "exec/json.hpp"
#include "exec/plan_json.hpp"
#include "kernels/cpu/families.hpp"
#include "kernels/cuda/families.hpp"
#include "target/device.hpp"

namespace braze {
namespace {

static_assert(std::endian::native == std::endian::little, "engine files are little-endian");

constexpr std::string_view kVersion = BRAZE_VERSION;
static_assert(kVersion.size() < EngineHeader{}.version.size());

constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = kBlobAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::span<const std::byte> bytes_of(const EngineHeader& header) {
  return std::as_bytes(std::span(&header, 1));
}

std::span<const std::byte> hashed_bytes_of(const EngineHeader& header) {
  return bytes_of(header).first(offsetof(EngineHeader, hash_high));
}

/// Calls put(bytes) for all that follows the header, in order.
template <class Put>
void put_body(std::span<const std::uint8_t> json, const std::vector<BlobWriter::Blob>& blobs,
              const Put& put) {
  static constexpr std::byte kZeros[kBlobAlignment] = {};
  std::size_t position = 0;
  const auto put_padded = [&](std::span<const std::byte> bytes) {
    put(bytes);
    position += bytes.size();
    put(std::span(kZeros).first(aligned(position) - position));
    position = aligned(position);
  };
  put_padded(std::as_bytes(json));
  for (const BlobWriter::Blob& blob : blobs)
    put_padded({blob.tensor.as<std::byte>(), blob.tensor.bytes()});
}

/// What is not as it should be in a header and the size of its file; "" if nothing.
std::string wrong_header(const EngineHeader& header, std::size_t file_bytes) {
  if (header.magic != kEngineMagic) return "it does not begin as an engine file does";
  const std::string_view version(header.version.data(),
                                 ::strnlen(header.version.data(), header.version.size()));
  if (header.format != kEngineFormat || version != kVersion) {
    return fmt::format(
        "it has format {} of Braze {:?}, expected format {} of Braze {}; compile the model again",
        header.format, version, kEngineFormat, kVersion);
  }
  if (header.file_bytes != file_bytes)
    return fmt::format("it has {} bytes, expected {}", file_bytes, header.file_bytes);
  if (aligned(file_bytes) != file_bytes)
    return fmt::format("it has {} bytes, expected a multiple of {}", file_bytes, kBlobAlignment);
  if (header.json_bytes > file_bytes - sizeof header)
    return fmt::format("its plan has {} bytes, expected less than the file's {}", header.json_bytes,
                       file_bytes);
  return "";
}

Plan read_checked(const std::shared_ptr<const MappedFile>& mapped) {
  const std::span<const std::byte> bytes = mapped->bytes();
  EngineHeader header;
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kEngineMagic.data(), 8) != 0) {
    fail(ErrorCode::kModelInvalid, "it has {} bytes and {}", bytes.size(),
         bytes.size() < sizeof header ? "an engine file has a header of 64"
                                      : "does not begin as an engine file does");
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (const std::string wrong = wrong_header(header, bytes.size()); !wrong.empty())
    fail(ErrorCode::kModelInvalid, "{}", wrong);
  const std::span<const std::byte> body = bytes.subspan(sizeof header);
  Hasher hasher;
  hasher.add(hashed_bytes_of(header));
  hasher.add(body);
  const Hash128 stored{header.hash_high, header.hash_low};
  if (hasher.digest() != stored) {
    fail(ErrorCode::kModelInvalid, "it is damaged: its checksum is {}, expected {}",
         to_string(hasher.digest()), to_string(stored));
  }
  const std::span<const std::byte> json = body.first(static_cast<std::size_t>(header.json_bytes));
  if (!is_plain_cbor(json))
    fail(ErrorCode::kModelInvalid, "its plan is no CBOR as Braze writes it");
  const auto* text = reinterpret_cast<const std::uint8_t*>(json.data());
  const BlobReader blobs(body.subspan(std::min(aligned(json.size()), body.size())), mapped);
  Plan plan = read_plan(Json::from_cbor(text, text + json.size()), blobs);
  if (plan.device.kind == DeviceKind::kCpu) {
    Device device = cpu_device(1);
    device.max_error = plan.device.max_error;
    check_plan(plan, device, cpu::registry());
  } else {
    Device device = cuda_device(plan.device.sm);
    device.units = plan.device.units;
    device.tf32 = plan.device.tf32;
    check_plan(plan, device, cuda::registry_with_cudnn());
  }
  return plan;
}

}  // namespace

void write_engine(const std::filesystem::path& file, const Plan& plan) {
  BlobWriter blobs;
  const std::vector<std::uint8_t> json = Json::to_cbor(to_json(plan, blobs));
  EngineHeader header;
  std::copy(kVersion.begin(), kVersion.end(), header.version.begin());
  header.json_bytes = json.size();
  header.file_bytes = sizeof header;
  const auto count = [&](std::span<const std::byte> bytes) { header.file_bytes += bytes.size(); };
  put_body(json, blobs.blobs(), count);

  Hasher hasher;
  hasher.add(hashed_bytes_of(header));
  put_body(json, blobs.blobs(), [&](std::span<const std::byte> bytes) { hasher.add(bytes); });
  header.hash_high = hasher.digest().high;
  header.hash_low = hasher.digest().low;

  FileWriter writer(file);
  writer.write(bytes_of(header));
  put_body(json, blobs.blobs(), [&](std::span<const std::byte> bytes) { writer.write(bytes); });
  writer.commit();
}

Plan read_engine(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file, ErrorCode::kModelInvalid);
  const auto refuse = [&](const char* why) {
    fail(ErrorCode::kModelInvalid, "cannot load engine file '{}': {}", file.string(), why);
  };
  try {
    return read_checked(mapped);
  } catch (const Exception& error) {
    if (error.error().code == ErrorCode::kOutOfMemory) throw;
    refuse(error.what());
  } catch (const Json::exception& error) {
    refuse(error.what());
  }
  return {};
}

bool has_engine_magic(const std::filesystem::path& file) {
  std::array<char, kEngineMagic.size()> begin{};
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return false;
  std::ifstream stream(file, std::ios::binary);
  return stream.read(begin.data(), begin.size()).good() && begin == kEngineMagic;
}

}  // namespace braze
