// The cache of compiled kernels: hits, damage, bounds, many at once, folders that refuse.
#include "exec/cuda/kernel_cache.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "exec_cuda/fakes.hpp"

namespace braze::cuda {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
Hash128 key_of(const std::string& text) { return hash_of(bytes_of(text)); }

/// A process that does `run` and ends well if that returns true.
template <class Run>
pid_t start_child(Run run) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run() ? 0 : 1);
  return child;
}
bool succeeded(pid_t child) {
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}
template <class Run>
bool in_child(Run run) {
  return succeeded(start_child(run));
}

/// Compiles by putting "image of " in front; counts.
class CountingCompiler final : public Compiler {
 public:
  explicit CountingCompiler(std::vector<std::string>& log) : log_(log) {}
  std::vector<std::string> compile(std::span<const std::string> sources) override {
    std::vector<std::string> images;
    for (const std::string& source : sources) {
      log_.push_back(source);
      images.push_back("image of " + source);
    }
    return images;
  }

 private:
  std::vector<std::string>& log_;
};

class KernelCacheTest : public testing::Test {
 protected:
  std::vector<fs::path> files() const {
    std::vector<fs::path> result;
    if (fs::exists(folder()))
      for (const auto& entry : fs::directory_iterator(folder())) result.push_back(entry.path());
    return result;
  }
  fs::path folder() const { return root_.path() / "kernels"; }
  fs::path file_of(const std::string& name) const {
    return folder() / (to_string(key_of(name)) + ".cubin");
  }
  /// Says that an entry was used so many seconds ago.
  void age(const fs::path& file, int seconds) const {
    timespec times[2] = {{::time(nullptr) - seconds, 0}, {::time(nullptr) - seconds, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  }

  TemporaryFolder root_;
};

TEST_F(KernelCacheTest, FindsWhatWasStored) {
  KernelCache cache(root_.path());
  EXPECT_EQ(cache.find(key_of("a")), std::nullopt);
  const std::string image("\0binary\0", 8);
  cache.store(key_of("a"), bytes_of(image));
  cache.store(key_of("empty"), {});
  EXPECT_EQ(cache.find(key_of("a")), image);
  EXPECT_EQ(cache.find(key_of("empty")), "");
  EXPECT_EQ(KernelCache(root_.path()).find(key_of("a")), image);
  EXPECT_EQ(cache.find(key_of("b")), std::nullopt);
  EXPECT_EQ(cache.warning(), std::nullopt);
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(KernelCacheTest, EveryDamageIsAMissAndIsReplaced) {
  KernelCache cache(root_.path());
  const std::string image(1000, 'x');
  cache.store(key_of("a"), bytes_of(image));
  const std::string whole = read_text(file_of("a"));
  std::vector<std::string> damaged = {"", whole.substr(0, 10), whole.substr(0, 47),
                                      whole.substr(0, whole.size() - 1), whole + "y"};
  for (std::size_t at = 0; at < whole.size(); at += at < 60 ? 1 : 100) {
    damaged.push_back(whole);
    damaged.back()[at] ^= 4;
  }
  for (const std::string& text : damaged) {
    write_text(file_of("a"), text);
    EXPECT_EQ(cache.find(key_of("a")), std::nullopt) << text.size();
  }
  cache.store(key_of("a"), bytes_of(image));
  EXPECT_EQ(cache.find(key_of("a")), image);
}

TEST_F(KernelCacheTest, AnotherKeysEntryUnderThisName) {
  KernelCache cache(root_.path());
  cache.store(key_of("a"), bytes_of("image"));
  fs::copy_file(file_of("a"), file_of("b"));
  EXPECT_EQ(cache.find(key_of("b")), std::nullopt);
}

TEST_F(KernelCacheTest, LinksPipesAndFoldersAreNoEntries) {
  KernelCache cache(root_.path());
  cache.store(key_of("a"), bytes_of("image"));
  fs::create_symlink(file_of("a"), file_of("link"));
  fs::create_directory(file_of("folder"));
  ASSERT_EQ(::mkfifo(file_of("pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "folder", "pipe"})
    EXPECT_EQ(cache.find(key_of(name)), std::nullopt) << name;
}

TEST_F(KernelCacheTest, WhatWasNotUsedForLongestGoesFirst) {
  const std::string image(1000, 'x');  // 1048 bytes with its header
  KernelCache cache(root_.path(), 3500);
  for (const char* name : {"a", "b", "c"}) cache.store(key_of(name), bytes_of(image));
  age(file_of("a"), 300);
  age(file_of("b"), 200);
  age(file_of("c"), 100);
  cache.trim();
  EXPECT_EQ(files().size(), 3U);
  EXPECT_EQ(cache.find(key_of("a")), image);  // used now
  cache.store(key_of("d"), bytes_of(image));
  cache.trim();
  EXPECT_EQ(cache.find(key_of("b")), std::nullopt);
  for (const char* name : {"a", "c", "d"}) EXPECT_EQ(cache.find(key_of(name)), image) << name;
}

TEST_F(KernelCacheTest, AnImageAboveTheLimitIsNotStored) {
  KernelCache cache(root_.path(), 100);
  cache.store(key_of("a"), bytes_of(std::string(100, 'x')));
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(cache.warning(), std::nullopt);
}

TEST_F(KernelCacheTest, TemporaryFilesOfTheDeadAreRemoved) {
  KernelCache cache(root_.path());
  write_text(folder() / ".new-dead00", "half");
  write_text(folder() / ".new-alive0", "half");
  write_text(folder() / "notes.txt", "not ours");
  age(folder() / ".new-dead00", 7200);
  cache.trim();
  EXPECT_FALSE(fs::exists(folder() / ".new-dead00"));
  EXPECT_TRUE(fs::exists(folder() / ".new-alive0"));
  EXPECT_TRUE(fs::exists(folder() / "notes.txt"));
}

TEST_F(KernelCacheTest, AFolderThatCannotBeMadeOnlyCostsTheCaching) {
  write_text(root_.path() / "file", "");
  KernelCache cache(root_.path() / "file");
  std::vector<std::string> log;
  CachingCompiler compiler(std::make_unique<CountingCompiler>(log), "id", cache);
  const std::vector<std::string> sources = {"a", "b"};
  EXPECT_EQ(compiler.compile(sources)[1], "image of b");
  ASSERT_TRUE(cache.warning().has_value());
  EXPECT_THAT(*cache.warning(), HasSubstr("kernels are not cached: cannot create"));
}

TEST_F(KernelCacheTest, AReadOnlyFolderStillServes) {
  KernelCache(root_.path()).store(key_of("a"), bytes_of("image"));
  fs::permissions(root_.path(), fs::perms::owner_all | fs::perms::others_exec);
  fs::permissions(folder(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                                fs::perms::others_exec);
  EXPECT_TRUE(in_child([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return false;
    KernelCache cache(root_.path());
    if (cache.find(key_of("a")) != "image") return false;
    cache.store(key_of("b"), bytes_of("image"));
    return cache.warning().value_or("").find("Permission denied") != std::string::npos;
  }));
  fs::permissions(folder(), fs::perms::owner_all);
}

TEST_F(KernelCacheTest, AFullDiskOnlyCostsTheCaching) {
  // A file may not grow past the limit that the child sets: write() fails as on a full disk.
  EXPECT_TRUE(in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    KernelCache cache(root_.path());
    cache.store(key_of("a"), bytes_of(std::string(1000, 'x')));
    return cache.warning().value_or("").find("cannot write") != std::string::npos &&
           !cache.find(key_of("a"));
  }));
  EXPECT_TRUE(files().empty());  // nothing half-written is left
}

TEST_F(KernelCacheTest, ManyProcessesAndThreadsAtOnce) {
  constexpr int kProcesses = 4;
  constexpr int kKeys = 12;
  const auto image = [](int key) {
    return std::string(static_cast<std::size_t>(500 + 300 * key), static_cast<char>('a' + key));
  };
  const std::uint64_t limit = 10000;  // less than all keys need: they evict each other's
  const auto process = [&](int p) {
    KernelCache cache(root_.path(), limit);
    std::atomic<int> wrong = 0;
    const auto thread = [&](int t) {
      for (int round = 0; round < 20; ++round) {
        for (int k = 0; k < kKeys; ++k) {
          const int key = (k * 5 + p + t) % kKeys;
          const auto found = cache.find(key_of(std::to_string(key)));
          if (found && *found != image(key)) ++wrong;
          if (!found) cache.store(key_of(std::to_string(key)), bytes_of(image(key)));
        }
        cache.trim();
      }
    };
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) threads.emplace_back(thread, t);
    threads.clear();
    return wrong == 0 && !cache.warning();
  };
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p)
    children.push_back(start_child([&, p] { return process(p); }));
  for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
  KernelCache(root_.path(), limit).trim();
  std::uint64_t total = 0;
  for (const fs::path& file : files()) {
    EXPECT_EQ(file.extension(), ".cubin");
    total += fs::file_size(file);
  }
  EXPECT_LE(total, limit);
  EXPECT_GT(total, 0U);
}

TEST_F(KernelCacheTest, CompilesOnlyWhatIsMissing) {
  KernelCache cache(root_.path());
  std::vector<std::string> log;
  const auto compiler = [&](const char* identity) {
    return CachingCompiler(std::make_unique<CountingCompiler>(log), identity, cache);
  };
  const std::vector<std::string> first = {"a", "b", "a"};
  const std::vector<std::string> second = {"c", "a", "c", "b"};
  auto one = compiler("sm_90");
  EXPECT_THAT(one.compile(first), testing::ElementsAre("image of a", "image of b", "image of a"));
  EXPECT_THAT(log, testing::ElementsAre("a", "b"));
  auto again = compiler("sm_90");
  EXPECT_THAT(again.compile(second),
              testing::ElementsAre("image of c", "image of a", "image of c", "image of b"));
  EXPECT_THAT(log, testing::ElementsAre("a", "b", "c"));
  write_text(files()[0], "damaged");
  EXPECT_THAT(again.compile(second),
              testing::ElementsAre("image of c", "image of a", "image of c", "image of b"));
  EXPECT_EQ(log.size(), 4U);
  again.compile(second);
  EXPECT_EQ(log.size(), 4U);
  auto other = compiler("sm_80");
  other.compile(first);
  EXPECT_EQ(log.size(), 6U);
}

TEST(CacheFolder, OptionThenEnvironmentThenHome) {
  ::setenv("BRAZE_CACHE_DIR", "/b", 1);
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(cache_folder("/o"), "/o");
  EXPECT_EQ(cache_folder(""), "/b");
  ::unsetenv("BRAZE_CACHE_DIR");
  EXPECT_EQ(cache_folder(""), "/x/braze");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(cache_folder(""), "/h/.cache/braze");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(cache_folder(""), "/h/.cache/braze");
  ::unsetenv("HOME");
  EXPECT_EQ(cache_folder(""), "");
  KernelCache none(cache_folder(""));
  none.store(key_of("a"), bytes_of("image"));
  EXPECT_EQ(none.find(key_of("a")), std::nullopt);
  EXPECT_THAT(none.warning().value_or(""), HasSubstr("no folder"));
}

}  // namespace
}  // namespace braze::cuda
