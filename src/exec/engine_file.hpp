// Engine files: a plan with the constants it needs, to be run without its ONNX file.
//
//   header     EngineHeader, 64 bytes
//   json       CBOR of the plan (exec/plan_json.hpp), json_bytes of it, then zeros up to a multiple
//              of 64
//   constants  blobs, each 64-byte aligned, zeros between them; mapped when read, not copied
// Little-endian. The same plan gives the same bytes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>

#include "plan/plan.hpp"

namespace braze {

inline constexpr std::array<char, 8> kEngineMagic = {'\x89', 'B', 'R', 'A', 'Z', 'E', '\n', '\x1a'};
inline constexpr std::uint32_t kEngineFormat = 4;

struct EngineHeader {
  std::array<char, 8> magic = kEngineMagic;
  std::uint32_t format = kEngineFormat;
  std::uint32_t reserved = 0;
  std::array<char, 16> version = {};  // of Braze, padded with zeros
  std::uint64_t file_bytes = 0;
  std::uint64_t json_bytes = 0;
  std::uint64_t hash_high = 0;  // XXH3-128 of the header up to here and of all that follows it
  std::uint64_t hash_low = 0;
};
static_assert(sizeof(EngineHeader) == 64);

/// Writes a plan. kIo naming the file if that fails; an older file of the name then stays as it
/// was.
void write_engine(const std::filesystem::path& file, const Plan& plan);

/// Reads a plan. Its constants share the mapped file; plan.device has a name, sm, units and tf32
/// only.
/// kModelInvalid naming the file if it is missing, no engine file, of another format or version,
/// truncated, damaged, or holds a plan that check_plan() refuses: what it returns is safe to run.
Plan read_engine(const std::filesystem::path& file);

/// True if there is such a file and it begins as an engine file does.
bool has_engine_magic(const std::filesystem::path& file);

}  // namespace braze
