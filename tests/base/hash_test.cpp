#include "base/hash.hpp"

#include <gtest/gtest.h>

namespace braze::test {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Hash, IsXxh3OfTheBytes) {
  // XXH3's published value for no bytes at all.
  EXPECT_EQ(to_string(hash_of({})), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PiecesAreTheWhole) {
  const std::string text(1000, 'x');
  for (const std::size_t cut : {0U, 1U, 500U, 1000U}) {
    Hasher hasher;
    hasher.add(bytes_of(text).first(cut));
    hasher.add(bytes_of(text).subspan(cut));
    EXPECT_EQ(hasher.digest(), hash_of(bytes_of(text)));
  }
}

TEST(Hash, TextsKeepTheirBorders) {
  Hasher a;
  a.add(std::string_view("ab"));
  a.add(std::string_view("c"));
  Hasher b;
  b.add(std::string_view("a"));
  b.add(std::string_view("bc"));
  EXPECT_NE(a.digest(), b.digest());
}

TEST(Hash, OneBitChangesIt) {
  Hasher a;
  a.add_value(1);
  Hasher b;
  b.add_value(0);
  EXPECT_NE(a.digest(), b.digest());
}

}  // namespace
}  // namespace braze::test
