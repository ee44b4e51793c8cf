#include "base/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace braze {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

[[noreturn]] void fail_to_read(const std::filesystem::path& file, ErrorCode missing) {
  const int error = errno;
  const bool absent = error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG;
  fail(absent ? missing : ErrorCode::kIo, "cannot read '{}': {}", file.string(),
       std::strerror(error));
}

/// A name in the same folder that no other writer, in this process or another, uses.
std::filesystem::path temporary_name(const std::filesystem::path& file) {
  static std::atomic<unsigned> count{0};
  std::filesystem::path name = file;
  name.replace_filename(
      fmt::format(".{}.{}-{}.tmp", file.filename().string(), ::getpid(), count.fetch_add(1)));
  return name;
}

/// True for devices and pipes, which a rename would replace.
bool is_special(const std::filesystem::path& file) {
  struct stat info{};
  return ::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/// Makes a rename in this folder last through a power failure, as far as the file system can.
void sync_folder(const std::filesystem::path& folder) {
  const Descriptor fd(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() >= 0) ::fsync(fd.get());
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& file,
                                                   ErrorCode missing) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0) fail_to_read(file, missing);
  if (!S_ISREG(info.st_mode)) {
    fail(missing, "cannot read '{}': it is {}", file.string(),
         S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
  }
  std::span<const std::byte> bytes;
  if (info.st_size > 0) {
    const auto size = static_cast<std::size_t>(info.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) fail_to_read(file, ErrorCode::kIo);
    bytes = {static_cast<const std::byte*>(data), size};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(file, bytes));
}

FileWriter::FileWriter(std::filesystem::path file) : path_(std::move(file)) {
  int flags = O_WRONLY | O_CLOEXEC;
  if (!is_special(path_)) {
    if (std::error_code ignored; std::filesystem::is_directory(path_, ignored)) {
      fail(ErrorCode::kIo, "cannot write '{}': it is a folder", path_.string());
    }
    temporary_ = temporary_name(path_);
    flags |= O_CREAT | O_EXCL;
  }
  const int fd = ::open(temporary_.empty() ? path_.c_str() : temporary_.c_str(), flags, 0666);
  if (fd < 0) fail_errno("create");
  file_ = ::fdopen(fd, "wb");
  if (file_ == nullptr) {
    ::close(fd);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    fail(ErrorCode::kOutOfMemory, "cannot write '{}': out of memory", path_.string());
  }
}

FileWriter::~FileWriter() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileWriter::fail_errno(const char* what) const {
  fail(ErrorCode::kIo, "cannot {} '{}': {}", what, path_.string(), std::strerror(errno));
}

void FileWriter::write(std::span<const std::byte> bytes) {
  ensure(file_ != nullptr, "a file is written before it is committed");
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail_errno("write");
  position_ += bytes.size();
}

void FileWriter::commit() {
  ensure(file_ != nullptr, "a file is committed once");
  if (std::fflush(file_) != 0) fail_errno("write");
  if (!temporary_.empty() && ::fsync(::fileno(file_)) != 0) fail_errno("write");
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail_errno("write");
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno("write");
  temporary_.clear();
  sync_folder(path_.parent_path());
}

void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  FileWriter writer(file);
  writer.write(bytes);
  writer.commit();
}

}  // namespace braze
