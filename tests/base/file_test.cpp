#include "base/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <string>

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const fs::path& file) {
  const auto mapped = MappedFile::open(file);
  return {reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size()};
}

template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return {ErrorCode::kInternal, "no error"};
}

/// An empty folder for each test.
class File : public testing::Test {
 protected:
  [[nodiscard]] std::size_t files() const { return folder_.files().size(); }

  const TemporaryFolder folder_;
};

TEST_F(File, WritesAndMaps) {
  write_file(folder_ / "a", bytes_of("hello"));
  EXPECT_EQ(text_of(folder_ / "a"), "hello");
  write_file(folder_ / "a", bytes_of(""));
  EXPECT_EQ(text_of(folder_ / "a"), "");
  EXPECT_EQ(files(), 1);
}

TEST_F(File, MappingSurvivesReplacement) {
  write_file(folder_ / "a", bytes_of("old"));
  const auto old = MappedFile::open(folder_ / "a");
  write_file(folder_ / "a", bytes_of("new!"));
  EXPECT_EQ(std::memcmp(old->bytes().data(), "old", 3), 0);
  EXPECT_EQ(text_of(folder_ / "a"), "new!");
}

TEST_F(File, AppearsOnlyWhenItIsCommitted) {
  {
    FileWriter writer(folder_ / "a");
    writer.write(bytes_of("half"));
    EXPECT_EQ(writer.position(), 4U);
    EXPECT_FALSE(fs::exists(folder_ / "a"));
  }
  EXPECT_EQ(files(), 0);
  FileWriter writer(folder_ / "a");
  writer.write(bytes_of("one "));
  writer.write(bytes_of("two"));
  writer.commit();
  EXPECT_EQ(text_of(folder_ / "a"), "one two");
  EXPECT_EQ(files(), 1);
}

TEST_F(File, WritersOfOneNameDoNotMeet) {
  FileWriter first(folder_ / "a");
  FileWriter second(folder_ / "a");
  first.write(bytes_of("first"));
  second.write(bytes_of("second"));
  second.commit();
  first.commit();
  EXPECT_EQ(text_of(folder_ / "a"), "first");
  EXPECT_EQ(files(), 1);
}

TEST_F(File, FailedWriteKeepsTheOldFile) {
  write_file(folder_ / "a", bytes_of("precious"));
  struct rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const struct rlimit small{4096, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Error error =
      error_of([&] { write_file(folder_ / "a", bytes_of(std::string(1 << 20, 'x'))); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.code, ErrorCode::kIo);
  EXPECT_THAT(error.message, testing::HasSubstr(folder_ / "a"));
  EXPECT_EQ(text_of(folder_ / "a"), "precious");
  EXPECT_EQ(files(), 1);
}

TEST_F(File, FullDiskIsNamed) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  const Error error = error_of([] { write_file("/dev/full", bytes_of("x")); });
  EXPECT_EQ(error.code, ErrorCode::kIo);
  EXPECT_THAT(error.message, testing::HasSubstr("'/dev/full': No space left on device"));
}

TEST_F(File, DevicesAreWrittenDirectly) {
  write_file("/dev/null", bytes_of("x"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(File, PlacesThatCannotBeWritten) {
  const Error folder = error_of([&] { write_file(folder_.path(), bytes_of("x")); });
  EXPECT_EQ(folder.code, ErrorCode::kIo);
  EXPECT_THAT(folder.message, testing::HasSubstr("folder"));
  const Error missing = error_of([&] { write_file(folder_ / "no/a", bytes_of("x")); });
  EXPECT_EQ(missing.code, ErrorCode::kIo);
  EXPECT_THAT(missing.message, testing::HasSubstr("No such file"));
}

TEST_F(File, WhatCannotBeMapped) {
  const auto open = [](const fs::path& file) {
    return error_of([&] { (void)MappedFile::open(file, ErrorCode::kInput); });
  };
  EXPECT_EQ(open(folder_ / "none").code, ErrorCode::kInput);
  EXPECT_EQ(open(folder_.path()).code, ErrorCode::kInput);
  EXPECT_EQ(open("/dev/null").code, ErrorCode::kInput);
  write_file(folder_ / "a", bytes_of("x"));
  EXPECT_EQ(open(folder_ / "a/b").code, ErrorCode::kInput);
}

}  // namespace
}  // namespace braze::test
