// 128-bit content hashes (XXH3): names of cache entries, checksums of files. Not for secrets.
#pragma once

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace braze {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
};

/// 32 lower-case hexadecimal digits, the high half first.
inline std::string to_string(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

/// The hash of bytes that come in pieces. How they were cut does not matter.
class Hasher {
 public:
  Hasher() { XXH3_128bits_reset(&state_); }

  void add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(&state_, bytes.data(), bytes.size());
  }
  /// A text and its length, so that "ab","c" and "a","bc" differ.
  void add(std::string_view text) {
    add_value(text.size());
    add(std::as_bytes(std::span(text)));
  }
  /// The bytes of a number or an enum.
  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  void add_value(T value) {
    add(std::as_bytes(std::span(&value, 1)));
  }
  [[nodiscard]] Hash128 digest() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.high64, hash.low64};
  }

 private:
  XXH3_state_t state_;
};

/// The hash of bytes that are all there.
inline Hash128 hash_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

}  // namespace braze
