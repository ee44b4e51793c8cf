// Compiled kernels on disk. An entry is a file named by its key:
//   magic (8 bytes)  key (16)  image size (8)  checksum of the image (16)  image
// It appears by a rename when it is whole, and is believed only if all of that fits, so any number
// of processes may share a folder, and a torn or damaged entry is a miss that the next store
// replaces. The time of last use is the file's modification time, set at every use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "exec/cuda/gpu.hpp"

namespace braze::cuda {

/// Where caches are: `option`, else BRAZE_CACHE_DIR, else $XDG_CACHE_HOME/braze, else
/// ~/.cache/braze; "" if the user has no home.
std::filesystem::path cache_folder(const std::filesystem::path& option);

class KernelCache {
 public:
  static constexpr std::uint64_t kDefaultLimit = std::uint64_t{512} << 20;

  /// `folder` need not exist ("": nothing is cached); of its own it makes "kernels" in it.
  explicit KernelCache(const std::filesystem::path& folder, std::uint64_t limit = kDefaultLimit);

  /// The image of a key, if it is there and whole.
  [[nodiscard]] std::optional<std::string> find(const Hash128& key) const;
  /// Failing (no space, no permission) only costs the caching: see warning().
  void store(const Hash128& key, std::span<const std::byte> image);
  /// Removes what was not used for longest until all entries together are within the limit, and
  /// temporary files that their writers left behind.
  void trim();
  /// Why something could not be stored; the first reason.
  [[nodiscard]] std::optional<std::string> warning() const;

 private:
  void warn(const std::string& reason);
  [[nodiscard]] std::filesystem::path file_of(const Hash128& key) const;

  std::filesystem::path folder_;  // "": nothing is cached
  std::uint64_t limit_;
  mutable std::mutex mutex_;
  std::string warning_;
};

/// A compiler that asks the cache first.
class CachingCompiler final : public Compiler {
 public:
  /// `identity` is all that an image depends on but its source: see NvrtcCompiler::identity().
  CachingCompiler(std::unique_ptr<Compiler> compiler, std::string identity, KernelCache& cache)
      : compiler_(std::move(compiler)), identity_(std::move(identity)), cache_(cache) {}

  std::vector<std::string> compile(std::span<const std::string> sources) override;

 private:
  std::unique_ptr<Compiler> compiler_;
  std::string identity_;
  KernelCache& cache_;
};

}  // namespace braze::cuda
