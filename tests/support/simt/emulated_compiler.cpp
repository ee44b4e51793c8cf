#include "support/simt/emulated_compiler.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "support/temporary_folder.hpp"

extern char** environ;

namespace braze::test {

namespace fs = std::filesystem;

namespace {

// Traps at misaligned accesses are what the GPU does. Types are punned as CUDA allows it.
const std::vector<std::string> kFlags{"-std=c++17",
                                      "-O1",
                                      "-g1",
                                      "-w",
                                      "-fPIC",
                                      "-shared",
                                      "-fvisibility=hidden",
                                      "-fno-gnu-unique",
                                      "-fno-strict-aliasing",
                                      "-fno-exceptions",
                                      "-fno-rtti",
                                      "-fno-threadsafe-statics",
                                      "-ffp-contract=off",
                                      "-fsanitize=alignment",
                                      "-fsanitize-undefined-trap-on-error",
                                      "-DBRAZE_EMULATED"};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Written beside and renamed: several tests may do so at once.
void write(const fs::path& path, const std::string& text) {
  const fs::path draft = fmt::format("{}.{}", path.string(), ::getpid());
  std::ofstream(draft, std::ios::binary) << text;
  fs::rename(draft, path);
}

/// The exit status and what was printed.
std::pair<int, std::string> execute(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int status = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (status != 0) return {status, "cannot be started"};
  ::waitpid(child, &status, 0);
  const std::string text = read(log);
  fs::remove(log);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, text};
}

/// "g++ (Debian 12.2.0-14) 12.2.0", or "" where there is none.
const std::string& version() {
  static const std::string kVersion = [] {
    const TemporaryFolder folder;
    const auto [status, text] = execute({"g++", "--version"}, folder / "log");
    return status == 0 ? text.substr(0, text.find('\n')) : std::string();
  }();
  return kVersion;
}

const fs::path& simt_folder() {
  static const fs::path kFolder = fs::path(BRAZE_TESTS_DIR) / "support" / "simt";
  return kFolder;
}

/// The source, followed by what the machine needs to run its kernels.
std::string with_table(const std::string& source) {
  static const std::regex kEntry(
      R"(extern\s+"C"\s+__global__\s+(?:void\s+)?(?:__launch_bounds__\s*\(\s*([^(),]*)[^()]*\)\s*)?(?:void\s+)?(\w+)\s*\()");
  std::string entries;
  for (std::sregex_iterator i(source.begin(), source.end(), kEntry), end; i != end; ++i) {
    const std::string name = (*i)[2], threads = (*i)[1];
    entries += fmt::format(
        "    {{\"{0}\", [](const void* p) {{ braze::simt::call({0}, p); }}, "
        "braze::simt::parameter_bytes({0}), {1}}},\n",
        name, threads.empty() ? "0" : threads);
  }
  if (entries.empty())
    fail(ErrorCode::kInternal, "a CUDA source has no 'extern \"C\" __global__' kernel:\n{}",
         source);
  return "#include \"simt.hpp\"\n#line 1 \"kernel.cu\"\n" + source + R"(
extern "C" {
extern __attribute__((visibility("hidden"))) unsigned char __bss_start[], _end[];
}
namespace braze::device {}
namespace braze::simt {
using namespace braze::device;  // emitted kernels are there
Runtime* runtime = reinterpret_cast<Runtime*>(1);  // in .data: .bss is the static shared memory
static const Entry kEntries[] = {
)" + entries +
         R"(};
extern "C" __attribute__((visibility("default"))) const ModuleTable braze_simt_module = {
    kEntries, sizeof kEntries / sizeof kEntries[0], &runtime, __bss_start, _end};
}  // namespace braze::simt
)";
}

}  // namespace

bool EmulatedCompiler::available() { return !version().empty(); }

EmulatedCompiler::EmulatedCompiler(int sm, std::vector<cuda::DeviceHeader> headers)
    : sm_(sm), headers_(std::move(headers)) {
  cache_ = fs::read_symlink("/proc/self/exe").parent_path() / "simt-cache";
  Hasher hasher;
  for (const cuda::DeviceHeader& header : headers_) {
    hasher.add(header.name);
    hasher.add(header.text);
  }
  include_ = cache_ / ("include-" + to_string(hasher.digest()).substr(0, 16));
  for (const cuda::DeviceHeader& header : headers_) {
    const fs::path path = include_ / header.name;
    fs::create_directories(path.parent_path());
    if (!fs::exists(path)) write(path, header.text);
  }
  fs::create_directories(cache_);
}

fs::path EmulatedCompiler::image_of(const std::string& text) const {
  Hasher hasher;
  hasher.add(version());
  hasher.add_value(sm_);
  for (const std::string& flag : kFlags) hasher.add(flag);
  for (const char* name :
       {"simt.hpp", "runtime.hpp", "ptx.hpp", "formats.hpp", "tma.hpp", "ptx_sm90.hpp"})
    hasher.add(read(simt_folder() / name));
  // The device headers that the source includes, however deep.
  static const std::regex kInclude(R"(#\s*include\s*[<"]([^">]+)[">])");
  std::set<std::string> seen;
  std::vector<std::string> texts{text};
  while (!texts.empty()) {
    const std::string next = std::move(texts.back());
    texts.pop_back();
    hasher.add(next);
    for (std::sregex_iterator i(next.begin(), next.end(), kInclude), end; i != end; ++i) {
      const std::string name = (*i)[1];
      const auto header = std::find_if(headers_.begin(), headers_.end(),
                                       [&](const auto& other) { return other.name == name; });
      if (header != headers_.end() && seen.insert(name).second) texts.emplace_back(header->text);
    }
  }
  return cache_ / (to_string(hasher.digest()) + ".so");
}

std::vector<std::string> EmulatedCompiler::compile(std::span<const std::string> sources) {
  if (!available()) fail(ErrorCode::kDevice, "kernels are emulated with g++, which was not found");
  std::vector<std::string> images, texts;
  std::vector<std::size_t> missing;
  for (const std::string& source : sources) {
    std::string text = with_table(source);
    images.push_back(image_of(text).string());
    if (!fs::exists(images.back()) &&
        std::find(images.begin(), images.end() - 1, images.back()) == images.end() - 1)
      missing.push_back(texts.size());
    texts.push_back(std::move(text));
  }

  std::atomic<std::size_t> next = 0;
  std::vector<std::string> logs(sources.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < missing.size(); i = next++) {
      const std::string draft = fmt::format("{}.{}", images[missing[i]], ::getpid());
      const fs::path folder = draft + ".source",
                     source = folder / "kernel.cu";  // its name in errors
      fs::create_directories(folder);
      std::ofstream(source, std::ios::binary) << texts[missing[i]];
      std::vector<std::string> command{"g++"};
      command.insert(command.end(), kFlags.begin(), kFlags.end());
      command.insert(command.end(),
                     {fmt::format("-D__CUDA_ARCH__={}0", sm_), "-I", include_.string(), "-I",
                      simt_folder().string(), "-o", draft, "-x", "c++", source});
      const auto [status, log] = execute(command, draft + ".log");
      if (status == 0) {
        fs::rename(draft, images[missing[i]]);
        fs::remove_all(folder);
      } else {
        logs[missing[i]] = log.empty() ? "g++ failed" : log;
      }
    }
  };
  std::vector<std::jthread> helpers;
  const std::size_t threads =
      std::min<std::size_t>(missing.size(), std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  for (std::size_t i = 0; i < logs.size(); ++i)
    if (!logs[i].empty())
      fail(ErrorCode::kInternal, "a CUDA source does not compile for the emulated GPU:\n{}\n{}",
           logs[i], sources[i]);
  return images;
}

}  // namespace braze::test
