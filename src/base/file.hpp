// Files: mapped for reading, replaced as a whole when written.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>

#include "braze/error.hpp"

namespace braze {

/// A file descriptor that is closed on the way out.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  [[nodiscard]] int get() const { return fd_; }  ///< below 0: none was opened

 private:
  int fd_;
};

/// A regular file, read-only in memory. Its pages are read when first touched. Whoever truncates
/// the file while it is mapped ends the process; replacing it by rename (as FileWriter does) is
/// safe.
class MappedFile {
 public:
  /// `missing` is the error if there is no such regular file; kIo if it cannot be read.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& file,
                                                ErrorCode missing = ErrorCode::kIo);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// Page-aligned; empty for an empty file.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

/// Writes a file that appears under its name only when all of it is on the disk: a temporary file
/// in the same folder, fsync, rename. Whatever fails before that (kIo naming the file), an older
/// file of that name stays as it was and the temporary one is removed. Devices and pipes are
/// written directly.
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path file);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  void write(std::span<const std::byte> bytes);
  /// Bytes written so far.
  [[nodiscard]] std::size_t position() const { return position_; }
  /// The last call: puts the file in place.
  void commit();

 private:
  [[noreturn]] void fail_errno(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty: written directly
  std::FILE* file_ = nullptr;
  std::size_t position_ = 0;
};

/// FileWriter for bytes that are all there already.
void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes);

}  // namespace braze
