#include "exec/cuda/kernel_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>

#include "base/error.hpp"
#include "base/file.hpp"

namespace braze::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic = {'B', 'R', 'A', 'Z', 'E', 'K', '0', '1'};
constexpr const char* kSuffix = ".cubin";
constexpr const char* kTemporaryPrefix = ".new-";
/// A temporary file this old has lost its writer.
constexpr std::time_t kAbandonedSeconds = 3600;

struct Header {
  std::array<char, 8> magic = kMagic;
  Hash128 key;
  std::uint64_t bytes = 0;
  Hash128 checksum;
};
static_assert(sizeof(Header) == 48, "a header has no padding");

bool read_all(int fd, void* data, std::size_t bytes) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(fd, next, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* data, std::size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(fd, next, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    next += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

/// A file of the folder, with what trim() goes by.
struct Entry {
  timespec used;
  std::uint64_t bytes;
  fs::path file;
};

bool used_earlier(const Entry& a, const Entry& b) {
  return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
}

}  // namespace

fs::path cache_folder(const fs::path& option) {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  if (!option.empty()) return option;
  if (fs::path folder = variable("BRAZE_CACHE_DIR"); !folder.empty()) return folder;
  // XDG: a relative path is to be ignored.
  if (const fs::path root = variable("XDG_CACHE_HOME"); root.is_absolute()) return root / "braze";
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache/braze";
  return {};
}

KernelCache::KernelCache(const fs::path& folder, std::uint64_t limit) : limit_(limit) {
  if (folder.empty()) {
    warn("there is no folder to cache kernels in: neither BRAZE_CACHE_DIR nor HOME is set");
  } else {
    folder_ = folder / "kernels";
  }
}

fs::path KernelCache::file_of(const Hash128& key) const {
  return folder_ / (to_string(key) + kSuffix);
}

std::optional<std::string> KernelCache::find(const Hash128& key) const {
  if (folder_.empty()) return std::nullopt;
  const Descriptor file(
      ::open(file_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat info{};
  Header header;
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      !read_all(file.get(), &header, sizeof header))
    return std::nullopt;
  if (header.magic != kMagic || header.key != key ||
      header.bytes != static_cast<std::uint64_t>(info.st_size) - sizeof header)
    return std::nullopt;
  std::string image(header.bytes, '\0');
  if (!read_all(file.get(), image.data(), image.size()) ||
      hash_of(std::as_bytes(std::span(image))) != header.checksum)
    return std::nullopt;
  ::futimens(file.get(), nullptr);  // used now; a read-only folder is nobody's to trim
  return image;
}

void KernelCache::store(const Hash128& key, std::span<const std::byte> image) {
  if (folder_.empty() || warning().has_value() || image.size() + sizeof(Header) > limit_) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    return warn(fmt::format("kernels are not cached: cannot create '{}': {}", folder_.string(),
                            error.message()));
  std::string temporary = (folder_ / (std::string(kTemporaryPrefix) + "XXXXXX")).string();
  const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  const auto give_up = [&](const char* what) {
    const int reason = errno;
    if (file.get() >= 0) ::unlink(temporary.c_str());
    warn(fmt::format("kernels are not cached: cannot {} a file in '{}': {}", what, folder_.string(),
                     std::strerror(reason)));
  };
  if (file.get() < 0) return give_up("create");
  Header header;
  header.key = key;
  header.bytes = image.size();
  header.checksum = hash_of(image);
  ::fchmod(file.get(), 0644);
  if (!write_all(file.get(), &header, sizeof header) ||
      !write_all(file.get(), image.data(), image.size()))
    return give_up("write");
  // Not synced: after a power failure the checksum tells a torn entry.
  if (::rename(temporary.c_str(), file_of(key).c_str()) != 0) return give_up("rename");
}

void KernelCache::trim() {
  if (folder_.empty()) return;
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  const std::time_t now = std::time(nullptr);
  std::error_code error;
  for (fs::directory_iterator item(folder_, error), end; !error && item != end;
       item.increment(error)) {
    const fs::path& file = item->path();
    struct stat info{};
    if (::lstat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (file.filename().string().starts_with(kTemporaryPrefix)) {
      if (now - info.st_mtime > kAbandonedSeconds) ::unlink(file.c_str());
      continue;
    }
    if (file.extension() != kSuffix) continue;
    const auto bytes = static_cast<std::uint64_t>(info.st_size);
    entries.push_back({info.st_mtim, bytes, file});
    total += bytes;
  }
  if (total <= limit_) return;
  std::ranges::sort(entries, used_earlier);
  for (const Entry& entry : entries) {
    if (total <= limit_) return;
    // Another process may have been here first: gone is gone.
    if (::unlink(entry.file.c_str()) == 0 || errno == ENOENT) total -= entry.bytes;
  }
}

std::optional<std::string> KernelCache::warning() const {
  const std::lock_guard lock(mutex_);
  return warning_.empty() ? std::nullopt : std::optional(warning_);
}

void KernelCache::warn(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (warning_.empty()) warning_ = reason;
}

std::vector<std::string> CachingCompiler::compile(std::span<const std::string> sources) {
  std::vector<Hash128> keys;
  std::map<Hash128, std::string> images;
  std::vector<std::string> missing;
  std::vector<Hash128> missing_keys;
  for (const std::string& source : sources) {
    Hasher hasher;
    hasher.add(std::string_view(identity_));
    hasher.add(std::string_view(source));
    const Hash128 key = hasher.digest();
    keys.push_back(key);
    if (images.contains(key)) continue;
    auto image = cache_.find(key);
    if (!image) {
      missing.push_back(source);
      missing_keys.push_back(key);
    }
    images[key] = std::move(image).value_or("");
  }
  if (!missing.empty()) {
    std::vector<std::string> compiled = compiler_->compile(missing);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      cache_.store(missing_keys[i], std::as_bytes(std::span(compiled[i])));
      images[missing_keys[i]] = std::move(compiled[i]);
    }
    cache_.trim();
  }
  std::vector<std::string> result;
  for (const Hash128& key : keys) result.push_back(images.at(key));
  return result;
}

}  // namespace braze::cuda
